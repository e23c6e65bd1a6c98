/* Memory and utilisation. */
#include "mig.h"

enum { MEBIBYTE = 1 << 20, MEMORY_V2 = 0x02000028 };

static unsigned long long bytes(const struct call *call, enum reading reading)
{
    return (unsigned long long)reading_or(call, reading, 0) * MEBIBYTE;
}

static nvmlReturn_t measure(const char *function, nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    struct call call;
    int64_t mebibytes;
    if (mig_is_handle(device)) {
        nvmlReturn_t answer = mig_memory(function, device, &mebibytes);
        if (answer == NVML_SUCCESS)
            memory->total = memory->free = (unsigned long long)mebibytes * MEBIBYTE;
        return answer;
    }
    nvmlReturn_t result = call_begin_device(&call, function, device);
    if (result != NVML_SUCCESS)
        return result;
    if (!reading_now(&call, READ_memory_total, &mebibytes) ||
        !reading_now(&call, READ_memory_used, &mebibytes))
        return call_end(&call, NVML_ERROR_NOT_SUPPORTED);
    memory->total = bytes(&call, READ_memory_total);
    memory->reserved = bytes(&call, READ_memory_reserved);
    if (memory->reserved > memory->total)
        memory->reserved = memory->total;
    memory->used = (unsigned long long)memory_used_bytes(&call);
    memory->free = memory->total - memory->reserved - memory->used;
    return call_end(&call, NVML_SUCCESS);
}

/* The first version counts what the driver reserves as used (since driver 510.39). */
NVML_API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    nvmlMemory_v2_t whole = {0};
    nvmlReturn_t result = measure(__func__, device, &whole);
    if (result != NVML_SUCCESS)
        return result;
    if (memory == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *memory = (nvmlMemory_t){whole.total, whole.free, whole.used + whole.reserved};
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory);
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    nvmlMemory_v2_t whole = {.version = MEMORY_V2};
    nvmlReturn_t result = measure(__func__, device, &whole);
    if (result != NVML_SUCCESS)
        return result;
    if (memory == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (memory->version != MEMORY_V2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    *memory = whole;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory);
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, __func__, device);
    if (result != NVML_SUCCESS)
        return result;
    if (memory == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    int64_t mebibytes;
    if (!reading_now(&call, READ_bar1_total, &mebibytes) ||
        !reading_now(&call, READ_bar1_used, &mebibytes))
        return call_end(&call, NVML_ERROR_NOT_SUPPORTED);
    memory->total = bytes(&call, READ_bar1_total);
    memory->used = bytes(&call, READ_bar1_used);
    if (memory->used > memory->total)
        memory->used = memory->total;
    memory->free = memory->total - memory->used;
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device,
                                                    nvmlUtilization_t *rates);
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, __func__, device);
    if (result != NVML_SUCCESS)
        return result;
    if (rates == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    int64_t percent;
    if (!reading_now(&call, READ_utilization, &percent))
        return call_end(&call, NVML_ERROR_NOT_SUPPORTED);
    rates->gpu = (unsigned)reading_or(&call, READ_utilization, 0);
    rates->memory = (unsigned)reading_or(&call, READ_memory_utilization, 0);
    return call_end(&call, NVML_SUCCESS);
}

/* Percent, and the sampling period in microseconds. */
#define ENGINE_FUNCTION(function, reading)                                                      \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, unsigned *percent, unsigned *period);   \
    nvmlReturn_t function(nvmlDevice_t device, unsigned *percent, unsigned *period)             \
    {                                                                                           \
        if (period == NULL)                                                                     \
            return NVML_ERROR_INVALID_ARGUMENT;                                                 \
        *period = 167000;                                                                       \
        return get_reading(__func__, device, READ_##reading, percent);                          \
    }

ENGINE_FUNCTION(nvmlDeviceGetEncoderUtilization, encoder_utilization)
ENGINE_FUNCTION(nvmlDeviceGetDecoderUtilization, decoder_utilization)
ENGINE_FUNCTION(nvmlDeviceGetJpgUtilization, jpeg_utilization)
ENGINE_FUNCTION(nvmlDeviceGetOfaUtilization, ofa_utilization)
