/* Which GPUs there are and what they are. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "call.h"
#include "devices.h"
#include "mig.h"
#include "place.h"

/* A driver shows a program the GPUs whose device files it has: so a container sees only those that
 * it was given. Where there is no control device there are no device files, and all are shown. */
static int is_visible(const struct call *call, unsigned index)
{
    char path[PLACE_SIZE], name[24];
    place_path(path, "GPUSIM_DEV_DIR", "/dev", "nvidiactl");
    if (access(path, F_OK) != 0)
        return 1;
    const struct call other = {call->scenario, &call->scenario->gpus[index], index, call->now_ms};
    snprintf(name, sizeof name, "nvidia%u", (unsigned)reading_or(&other, READ_minor_number, index));
    place_path(path, "GPUSIM_DEV_DIR", "/dev", name);
    return access(path, F_OK) == 0;
}

/* How many of the first GPUs a program sees. */
static unsigned visible_before(const struct call *call, unsigned end)
{
    unsigned count = 0;
    for (unsigned i = 0; i < end; i++)
        count += (unsigned)is_visible(call, i);
    return count;
}

static nvmlReturn_t device_count(const char *function, unsigned *count)
{
    struct call call;
    nvmlReturn_t result = call_begin(&call, function);
    if (result != NVML_SUCCESS)
        return result;
    if (count == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *count = visible_before(&call, call.scenario->gpu_count);
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetCount(unsigned *count);
nvmlReturn_t nvmlDeviceGetCount(unsigned *count)
{
    return device_count(__func__, count);
}

NVML_API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count);
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    return device_count(__func__, count);
}

/* A lost GPU has no handle any more; one that answers with errors has. */
static nvmlReturn_t hand_out(const struct call *call, unsigned index, nvmlDevice_t *device)
{
    if (call->scenario->gpus[index].error == NVML_ERROR_GPU_IS_LOST)
        return NVML_ERROR_GPU_IS_LOST;
    *device = call_handle(index);
    return NVML_SUCCESS;
}

nvmlReturn_t device_by_index(const char *function, unsigned index, nvmlDevice_t *device)
{
    struct call call;
    nvmlReturn_t result = call_begin(&call, function);
    if (result != NVML_SUCCESS)
        return result;
    if (device == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned i = 0; i < call.scenario->gpu_count; i++)
        if (is_visible(&call, i) && index-- == 0)
            return call_end(&call, hand_out(&call, i, device));
    return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
    return device_by_index(__func__, index, device);
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    return device_by_index(__func__, index, device);
}

static nvmlReturn_t find(const char *function, const char *wanted, nvmlDevice_t *device,
                         int (*matches)(const struct call *, const char *))
{
    struct call call;
    nvmlReturn_t result = call_begin(&call, function);
    if (result != NVML_SUCCESS)
        return result;
    if (wanted == NULL || device == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    for (call.index = 0; call.index < call.scenario->gpu_count; call.index++) {
        call.gpu = &call.scenario->gpus[call.index];
        if (matches(&call, wanted) && is_visible(&call, call.index))
            return call_end(&call, hand_out(&call, call.index, device));
    }
    return call_end(&call, NVML_ERROR_NOT_FOUND);
}

static int has_uuid(const struct call *call, const char *wanted)
{
    return strcmp(call->gpu->text[TEXT_uuid], wanted) == 0;
}

static int has_serial(const struct call *call, const char *wanted)
{
    return strcmp(call->gpu->text[TEXT_serial], wanted) == 0;
}

/* DDDD:BB:DD.F, the domain with four or eight digits, or none. */
static int has_bus_id(const struct call *call, const char *wanted)
{
    unsigned domain = 0, bus, device;
    if (sscanf(wanted, "%x:%x:%x", &domain, &bus, &device) != 3) {
        domain = 0;
        if (sscanf(wanted, "%x:%x", &bus, &device) != 2)
            return 0;
    }
    return domain == (unsigned)reading_or(call, READ_pci_domain, 0) &&
           bus == (unsigned)reading_or(call, READ_pci_bus, 0) &&
           device == (unsigned)reading_or(call, READ_pci_device, 0);
}

#define FIND_FUNCTION(function, matches)                                                        \
    NVML_API nvmlReturn_t function(const char *wanted, nvmlDevice_t *device);                   \
    nvmlReturn_t function(const char *wanted, nvmlDevice_t *device)                             \
    {                                                                                           \
        return find(__func__, wanted, device, matches);                                         \
    }

NVML_API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *wanted, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *wanted, nvmlDevice_t *device)
{
    nvmlReturn_t result = find(__func__, wanted, device, has_uuid);
    return result == NVML_ERROR_NOT_FOUND ? mig_by_uuid(__func__, wanted, device) : result;
}

FIND_FUNCTION(nvmlDeviceGetHandleBySerial, has_serial)
FIND_FUNCTION(nvmlDeviceGetHandleByPciBusId, has_bus_id)
FIND_FUNCTION(nvmlDeviceGetHandleByPciBusId_v2, has_bus_id)

NVML_API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index);
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index)
{
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, __func__, device);
    if (result != NVML_SUCCESS)
        return result;
    if (index == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *index = visible_before(&call, call.index);
    return call_end(&call, NVML_SUCCESS);
}

TEXT_FUNCTION(nvmlDeviceGetSerial, serial)
TEXT_FUNCTION(nvmlDeviceGetVbiosVersion, vbios)
TEXT_FUNCTION(nvmlDeviceGetBoardPartNumber, part_number)
TEXT_FUNCTION(nvmlDeviceGetInforomImageVersion, inforom)

READING_FUNCTION(nvmlDeviceGetMinorNumber, minor_number)
READING_FUNCTION(nvmlDeviceGetBoardId, board_id)
READING_FUNCTION(nvmlDeviceGetModuleId, module_id)
READING_FUNCTION(nvmlDeviceGetBrand, brand)
READING_FUNCTION(nvmlDeviceGetArchitecture, architecture)
READING_FUNCTION(nvmlDeviceGetNumGpuCores, cores)
READING_FUNCTION(nvmlDeviceGetMemoryBusWidth, memory_bus_width)
READING_FUNCTION(nvmlDeviceGetNumaNodeId, numa_node)
READING_FUNCTION(nvmlDeviceGetDisplayActive, display_active)
READING_FUNCTION(nvmlDeviceGetDisplayMode, display_mode)
READING_FUNCTION(nvmlDeviceGetPersistenceMode, persistence)
READING_FUNCTION(nvmlDeviceGetComputeMode, compute_mode)
READING_FUNCTION(nvmlDeviceGetPerformanceState, performance_state)
READING_FUNCTION(nvmlDeviceGetPowerState, performance_state)

/* Two values that belong together. */
static nvmlReturn_t get_pair(const char *function, nvmlDevice_t device, enum reading first,
                             enum reading second, unsigned *one, unsigned *two)
{
    nvmlReturn_t result = get_reading(function, device, first, one);
    return result == NVML_SUCCESS ? get_reading(function, device, second, two) : result;
}

#define PAIR_FUNCTION(function, first, second)                                                  \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, unsigned *one, unsigned *two);          \
    nvmlReturn_t function(nvmlDevice_t device, unsigned *one, unsigned *two)                    \
    {                                                                                           \
        return get_pair(__func__, device, READ_##first, READ_##second, one, two);               \
    }

PAIR_FUNCTION(nvmlDeviceGetCudaComputeCapability, compute_major, compute_minor)
PAIR_FUNCTION(nvmlDeviceGetMigMode, mig_mode, mig_mode)
PAIR_FUNCTION(nvmlDeviceGetEccMode, ecc_mode, ecc_mode)
PAIR_FUNCTION(nvmlDeviceGetGspFirmwareMode, gsp_firmware, gsp_firmware)

NVML_API nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version);
nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, __func__, device);
    if (result != NVML_SUCCESS)
        return result;
    if (reading_or(&call, READ_gsp_firmware, 0) == 0)
        return call_end(&call, NVML_ERROR_NOT_SUPPORTED);
    return call_end(&call, put_text(call.scenario->driver, version, 64));
}

NVML_API nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, unsigned *mode);
nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, unsigned *mode)
{
    nvmlReturn_t result = get_reading(__func__, device, READ_architecture, mode);
    if (result == NVML_SUCCESS)
        *mode = 0; /* none: what is simulated is a bare-metal GPU */
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count);
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count)
{
    nvmlReturn_t result = get_reading(__func__, device, READ_mig_instances, count);
    if (result == NVML_ERROR_NOT_SUPPORTED && count != NULL) {
        *count = 0;
        return NVML_SUCCESS;
    }
    return result;
}
