#include "mark_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "place.h"

static const int64_t kept_ns = 30000000000;

int mark_load(const char *path, struct mark *mark)
{
    int file = open(path, O_RDONLY | O_CLOEXEC), whole = 0;
    if (file < 0)
        return 0;
    for (int tries = 0; tries < 20 && !whole; tries++) {
        ssize_t got = pread(file, mark, sizeof *mark, 0);
        whole = got == (ssize_t)sizeof *mark && mark->magic == MARK_MAGIC &&
                mark->sequence == mark->sequence_end;
        if (!whole)
            sleep_ms(1);
    }
    close(file);
    return whole;
}

int64_t process_start_ticks(int64_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    if (got <= 0)
        return -1;
    text[got] = '\0';
    /* The name may contain anything; the last parenthesis ends it. */
    char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at == NULL || strstr(text, ") Z ") != NULL)
        return -1;
    return strtoll(at, NULL, 10);
}

static void retired_path(char path[PLACE_SIZE], unsigned gpu)
{
    char name[MARK_NAME_SIZE];
    snprintf(name, sizeof name, "retired-%u", gpu);
    place_run_path(path, name);
}

double marks_retired_ns(unsigned gpu)
{
    char path[PLACE_SIZE];
    double total = 0;
    retired_path(path, gpu);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%lf", &total) != 1)
        total = 0;
    fclose(file);
    return total;
}

static double retire_dead(const char *folder, unsigned gpu)
{
    double total = 0;
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        char path[PLACE_SIZE + 300];
        struct mark mark;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || !mark_load(path, &mark) || mark.gpu != (int64_t)gpu)
            continue;
        int64_t age_ns = clock_monotonic_ns() - mark.heat_time_ns;
        if (age_ns < kept_ns || process_start_ticks(mark.pid) == mark.start_ticks)
            continue;
        if (unlink(path) == 0)
            total += (double)mark.busy_total_ns * (double)mark.percent / 100;
    }
    if (directory != NULL)
        closedir(directory);
    return total;
}

void marks_retire(unsigned gpu)
{
    char path[PLACE_SIZE], folder[PLACE_SIZE];
    double total = 0;
    retired_path(path, gpu);
    place_run_path(folder, MARK_FOLDER);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0)
        return;
    /* Several writers start at once: only one may add the same mark. */
    if (flock(file, LOCK_EX | LOCK_NB) == 0) {
        FILE *stream = fdopen(file, "r+");
        if (stream == NULL) {
            close(file);
            return;
        }
        if (fscanf(stream, "%lf", &total) != 1)
            total = 0;
        total += retire_dead(folder, gpu);
        rewind(stream);
        fprintf(stream, "%.0f\n", total);
        fclose(stream);
        return;
    }
    close(file);
}
