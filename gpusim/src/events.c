/* Event sets: Xids, as the scenario injects them. */
#include <pthread.h>
#include <stdlib.h>

#include "call.h"
#include "place.h"

enum { POLL_MS = 20 };

struct nvmlEventSet_st {
    pthread_mutex_t lock;
    int is_registered[MAX_GPUS];
    int64_t delivered[MAX_GPUS]; /* sequence number of the last one */
};

NVML_API nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set);
nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    struct call call;
    nvmlReturn_t result = call_begin(&call, __func__);
    if (result != NVML_SUCCESS)
        return result;
    if (set == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *set = calloc(1, sizeof **set);
    if (*set == NULL)
        return call_end(&call, NVML_ERROR_MEMORY);
    pthread_mutex_init(&(*set)->lock, NULL);
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set);
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    if (set == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    pthread_mutex_destroy(&set->lock);
    free(set);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device,
                                                       unsigned long long *types);
nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, __func__, device);
    if (result != NVML_SUCCESS)
        return result;
    if (types == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *types = NVML_EVENT_XID;
    return call_end(&call, NVML_SUCCESS);
}

/* Only what happens after the registration is delivered. */
NVML_API nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                               nvmlEventSet_t set);
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                      nvmlEventSet_t set)
{
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, __func__, device);
    if (result != NVML_SUCCESS)
        return result;
    if (set == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    if ((types & ~(unsigned long long)NVML_EVENT_XID) != 0)
        return call_end(&call, NVML_ERROR_NOT_SUPPORTED);
    pthread_mutex_lock(&set->lock);
    set->is_registered[call.index] = types != 0;
    for (unsigned i = 0; i < call.gpu->event_count; i++)
        if (call.gpu->events[i].time_ms <= call.now_ms &&
            call.gpu->events[i].sequence > set->delivered[call.index])
            set->delivered[call.index] = call.gpu->events[i].sequence;
    pthread_mutex_unlock(&set->lock);
    return call_end(&call, NVML_SUCCESS);
}

/* The oldest event that was not delivered. A lost GPU's Xid is delivered, too: it says so. */
static int take(const struct call *call, nvmlEventSet_t set, nvmlEventData_t *data)
{
    const struct event *oldest = NULL;
    unsigned owner = 0;
    for (unsigned gpu = 0; gpu < call->scenario->gpu_count; gpu++) {
        const struct gpu *from = &call->scenario->gpus[gpu];
        for (unsigned i = 0; set->is_registered[gpu] && i < from->event_count; i++) {
            const struct event *event = &from->events[i];
            if (event->sequence <= set->delivered[gpu] || event->time_ms > call->now_ms)
                continue;
            if (oldest == NULL || event->sequence < oldest->sequence) {
                oldest = event;
                owner = gpu;
            }
        }
    }
    if (oldest == NULL)
        return 0;
    set->delivered[owner] = oldest->sequence;
    *data = (nvmlEventData_t){
        .device = call_handle(owner),
        .eventType = NVML_EVENT_XID,
        .eventData = oldest->xid,
        .gpuInstanceId = NVML_NO_INSTANCE,
        .computeInstanceId = NVML_NO_INSTANCE,
    };
    return 1;
}

static nvmlReturn_t wait_for_event(const char *function, nvmlEventSet_t set, nvmlEventData_t *data,
                                   unsigned timeout_ms)
{
    int64_t deadline = clock_monotonic_ns() / 1000000 + timeout_ms;
    for (;;) {
        struct call call;
        nvmlReturn_t result = call_begin(&call, function);
        if (result != NVML_SUCCESS)
            return result;
        if (set == NULL || data == NULL)
            return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
        pthread_mutex_lock(&set->lock);
        int is_taken = take(&call, set, data);
        pthread_mutex_unlock(&set->lock);
        call_end(&call, NVML_SUCCESS);
        if (is_taken)
            return NVML_SUCCESS;
        int64_t left = deadline - clock_monotonic_ns() / 1000000;
        if (left <= 0)
            return NVML_ERROR_TIMEOUT;
        sleep_ms(left < POLL_MS ? left : POLL_MS);
    }
}

NVML_API nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data,
                                       unsigned timeout_ms);
nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms)
{
    /* The first version's structure ends before the two instance ids. */
    nvmlEventData_t whole;
    nvmlReturn_t result = wait_for_event(__func__, set, data == NULL ? NULL : &whole, timeout_ms);
    if (result == NVML_SUCCESS) {
        data->device = whole.device;
        data->eventType = whole.eventType;
        data->eventData = whole.eventData;
    }
    return result;
}

NVML_API nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data,
                                          unsigned timeout_ms);
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms)
{
    return wait_for_event(__func__, set, data, timeout_ms);
}
