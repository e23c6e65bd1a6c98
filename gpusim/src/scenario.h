/* The compiled scenario in memory. A snapshot is never changed, so that any thread may read it. */
#ifndef GPUSIM_SCENARIO_H
#define GPUSIM_SCENARIO_H

#include <stddef.h>
#include <stdint.h>

#include "readings.h"

enum {
    MAX_GPUS = 16,
    MAX_PROCESSES = 64,
    MAX_EVENTS = 64,
    MAX_FAULTS = 64,
    MAX_MIG_PROFILES = 8,
    MAX_STARTS = 8,
    TEXT_SIZE = 96,
    FUNCTION_SIZE = 64,
    EVERY_GPU = -1,
};

/* Time of a point in ms since the series began. */
struct point {
    int64_t time_ms, value;
};

struct series {
    int is_set;
    int is_absent;              /* not supported, also where it would follow from others */
    int64_t value;              /* where there are no points */
    struct point *points;       /* inside the scenario's pool */
    size_t count;
    int64_t since_ms;           /* CLOCK_REALTIME */
    int loop, linear;
};

struct process {
    unsigned pid;
    uint64_t memory_bytes;
    char type;                  /* C compute, G graphics */
    int keep;                   /* listed although no such process lives */
};

/* An Xid. Sequence numbers grow for as long as a scenario lives. */
struct event {
    int64_t sequence, time_ms;
    unsigned xid;
};

enum action { ACTION_RETURN, ACTION_DELAY, ACTION_HANG };

struct fault {
    char function[FUNCTION_SIZE];
    int gpu;                    /* index or EVERY_GPU */
    enum action action;
    int value;                  /* NVML return code, or ms */
};

/* A way to cut a part off the GPU: `slot` is its number in the API, `id` in `nvidia-smi mig`;
 * starts and size in memory slices. */
struct mig_profile {
    unsigned slot, id, slices, most, size, multiprocessors;
    int64_t memory_mib;
    unsigned starts[MAX_STARTS], start_count;
    char name[32];
};

struct gpu {
    int error;                  /* what every function about this GPU returns; 0: none */
    char text[TEXT_COUNT][TEXT_SIZE];
    struct series reading[READING_COUNT];
    struct process processes[MAX_PROCESSES];
    unsigned process_count;
    struct event events[MAX_EVENTS];
    unsigned event_count;
    struct mig_profile mig_profiles[MAX_MIG_PROFILES];
    unsigned mig_profile_count;
};

struct scenario {
    unsigned references;
    char driver[TEXT_SIZE], nvml[TEXT_SIZE];
    int cuda;                   /* 12040 is 12.4 */
    int init_error;
    unsigned process_stride;    /* bytes: 24 or 32 */
    unsigned gpu_count;
    struct gpu gpus[MAX_GPUS];
    struct fault faults[MAX_FAULTS];
    unsigned fault_count;
    struct point *pool;
};

/* Parse a compiled scenario (the text is taken apart). NULL: it is no whole, valid scenario; the
 * reason is then in `problem`. */
struct scenario *scenario_parse(char *text, char *problem, size_t problem_size);

/* Read and parse a file; NULL as above. */
struct scenario *scenario_read(const char *path, char *problem, size_t problem_size);

void scenario_free(struct scenario *scenario);

/* The scenario as it is now; the file is read again when it has changed. A file that is missing
 * or broken leaves the last good scenario in force, or one without any GPU. Give it back. */
struct scenario *scenario_acquire(void);
void scenario_release(struct scenario *scenario);

/* Index of a name, or -1. */
int reading_by_name(const char *name);
int text_by_name(const char *name);
const char *reading_name(enum reading reading);

#endif
