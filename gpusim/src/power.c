/* Power, energy, temperatures, fans. */
#include "call.h"

READING_FUNCTION(nvmlDeviceGetPowerUsage, power)
READING_FUNCTION(nvmlDeviceGetEnforcedPowerLimit, power_limit)
READING_FUNCTION(nvmlDeviceGetPowerManagementLimit, power_limit)
READING_FUNCTION(nvmlDeviceGetPowerManagementDefaultLimit, power_limit_default)
READING_FUNCTION(nvmlDeviceGetFanSpeed, fan_speed)
READING_FUNCTION(nvmlDeviceGetNumFans, fans)

NVML_API nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, unsigned *mode);
nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, unsigned *mode)
{
    nvmlReturn_t result = get_reading(__func__, device, READ_power_limit, mode);
    if (result == NVML_SUCCESS)
        *mode = 1;
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device,
                                                                   unsigned *least,
                                                                   unsigned *most);
nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned *least,
                                                          unsigned *most)
{
    nvmlReturn_t result = get_reading(__func__, device, READ_power_limit_min, least);
    if (result != NVML_SUCCESS)
        return result;
    return get_reading(__func__, device, READ_power_limit_max, most);
}

NVML_API nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device,
                                                          unsigned long long *millijoules);
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device,
                                                 unsigned long long *millijoules)
{
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, __func__, device);
    if (result != NVML_SUCCESS)
        return result;
    if (millijoules == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *millijoules = (unsigned long long)energy_now(&call);
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor,
                                               unsigned *celsius);
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor, unsigned *celsius)
{
    if (sensor != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    return get_reading(__func__, device, READ_temperature, celsius);
}

NVML_API nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned threshold,
                                                        unsigned *celsius);
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned threshold,
                                               unsigned *celsius)
{
    static const enum reading readings[] = {
        READ_temperature_shutdown,
        READ_temperature_slowdown,
        READ_temperature_memory_max,
        READ_temperature_gpu_max,
    };
    if (threshold > 7)
        return NVML_ERROR_INVALID_ARGUMENT;
    /* The acoustic thresholds are for boards with settable fans. */
    if (threshold >= sizeof readings / sizeof *readings)
        return NVML_ERROR_NOT_SUPPORTED;
    return get_reading(__func__, device, readings[threshold], celsius);
}

NVML_API nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned fan,
                                               unsigned *percent);
nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned fan, unsigned *percent)
{
    unsigned fans;
    nvmlReturn_t result = get_reading(__func__, device, READ_fans, &fans);
    if (result != NVML_SUCCESS)
        return result;
    if (fan >= fans)
        return NVML_ERROR_INVALID_ARGUMENT;
    return get_reading(__func__, device, READ_fan_speed, percent);
}
