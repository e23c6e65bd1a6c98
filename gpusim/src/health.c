/* Memory errors. */
#include "call.h"

/* The readings stand in this order: counter (volatile, aggregate), then corrected, uncorrected. */
static enum reading error_reading(enum reading first, unsigned type, unsigned counter)
{
    return first + counter * 2 + type;
}

NVML_API nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned type,
                                                      unsigned counter, unsigned location,
                                                      unsigned long long *count);
nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned type, unsigned counter,
                                             unsigned location, unsigned long long *count)
{
    unsigned value;
    if (type > 1 || counter > 1 || count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (location != NVML_LOCATION_DEVICE_MEMORY && location != NVML_LOCATION_SRAM)
        return NVML_ERROR_NOT_SUPPORTED;
    enum reading first = location == NVML_LOCATION_SRAM ? READ_ecc_sram_volatile_corrected
                                                        : READ_ecc_dram_volatile_corrected;
    nvmlReturn_t result = get_reading(__func__, device, error_reading(first, type, counter),
                                      &value);
    if (result == NVML_SUCCESS)
        *count = value;
    return result;
}

static nvmlReturn_t get_errors(const char *function, nvmlDevice_t device, unsigned type,
                               unsigned counter, unsigned *dram, unsigned *sram)
{
    nvmlReturn_t result = get_reading(
        function, device, error_reading(READ_ecc_dram_volatile_corrected, type, counter), dram);
    if (result != NVML_SUCCESS)
        return result;
    return get_reading(
        function, device, error_reading(READ_ecc_sram_volatile_corrected, type, counter), sram);
}

NVML_API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned type,
                                                  unsigned counter, unsigned long long *count);
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned type, unsigned counter,
                                         unsigned long long *count)
{
    unsigned dram, sram;
    if (type > 1 || counter > 1 || count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = get_errors(__func__, device, type, counter, &dram, &sram);
    if (result == NVML_SUCCESS)
        *count = (unsigned long long)dram + sram;
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetDetailedEccErrors(nvmlDevice_t device, unsigned type,
                                                     unsigned counter,
                                                     nvmlEccErrorCounts_t *counts);
nvmlReturn_t nvmlDeviceGetDetailedEccErrors(nvmlDevice_t device, unsigned type, unsigned counter,
                                            nvmlEccErrorCounts_t *counts)
{
    unsigned dram, sram;
    if (type > 1 || counter > 1 || counts == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = get_errors(__func__, device, type, counter, &dram, &sram);
    if (result == NVML_SUCCESS)
        *counts = (nvmlEccErrorCounts_t){.l2Cache = sram, .deviceMemory = dram};
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *correctable,
                                                unsigned *uncorrectable, unsigned *is_pending,
                                                unsigned *has_failed);
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *correctable,
                                       unsigned *uncorrectable, unsigned *is_pending,
                                       unsigned *has_failed)
{
    nvmlReturn_t result = get_reading(__func__, device, READ_remapped_correctable, correctable);
    if (result == NVML_SUCCESS)
        result = get_reading(__func__, device, READ_remapped_uncorrectable, uncorrectable);
    if (result == NVML_SUCCESS)
        result = get_reading(__func__, device, READ_remapped_pending, is_pending);
    if (result == NVML_SUCCESS)
        result = get_reading(__func__, device, READ_remapped_failed, has_failed);
    return result;
}

/* How many; their addresses are made up from the number. */
static nvmlReturn_t retired(const char *function, nvmlDevice_t device, unsigned cause,
                            unsigned *count, unsigned long long *addresses)
{
    unsigned number;
    if (cause > 1 || count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = get_reading(
        function, device, cause == 0 ? READ_retired_corrected : READ_retired_uncorrected, &number);
    if (result != NVML_SUCCESS)
        return result;
    unsigned room = *count;
    *count = number;
    if (number > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < number && addresses != NULL; i++)
        addresses[i] = 0x1000ull * (i + 1);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned cause,
                                                unsigned *count, unsigned long long *addresses);
nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned cause, unsigned *count,
                                       unsigned long long *addresses)
{
    return retired(__func__, device, cause, count, addresses);
}

NVML_API nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, unsigned cause,
                                                   unsigned *count, unsigned long long *addresses,
                                                   unsigned long long *timestamps);
nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, unsigned cause, unsigned *count,
                                          unsigned long long *addresses,
                                          unsigned long long *timestamps)
{
    nvmlReturn_t result = retired(__func__, device, cause, count, addresses);
    for (unsigned i = 0; result == NVML_SUCCESS && timestamps != NULL && i < *count; i++)
        timestamps[i] = 0;
    return result;
}

READING_FUNCTION(nvmlDeviceGetRetiredPagesPendingStatus, retired_pending)

/* All uncorrected errors are counted as parity errors of the L2 cache. */
NVML_API nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device,
                                                      nvmlEccSramErrorStatus_v1_t *status);
nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device,
                                             nvmlEccSramErrorStatus_v1_t *status)
{
    enum { VERSION = 0x1000068 };
    unsigned counts[4];
    for (unsigned i = 0; i < 4; i++) {
        nvmlReturn_t result =
            get_reading(__func__, device, READ_ecc_sram_volatile_corrected + i, &counts[i]);
        if (result != NVML_SUCCESS)
            return result;
    }
    if (status == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (status->version != VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    *status = (nvmlEccSramErrorStatus_v1_t){
        .version = VERSION,
        .volatileCor = counts[0],
        .volatileUncParity = counts[1],
        .aggregateCor = counts[2],
        .aggregateUncParity = counts[3],
        .bucketL2 = counts[3],
    };
    return NVML_SUCCESS;
}
