/* What may be changed through the library: kept until boot, seen by every process. */
#include <unistd.h>

#include "mig.h"
#include "settings.h"

static nvmlReturn_t set(const char *function, nvmlDevice_t device, enum reading reading,
                        int64_t value, int64_t least, int64_t most)
{
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, function, device);
    if (result != NVML_SUCCESS)
        return result;
    if (reading_or(&call, reading, -1) < 0)
        return call_end(&call, NVML_ERROR_NOT_SUPPORTED);
    if (value < least || value > most)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    if (geteuid() != 0 || !settings_put(call.index, reading, value))
        return call_end(&call, NVML_ERROR_NO_PERMISSION);
    return call_end(&call, NVML_SUCCESS);
}

#define SET_FUNCTION(function, reading, least, most)                                            \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, unsigned value);                        \
    nvmlReturn_t function(nvmlDevice_t device, unsigned value)                                  \
    {                                                                                           \
        return set(__func__, device, READ_##reading, value, least, most);                       \
    }

SET_FUNCTION(nvmlDeviceSetPersistenceMode, persistence, 0, 1)
SET_FUNCTION(nvmlDeviceSetComputeMode, compute_mode, 0, 3)

/* The mode does not change under instances or processes; that it is then pending is left out. */
static nvmlReturn_t cut_or_used(const char *function, nvmlDevice_t device, nvmlReturn_t *in_use)
{
    struct call call;
    struct instances all;
    struct gpu_process processes[1];
    nvmlReturn_t result = call_begin_device(&call, function, device);
    if (result != NVML_SUCCESS)
        return result;
    mig_read(&call, &all);
    int is = all.count > 0 || processes_now(&call, processes, 1) > 0;
    *in_use = is ? NVML_ERROR_IN_USE : NVML_SUCCESS;
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned mode,
                                           nvmlReturn_t *activation);
nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned mode, nvmlReturn_t *activation)
{
    nvmlReturn_t in_use, result = cut_or_used(__func__, device, &in_use);
    if (result == NVML_SUCCESS && activation == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *activation = in_use;
    if (result != NVML_SUCCESS || in_use != NVML_SUCCESS)
        return result;
    return set(__func__, device, READ_mig_mode, mode, 0, 1);
}

NVML_API nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned milliwatts);
nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned milliwatts)
{
    unsigned least, most;
    nvmlReturn_t result = get_reading(__func__, device, READ_power_limit_min, &least);
    if (result == NVML_SUCCESS)
        result = get_reading(__func__, device, READ_power_limit_max, &most);
    return result == NVML_SUCCESS
               ? set(__func__, device, READ_power_limit, milliwatts, least, most)
               : result;
}

NVML_API nvmlReturn_t nvmlDeviceSetPowerManagementLimit_v2(nvmlDevice_t device,
                                                           const unsigned *value);
nvmlReturn_t nvmlDeviceSetPowerManagementLimit_v2(nvmlDevice_t device, const unsigned *value)
{
    /* version, scope, milliwatts */
    if (value == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    return nvmlDeviceSetPowerManagementLimit(device, value[2]);
}

static nvmlReturn_t set_application_clocks(const char *function, nvmlDevice_t device,
                                           unsigned memory, unsigned graphics)
{
    unsigned memory_max, most, least;
    nvmlReturn_t result = get_reading(function, device, READ_clock_memory_max, &memory_max);
    if (result == NVML_SUCCESS)
        result = get_reading(function, device, READ_clock_graphics_max, &most);
    if (result == NVML_SUCCESS)
        result = get_reading(function, device, READ_clock_graphics_idle, &least);
    if (result == NVML_SUCCESS)
        result = set(function, device, READ_clock_graphics_application, graphics, least, most);
    if (result == NVML_SUCCESS)
        result = set(function, device, READ_clock_memory_application, memory, memory_max,
                     memory_max);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceSetApplicationsClocks(nvmlDevice_t device, unsigned memory,
                                                      unsigned graphics);
nvmlReturn_t nvmlDeviceSetApplicationsClocks(nvmlDevice_t device, unsigned memory,
                                             unsigned graphics)
{
    return set_application_clocks(__func__, device, memory, graphics);
}

NVML_API nvmlReturn_t nvmlDeviceResetApplicationsClocks(nvmlDevice_t device);
nvmlReturn_t nvmlDeviceResetApplicationsClocks(nvmlDevice_t device)
{
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, __func__, device);
    if (result != NVML_SUCCESS)
        return result;
    if (geteuid() != 0)
        return call_end(&call, NVML_ERROR_NO_PERMISSION);
    settings_drop(call.index, READ_clock_graphics_application);
    settings_drop(call.index, READ_clock_memory_application);
    return call_end(&call, NVML_SUCCESS);
}
