/* Who uses the GPU. */
#include "processes.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "call.h"
#include "place.h"

enum { LONG_STRIDE = 32, ROOM = 2 * MAX_PROCESSES };

int process_name(unsigned pid, char *name, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t got = read(file, name, size - 1);
    close(file);
    name[got > 0 ? got : 0] = '\0';
    return got > 0;
}

static void put_entry(char *target, unsigned stride, int is_v1, const struct gpu_process *process)
{
    nvmlProcessInfo_v1_t first = {process->pid, process->memory_bytes};
    nvmlProcessInfo_t entry = {process->pid, process->memory_bytes, NVML_NO_INSTANCE,
                               NVML_NO_INSTANCE};
    memset(target, 0, stride);
    if (is_v1)
        memcpy(target, &first, sizeof first);
    else
        memcpy(target, &entry, sizeof entry);
}

static nvmlReturn_t list(const char *function, nvmlDevice_t device, char type, int is_v1,
                         unsigned *count, char *entries)
{
    struct call call;
    struct gpu_process all[ROOM];
    nvmlReturn_t result = call_begin_device(&call, function, device);
    if (result != NVML_SUCCESS)
        return result;
    if (count == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    unsigned found = 0, room = *count, number = processes_now(&call, all, ROOM);
    unsigned stride = is_v1 ? (unsigned)sizeof(nvmlProcessInfo_v1_t) : call.scenario->process_stride;
    for (unsigned i = 0; i < number; i++) {
        if (all[i].type != type)
            continue;
        /* A driver with longer entries writes past a buffer that was made for short ones; the
         * number of bytes is kept so that only the meaning is wrong, not the caller's memory. */
        size_t end = ((size_t)found + 1) * stride;
        if (entries != NULL && end <= (size_t)room * (is_v1 ? 16 : sizeof(nvmlProcessInfo_t)))
            put_entry(entries + (size_t)found * stride, stride, is_v1, &all[i]);
        found++;
    }
    *count = found;
    if (found > room || (found > 0 && entries == NULL))
        return call_end(&call, NVML_ERROR_INSUFFICIENT_SIZE);
    return call_end(&call, NVML_SUCCESS);
}

#define LIST_FUNCTION(function, type, is_v1)                                                    \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, unsigned *count, void *entries);        \
    nvmlReturn_t function(nvmlDevice_t device, unsigned *count, void *entries)                  \
    {                                                                                           \
        return list(__func__, device, type, is_v1, count, entries);                             \
    }

LIST_FUNCTION(nvmlDeviceGetComputeRunningProcesses, 'C', 1)
LIST_FUNCTION(nvmlDeviceGetComputeRunningProcesses_v2, 'C', 0)
LIST_FUNCTION(nvmlDeviceGetComputeRunningProcesses_v3, 'C', 0)
LIST_FUNCTION(nvmlDeviceGetGraphicsRunningProcesses, 'G', 1)
LIST_FUNCTION(nvmlDeviceGetGraphicsRunningProcesses_v2, 'G', 0)
LIST_FUNCTION(nvmlDeviceGetGraphicsRunningProcesses_v3, 'G', 0)
LIST_FUNCTION(nvmlDeviceGetMPSComputeRunningProcesses, 'M', 1)
LIST_FUNCTION(nvmlDeviceGetMPSComputeRunningProcesses_v2, 'M', 0)
LIST_FUNCTION(nvmlDeviceGetMPSComputeRunningProcesses_v3, 'M', 0)

NVML_API nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                                      nvmlProcessUtilizationSample_t *samples,
                                                      unsigned *count,
                                                      unsigned long long last_seen);
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                             nvmlProcessUtilizationSample_t *samples,
                                             unsigned *count, unsigned long long last_seen)
{
    struct call call;
    struct gpu_process all[ROOM];
    nvmlReturn_t result = call_begin_device(&call, __func__, device);
    if (result != NVML_SUCCESS)
        return result;
    if (count == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    unsigned number = processes_now(&call, all, ROOM), found = 0, room = *count;
    unsigned long long now_us = (unsigned long long)call.now_ms * 1000;
    for (unsigned i = 0; i < number && now_us > last_seen; i++) {
        if (all[i].percent < 0.5)
            continue;
        if (samples != NULL && found < room)
            samples[found] = (nvmlProcessUtilizationSample_t){
                .pid = all[i].pid, .timeStamp = now_us, .smUtil = (unsigned)(all[i].percent + 0.5)};
        found++;
    }
    *count = found;
    if (found == 0)
        return call_end(&call, NVML_ERROR_NOT_FOUND);
    return call_end(&call, samples == NULL || found > room ? NVML_ERROR_INSUFFICIENT_SIZE
                                                           : NVML_SUCCESS);
}
