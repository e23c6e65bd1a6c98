#include "call.h"

#include <pthread.h>
#include <string.h>

#include "place.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned initialised;

static struct nvmlDevice_st handles[MAX_GPUS] = {
    {0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}, {10}, {11}, {12}, {13}, {14}, {15},
};

nvmlDevice_t call_handle(unsigned index)
{
    return &handles[index];
}

static void take_scenario(struct call *call)
{
    call->scenario = scenario_acquire();
    call->now_ms = clock_realtime_ms();
}

static const struct fault *find_fault(const struct scenario *scenario, const char *function,
                                      int gpu, enum action action)
{
    for (unsigned i = 0; i < scenario->fault_count; i++) {
        const struct fault *fault = &scenario->faults[i];
        if (fault->action == action && strcmp(fault->function, function) == 0 &&
            (fault->gpu == EVERY_GPU || fault->gpu == gpu))
            return fault;
    }
    return NULL;
}

nvmlReturn_t call_faults(struct call *call, const char *function, int gpu)
{
    const struct fault *fault = find_fault(call->scenario, function, gpu, ACTION_DELAY);
    if (fault != NULL) {
        int delay_ms = fault->value;
        sleep_ms(delay_ms);
    }
    /* A hung call comes back when the fault is cleared. */
    while (call->scenario != NULL &&
           find_fault(call->scenario, function, gpu, ACTION_HANG) != NULL) {
        scenario_release(call->scenario);
        sleep_ms(20);
        take_scenario(call);
    }
    if (call->scenario == NULL)
        return NVML_ERROR_MEMORY;
    fault = find_fault(call->scenario, function, gpu, ACTION_RETURN);
    return fault == NULL ? NVML_SUCCESS : fault->value;
}

static nvmlReturn_t begin(struct call *call, const char *function, int gpu)
{
    *call = (struct call){0};
    pthread_mutex_lock(&lock);
    unsigned users = initialised;
    pthread_mutex_unlock(&lock);
    if (users == 0)
        return NVML_ERROR_UNINITIALIZED;
    take_scenario(call);
    if (call->scenario == NULL)
        return NVML_ERROR_MEMORY;
    nvmlReturn_t result = call_faults(call, function, gpu);
    return result == NVML_SUCCESS ? result : call_end(call, result);
}

nvmlReturn_t call_begin(struct call *call, const char *function)
{
    return begin(call, function, EVERY_GPU);
}

nvmlReturn_t call_begin_device(struct call *call, const char *function, nvmlDevice_t device)
{
    int known = device >= handles && device < handles + MAX_GPUS;
    if (!known)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = begin(call, function, (int)device->index);
    if (result != NVML_SUCCESS)
        return result;
    /* A GPU that has gone from the scenario while the program held its handle is lost, too. */
    if (device->index >= call->scenario->gpu_count)
        return call_end(call, NVML_ERROR_GPU_IS_LOST);
    call->index = device->index;
    call->gpu = &call->scenario->gpus[call->index];
    return call->gpu->error == 0 ? NVML_SUCCESS : call_end(call, call->gpu->error);
}

nvmlReturn_t call_refuse(struct call *call, const char *function)
{
    nvmlReturn_t result = call_begin(call, function);
    return result == NVML_SUCCESS ? call_end(call, NVML_ERROR_INVALID_ARGUMENT) : result;
}

nvmlReturn_t call_end(struct call *call, nvmlReturn_t result)
{
    scenario_release(call->scenario);
    return result;
}

nvmlReturn_t put_text(const char *text, char *buffer, unsigned length)
{
    if (buffer == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(buffer, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

nvmlReturn_t get_reading(const char *function, nvmlDevice_t device, enum reading reading,
                         unsigned *value)
{
    struct call call;
    int64_t wide;
    nvmlReturn_t result = call_begin_device(&call, function, device);
    if (result != NVML_SUCCESS)
        return result;
    if (value == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    if (!reading_now(&call, reading, &wide))
        return call_end(&call, NVML_ERROR_NOT_SUPPORTED);
    *value = (unsigned)wide;
    return call_end(&call, NVML_SUCCESS);
}

nvmlReturn_t get_text(const char *function, nvmlDevice_t device, enum text text, char *buffer,
                      unsigned length)
{
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, function, device);
    if (result != NVML_SUCCESS)
        return result;
    if (call.gpu->text[text][0] == '\0')
        return call_end(&call, NVML_ERROR_NOT_SUPPORTED);
    return call_end(&call, put_text(call.gpu->text[text], buffer, length));
}

static nvmlReturn_t initialise(const char *function)
{
    struct call call = {0};
    take_scenario(&call);
    if (call.scenario == NULL)
        return NVML_ERROR_MEMORY;
    nvmlReturn_t result = call_faults(&call, function, EVERY_GPU);
    if (result == NVML_SUCCESS)
        result = call.scenario->init_error;
    if (result == NVML_SUCCESS) {
        pthread_mutex_lock(&lock);
        initialised++;
        pthread_mutex_unlock(&lock);
    }
    return call_end(&call, result);
}

NVML_API nvmlReturn_t nvmlInit(void);
nvmlReturn_t nvmlInit(void)
{
    return initialise(__func__);
}

NVML_API nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlInit_v2(void)
{
    return initialise(__func__);
}

NVML_API nvmlReturn_t nvmlInitWithFlags(unsigned flags);
nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return initialise(__func__);
}

NVML_API nvmlReturn_t nvmlShutdown(void);
nvmlReturn_t nvmlShutdown(void)
{
    struct call call;
    nvmlReturn_t result = call_begin(&call, __func__);
    if (result != NVML_SUCCESS)
        return result;
    pthread_mutex_lock(&lock);
    if (initialised > 0)
        initialised--;
    pthread_mutex_unlock(&lock);
    return call_end(&call, NVML_SUCCESS);
}
