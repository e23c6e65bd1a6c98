/* Readings as they are now: from the scenario, or derived from what the marks say. */
#ifndef GPUSIM_LOAD_H
#define GPUSIM_LOAD_H

#include <stdint.h>

#include "mark.h"
#include "readings.h"

struct call;

/* 1 and the value, or 0 where this GPU has no such reading. */
int reading_now(const struct call *call, enum reading reading, int64_t *value);

/* The same, with another value where there is none. */
int64_t reading_or(const struct call *call, enum reading reading, int64_t otherwise);

/* Energy in mJ since the counter began. Never falls within a process unless the scenario says so. */
int64_t energy_now(const struct call *call);

/* Memory in bytes that is in use, without what the driver reserves for itself. */
int64_t memory_used_bytes(const struct call *call);

/* Processes on the GPU, from marks and from the scenario. `room` entries at most. */
struct gpu_process {
    unsigned pid;
    uint64_t memory_bytes;
    char type;
    double percent;
};
unsigned processes_now(const struct call *call, struct gpu_process *processes, unsigned room);

#endif
