/* Values over time. */
#ifndef GPUSIM_SERIES_H
#define GPUSIM_SERIES_H

#include "scenario.h"

/* The value at a time (ms of CLOCK_REALTIME). */
int64_t series_at(const struct series *series, int64_t now_ms);

/* The integral over the time between two moments, in value times ms. */
double series_integral(const struct series *series, int64_t from_ms, int64_t to_ms);

#endif
