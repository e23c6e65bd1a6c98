/* Paths and clocks. */
#ifndef GPUSIM_PLACE_H
#define GPUSIM_PLACE_H

#include <stdint.h>

enum { PLACE_SIZE = 512 };

/* `$VARIABLE/NAME`, or below `fallback`. */
void place_path(char path[PLACE_SIZE], const char *variable, const char *fallback,
                const char *name);

/* Below $GPUSIM_RUN_DIR. */
void place_run_path(char path[PLACE_SIZE], const char *name);

int64_t clock_realtime_ms(void);
int64_t clock_monotonic_ns(void);
/* When this machine was booted, in ms of CLOCK_REALTIME. */
int64_t clock_boot_ms(void);
void sleep_ms(int64_t milliseconds);

#endif
