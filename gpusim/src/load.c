#include "load.h"

#include <pthread.h>
#include <stddef.h>

#include "call.h"
#include "place.h"
#include "series.h"
#include "settings.h"

enum { MEBIBYTE = 1 << 20, IDLE_STATE = 8, LOST_MS = 200 };
enum { FABRIC_COMPLETED = 3, ARCHITECTURE_HOPPER = 9 };

static const struct series *given(const struct call *call, enum reading reading)
{
    const struct series *series = &call->gpu->reading[reading];
    return series->is_set ? series : NULL;
}

static int64_t plain(const struct call *call, enum reading reading, int64_t otherwise)
{
    const struct series *series = given(call, reading);
    return series == NULL ? otherwise : series_at(series, call->now_ms);
}

static double utilization(const struct call *call)
{
    struct load load;
    if (given(call, READ_utilization))
        return (double)plain(call, READ_utilization, 0);
    marks_read(call->index, &load, NULL, 0);
    return load.percent;
}

static double heat(const struct call *call)
{
    struct load load;
    if (given(call, READ_utilization))
        return (double)plain(call, READ_utilization, 0);
    marks_read(call->index, &load, NULL, 0);
    return load.heat;
}

static int64_t scale(const struct call *call, enum reading idle, enum reading full, double percent)
{
    double low = (double)plain(call, idle, 0), high = (double)plain(call, full, 0);
    return (int64_t)(low + (high - low) * percent / 100 + 0.5);
}

static int64_t power(const struct call *call)
{
    if (given(call, READ_power))
        return plain(call, READ_power, 0);
    int64_t wanted = scale(call, READ_power_idle, READ_power_load, utilization(call));
    int64_t limit = reading_or(call, READ_power_limit, wanted);
    return wanted < limit ? wanted : limit;
}

static int64_t throttle(const struct call *call)
{
    if (utilization(call) < 0.5)
        return NVML_REASON_GPU_IDLE;
    return power(call) >= reading_or(call, READ_power_limit, INT64_MAX) ? NVML_REASON_SW_POWER_CAP
                                                                        : 0;
}

static int derived(const struct call *call, enum reading reading, int64_t *value)
{
    switch (reading) {
    case READ_utilization:
        *value = (int64_t)(utilization(call) + 0.5);
        return 1;
    case READ_memory_utilization:
        /* Of a workload that reads its operands from memory; nothing real is behind it. */
        *value = (int64_t)(utilization(call) * 0.6 + 0.5);
        return 1;
    case READ_temperature:
        *value = scale(call, READ_temperature_idle, READ_temperature_load, heat(call));
        return 1;
    case READ_power:
        *value = power(call);
        return 1;
    case READ_clock_graphics:
    case READ_clock_sm:
    case READ_clock_memory:
    case READ_clock_video: {
        enum reading offset = reading - READ_clock_graphics;
        int is_busy = utilization(call) >= 0.5;
        enum reading source = is_busy ? READ_clock_graphics_max : READ_clock_graphics_idle;
        *value = plain(call, source + offset, 0);
        return 1;
    }
    case READ_performance_state:
        *value = utilization(call) >= 0.5 ? 0 : IDLE_STATE;
        return 1;
    case READ_throttle_reasons:
        *value = throttle(call);
        return 1;
    case READ_memory_used:
        *value = memory_used_bytes(call) / MEBIBYTE;
        return 1;
    case READ_fabric_state:
        /* Fabrics are registered from Hopper on, where there are switches. */
        *value = FABRIC_COMPLETED;
        return plain(call, READ_nvlink_switches, 0) > 0 &&
               plain(call, READ_architecture, 0) >= ARCHITECTURE_HOPPER;
    case READ_power_limit:
        *value = plain(call, READ_power_limit_default, 0);
        return given(call, READ_power_limit_default) != NULL;
    default:
        return 0;
    }
}

int reading_now(const struct call *call, enum reading reading, int64_t *value)
{
    if (call->gpu->reading[reading].is_absent)
        return 0;
    if (given(call, reading) || reading == READ_power_limit) {
        int is_known = given(call, reading) || derived(call, reading, value);
        if (given(call, reading))
            *value = plain(call, reading, 0);
        return settings_get(call->index, reading, value) || is_known;
    }
    return derived(call, reading, value);
}

int64_t reading_or(const struct call *call, enum reading reading, int64_t otherwise)
{
    int64_t value;
    return reading_now(call, reading, &value) ? value : otherwise;
}

/* mJ that the scenario's own values add, and what marks add. */
static double energy_since(const struct call *call, int64_t from_ms)
{
    double span_ms = (double)(call->now_ms - from_ms);
    if (given(call, READ_power))
        return series_integral(given(call, READ_power), from_ms, call->now_ms) / 1000;
    double idle = (double)plain(call, READ_power_idle, 0);
    double more = (double)plain(call, READ_power_load, 0) - idle;
    double sum = idle * span_ms / 1000;
    if (given(call, READ_utilization)) {
        double percent_ms = series_integral(given(call, READ_utilization), from_ms, call->now_ms);
        return sum + more * percent_ms / 100 / 1000;
    }
    struct load load;
    marks_read(call->index, &load, NULL, 0);
    double busy_ms = load.busy_ns / 1e6 - (double)plain(call, READ_energy_marks, 0);
    return sum + more * (busy_ms > 0 ? busy_ms : 0) / 1000;
}

int64_t energy_now(const struct call *call)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int64_t last[MAX_GPUS], origins[MAX_GPUS];
    int64_t origin = plain(call, READ_energy_since, 0);
    int64_t from_ms = given(call, READ_energy_since) ? origin : clock_boot_ms();
    double sum = (double)plain(call, READ_energy_base, 0) + energy_since(call, from_ms);
    int64_t energy = sum > 0 ? (int64_t)sum : 0;
    double lost = (double)plain(call, READ_power_load, 0) * LOST_MS / 1000;
    pthread_mutex_lock(&lock);
    /* A process that is killed while busy takes its unwritten part with it. */
    double fall = (double)(last[call->index] - energy);
    if (fall > 0 && (origins[call->index] == origin || fall < lost))
        energy = last[call->index];
    origins[call->index] = origin;
    last[call->index] = energy;
    pthread_mutex_unlock(&lock);
    return energy;
}

int64_t memory_used_bytes(const struct call *call)
{
    struct gpu_process processes[2 * MAX_PROCESSES];
    int64_t used = plain(call, READ_memory_leaked, 0) * MEBIBYTE;
    if (given(call, READ_memory_used)) {
        used = plain(call, READ_memory_used, 0) * MEBIBYTE;
    } else {
        unsigned count = processes_now(call, processes, 2 * MAX_PROCESSES);
        for (unsigned i = 0; i < count; i++)
            used += (int64_t)processes[i].memory_bytes;
    }
    /* No GPU has more in use than it has, whatever a scenario says. */
    int64_t total = plain(call, READ_memory_total, 0) * MEBIBYTE;
    int64_t room = total - plain(call, READ_memory_reserved, 0) * MEBIBYTE;
    if (room < 0)
        room = 0;
    return used < room ? used : room;
}

unsigned processes_now(const struct call *call, struct gpu_process *processes, unsigned room)
{
    struct mark_process marked[MAX_PROCESSES];
    struct load load;
    unsigned count = 0;
    unsigned marks = marks_read(call->index, &load, marked, MAX_PROCESSES);
    for (unsigned i = 0; i < call->gpu->process_count && count < room; i++) {
        const struct process *process = &call->gpu->processes[i];
        if (process->keep || process_start_ticks(process->pid) >= 0)
            processes[count++] =
                (struct gpu_process){process->pid, process->memory_bytes, process->type, 0};
    }
    for (unsigned i = 0; i < marks && count < room; i++)
        processes[count++] = (struct gpu_process){
            marked[i].pid, (uint64_t)marked[i].memory_bytes, 'C', marked[i].percent};
    return count;
}
