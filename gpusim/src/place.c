#include "place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void place_path(char path[PLACE_SIZE], const char *variable, const char *fallback,
                const char *name)
{
    const char *folder = getenv(variable);
    if (folder == NULL || *folder == '\0')
        folder = fallback;
    if (snprintf(path, PLACE_SIZE, "%s/%s", folder, name) >= PLACE_SIZE)
        path[0] = '\0';
}

void place_run_path(char path[PLACE_SIZE], const char *name)
{
    place_path(path, "GPUSIM_RUN_DIR", "/run/gpusim", name);
}

static int64_t nanoseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t clock_realtime_ms(void)
{
    return nanoseconds(CLOCK_REALTIME) / 1000000;
}

int64_t clock_monotonic_ns(void)
{
    return nanoseconds(CLOCK_MONOTONIC);
}

int64_t clock_boot_ms(void)
{
    return clock_realtime_ms() - nanoseconds(CLOCK_MONOTONIC) / 1000000;
}

void sleep_ms(int64_t milliseconds)
{
    struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}
