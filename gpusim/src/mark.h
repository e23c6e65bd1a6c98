/*
 * A mark is a small file in $GPUSIM_RUN_DIR/busy by which a process says that it keeps a GPU busy.
 *
 * It holds how long the process was busy in each of the last 64 slices of 20 ms, so that readers
 * can average over the last second like the real counter, however often it begins and ends; the
 * total for the energy counter; and `heat`, the load after a first-order lag, for temperatures.
 */
#ifndef GPUSIM_MARK_H
#define GPUSIM_MARK_H

#include <stdint.h>

enum { MARK_SLICES = 64, MARK_SLICE_NS = 20000000 };

struct mark {
    uint64_t magic;
    uint64_t sequence;          /* equals sequence_end unless it is being written */
    int64_t pid;
    int64_t start_ticks;        /* of the process, since pids are used again */
    int64_t gpu;
    int64_t memory_bytes;
    int64_t percent;            /* of the GPU, while busy */
    int64_t busy_since_ns;      /* CLOCK_MONOTONIC; 0: not busy now */
    int64_t busy_total_ns;
    int64_t heat_ppm, heat_time_ns;
    struct {
        int64_t number, busy_ns;
    } slices[MARK_SLICES];
    uint64_t sequence_end;
};

/* What all marks together do to one GPU. */
struct load {
    double percent;             /* busy share of the last second, 0 to 100 */
    double heat;                /* 0 to 100 */
    double busy_ns;             /* since boot, times the share of the GPU, of living and dead */
    double memory_bytes;        /* of the living */
};

/* One living process. */
struct mark_process {
    unsigned pid;
    int64_t memory_bytes;
    double percent;
};

/* Read all marks of a GPU. Fills up to `room` processes, one for each pid; returns how many. */
unsigned marks_read(unsigned gpu, struct load *load, struct mark_process *processes,
                    unsigned room);

/* Pure parts, on a mark in memory. */
void mark_begin(struct mark *mark, int64_t now_ns);
void mark_end(struct mark *mark, int64_t now_ns);
double mark_percent(const struct mark *mark, int64_t now_ns);
double mark_heat(const struct mark *mark, int64_t now_ns);

/* Start time of a process in clock ticks since boot, or -1 when no such process lives. */
int64_t process_start_ticks(int64_t pid);

#endif
