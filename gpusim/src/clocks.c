/* Clocks and what holds them back. */
#include "call.h"

static nvmlReturn_t clock_of(const char *function, nvmlDevice_t device, unsigned type,
                             enum reading first, unsigned *mhz)
{
    /* The readings stand in the order of the types. */
    if (type > NVML_CLOCK_VIDEO)
        return NVML_ERROR_INVALID_ARGUMENT;
    return get_reading(function, device, first + type, mhz);
}

static nvmlReturn_t application(const char *function, nvmlDevice_t device, unsigned type,
                                unsigned *mhz)
{
    if (type != NVML_CLOCK_MEM && type != NVML_CLOCK_GRAPHICS && type != NVML_CLOCK_SM)
        return type > NVML_CLOCK_VIDEO ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED;
    enum reading reading =
        type == NVML_CLOCK_MEM ? READ_clock_memory_application : READ_clock_graphics_application;
    return get_reading(function, device, reading, mhz);
}

#define CLOCK_FUNCTION(function, get, ...)                                                      \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, unsigned type, unsigned *mhz);          \
    nvmlReturn_t function(nvmlDevice_t device, unsigned type, unsigned *mhz)                    \
    {                                                                                           \
        return get(__func__, device, type, __VA_ARGS__ mhz);                                    \
    }
#define FIRST(reading) READ_##reading,

CLOCK_FUNCTION(nvmlDeviceGetClockInfo, clock_of, FIRST(clock_graphics))
CLOCK_FUNCTION(nvmlDeviceGetMaxClockInfo, clock_of, FIRST(clock_graphics_max))
CLOCK_FUNCTION(nvmlDeviceGetMaxCustomerBoostClock, clock_of, FIRST(clock_graphics_max))
CLOCK_FUNCTION(nvmlDeviceGetApplicationsClock, application, )
CLOCK_FUNCTION(nvmlDeviceGetDefaultApplicationsClock, application, )

NVML_API nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, unsigned type, unsigned which,
                                         unsigned *mhz);
nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, unsigned type, unsigned which, unsigned *mhz)
{
    switch (which) {
    case 0:
        return clock_of(__func__, device, type, READ_clock_graphics, mhz);
    case 1:
    case 2:
        return application(__func__, device, type, mhz);
    case 3:
        return clock_of(__func__, device, type, READ_clock_graphics_max, mhz);
    default:
        return NVML_ERROR_INVALID_ARGUMENT;
    }
}

static nvmlReturn_t reasons(const char *function, nvmlDevice_t device, enum reading reading,
                            unsigned long long *mask)
{
    unsigned value;
    if (mask == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = get_reading(function, device, reading, &value);
    if (result == NVML_SUCCESS)
        *mask = value;
    return result;
}

/* Both spellings: programs up to 550 call the first, newer ones the second. */
#define REASONS_FUNCTION(function, reading)                                                     \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, unsigned long long *mask);              \
    nvmlReturn_t function(nvmlDevice_t device, unsigned long long *mask)                        \
    {                                                                                           \
        return reasons(__func__, device, READ_##reading, mask);                                 \
    }

REASONS_FUNCTION(nvmlDeviceGetCurrentClocksThrottleReasons, throttle_reasons)
REASONS_FUNCTION(nvmlDeviceGetCurrentClocksEventReasons, throttle_reasons)
REASONS_FUNCTION(nvmlDeviceGetSupportedClocksThrottleReasons, throttle_supported)
REASONS_FUNCTION(nvmlDeviceGetSupportedClocksEventReasons, throttle_supported)

/* One memory clock, and graphics clocks from the highest down in steps of 15 MHz. */
NVML_API nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned *count,
                                                         unsigned *clocks);
nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned *count,
                                                unsigned *clocks)
{
    unsigned mhz;
    nvmlReturn_t result = get_reading(__func__, device, READ_clock_memory_max, &mhz);
    if (result != NVML_SUCCESS)
        return result;
    if (count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned room = *count;
    *count = 1;
    if (room < 1 || clocks == NULL)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    clocks[0] = mhz;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned memory,
                                                           unsigned *count, unsigned *clocks);
nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned memory,
                                                  unsigned *count, unsigned *clocks)
{
    enum { STEP = 15 };
    unsigned most, least, memory_max;
    nvmlReturn_t result = get_reading(__func__, device, READ_clock_graphics_max, &most);
    if (result == NVML_SUCCESS)
        result = get_reading(__func__, device, READ_clock_graphics_idle, &least);
    if (result == NVML_SUCCESS)
        result = get_reading(__func__, device, READ_clock_memory_max, &memory_max);
    if (result != NVML_SUCCESS)
        return result;
    if (count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (memory != memory_max)
        return NVML_ERROR_NOT_FOUND;
    unsigned room = *count, number = most < least ? 0 : (most - least) / STEP + 1;
    *count = number;
    if (room < number || clocks == NULL)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < number; i++)
        clocks[i] = most - i * STEP;
    return NVML_SUCCESS;
}
