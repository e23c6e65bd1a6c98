#include "settings.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "place.h"
#include "scenario.h"

static int is_settable(enum reading reading)
{
    switch (reading) {
    case READ_persistence:
    case READ_compute_mode:
    case READ_mig_mode:
    case READ_power_limit:
    case READ_clock_graphics_application:
    case READ_clock_memory_application:
        return 1;
    default:
        return 0;
    }
}

static void setting_path(char path[PLACE_SIZE], unsigned gpu, enum reading reading)
{
    char name[80];
    snprintf(name, sizeof name, "set/%u.%s", gpu, reading_name(reading));
    place_run_path(path, name);
}

int settings_get(unsigned gpu, enum reading reading, int64_t *value)
{
    char path[PLACE_SIZE];
    long long wide;
    if (!is_settable(reading))
        return 0;
    setting_path(path, gpu, reading);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    int is_read = fscanf(file, "%lld", &wide) == 1;
    fclose(file);
    if (is_read)
        *value = wide;
    return is_read;
}

int settings_put(unsigned gpu, enum reading reading, int64_t value)
{
    char path[PLACE_SIZE], draft[PLACE_SIZE + 32];
    place_run_path(path, "");
    (void)mkdir(path, 0755);
    place_run_path(path, "set");
    (void)mkdir(path, 0755);
    setting_path(path, gpu, reading);
    snprintf(draft, sizeof draft, "%s.%lld", path, (long long)getpid());
    FILE *file = fopen(draft, "we");
    if (file == NULL)
        return 0;
    int is_written = fprintf(file, "%lld\n", (long long)value) > 0;
    if (fclose(file) != 0 || !is_written || rename(draft, path) != 0) {
        unlink(draft);
        return 0;
    }
    return 1;
}

void settings_drop(unsigned gpu, enum reading reading)
{
    char path[PLACE_SIZE];
    setting_path(path, gpu, reading);
    unlink(path);
}
