/* NVLink and topology. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "call.h"

enum { TOPOLOGY_HOST_BRIDGE = 30, P2P_OK = 0, SWITCH_FIRST_BUS = 0x41, MOST_LINKS = 18 };

static nvmlReturn_t begin_link(struct call *call, const char *function, nvmlDevice_t device,
                               unsigned link)
{
    nvmlReturn_t result = call_begin_device(call, function, device);
    if (result != NVML_SUCCESS)
        return result;
    if (link < reading_or(call, READ_nvlink_count, 0))
        return NVML_SUCCESS;
    /* nvidia-smi tries all links that any GPU may have. */
    return call_end(call, link < MOST_LINKS ? NVML_ERROR_NOT_SUPPORTED
                                            : NVML_ERROR_INVALID_ARGUMENT);
}

#define LINK_FUNCTION(function, expression)                                                     \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, unsigned link, unsigned *value);        \
    nvmlReturn_t function(nvmlDevice_t device, unsigned link, unsigned *value)                  \
    {                                                                                           \
        struct call call;                                                                       \
        nvmlReturn_t result = begin_link(&call, __func__, device, link);                        \
        if (result != NVML_SUCCESS)                                                             \
            return result;                                                                      \
        if (value == NULL)                                                                      \
            return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);                                \
        *value = (unsigned)(expression);                                                        \
        return call_end(&call, NVML_SUCCESS);                                                   \
    }

LINK_FUNCTION(nvmlDeviceGetNvLinkState, 1)
LINK_FUNCTION(nvmlDeviceGetNvLinkVersion, reading_or(&call, READ_nvlink_version, 0))
/* 1: another GPU, 2: a switch. */
LINK_FUNCTION(nvmlDeviceGetNvLinkRemoteDeviceType,
              reading_or(&call, READ_nvlink_switches, 0) > 0 ? 2 : 0)

NVML_API nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned link,
                                                    unsigned capability, unsigned *value);
nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned link, unsigned capability,
                                           unsigned *value)
{
    struct call call;
    nvmlReturn_t result = begin_link(&call, __func__, device, link);
    if (result != NVML_SUCCESS)
        return result;
    if (value == NULL || capability > 5)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *value = capability != 4; /* all but SLI bridges */
    return call_end(&call, NVML_SUCCESS);
}

/* Links go to the switches in turn or, without any, to the other GPUs in turn. */
NVML_API nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link,
                                                          nvmlPciInfo_t *info);
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link,
                                                 nvmlPciInfo_t *info)
{
    struct call call;
    nvmlReturn_t result = begin_link(&call, __func__, device, link);
    if (result != NVML_SUCCESS)
        return result;
    if (info == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    unsigned switches = (unsigned)reading_or(&call, READ_nvlink_switches, 0);
    unsigned others = call.scenario->gpu_count - 1;
    memset(info, 0, sizeof *info);
    if (switches > 0) {
        info->bus = SWITCH_FIRST_BUS + link % switches;
    } else if (others > 0) {
        unsigned other = (call.index + 1 + link % others) % call.scenario->gpu_count;
        call.gpu = &call.scenario->gpus[other];
        info->bus = (unsigned)reading_or(&call, READ_pci_bus, 0);
        info->pciDeviceId = (unsigned)reading_or(&call, READ_pci_device_id, 0);
    } else {
        return call_end(&call, NVML_ERROR_NOT_SUPPORTED);
    }
    snprintf(info->busId, sizeof info->busId, "%08X:%02X:%02X.0", 0u, info->bus, 0u);
    snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "%04X:%02X:%02X.0", 0u,
             info->bus & 0xFF, 0u);
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link,
                                                      unsigned counter, unsigned long long *value);
nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link, unsigned counter,
                                             unsigned long long *value)
{
    struct call call;
    nvmlReturn_t result = begin_link(&call, __func__, device, link);
    if (result != NVML_SUCCESS)
        return result;
    if (value == NULL || counter > 4)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *value = 0;
    return call_end(&call, NVML_SUCCESS);
}

/* Two devices of the same server; the second one is checked only for being there. */
static nvmlReturn_t between(const char *function, nvmlDevice_t one, nvmlDevice_t two, unsigned far,
                            unsigned near, unsigned *value)
{
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, function, two);
    if (result == NVML_SUCCESS)
        call_end(&call, NVML_SUCCESS);
    if (result == NVML_SUCCESS)
        result = call_begin_device(&call, function, one);
    if (result != NVML_SUCCESS)
        return result;
    if (value == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *value = one == two ? near : far;
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t two,
                                                          unsigned *level);
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t two,
                                                 unsigned *level)
{
    return between(__func__, one, two, TOPOLOGY_HOST_BRIDGE, 0, level);
}

NVML_API nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t one, nvmlDevice_t two, unsigned *is_same);
nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t one, nvmlDevice_t two, unsigned *is_same)
{
    return between(__func__, one, two, 0, 1, is_same);
}

NVML_API nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t two, unsigned what,
                                             unsigned *status);
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t two, unsigned what,
                                    unsigned *status)
{
    (void)what;
    return between(__func__, one, two, P2P_OK, P2P_OK, status);
}

NVML_API nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, unsigned level,
                                                       unsigned *count, nvmlDevice_t *nearest);
nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, unsigned level, unsigned *count,
                                              nvmlDevice_t *nearest)
{
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, __func__, device);
    if (result != NVML_SUCCESS)
        return result;
    if (count == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    unsigned found = 0, room = nearest == NULL ? 0 : *count;
    for (unsigned i = 0; level >= TOPOLOGY_HOST_BRIDGE && i < call.scenario->gpu_count; i++) {
        if (i == call.index)
            continue;
        if (found < room)
            nearest[found] = call_handle(i);
        found++;
    }
    *count = found;
    return call_end(&call, NVML_SUCCESS);
}

/* The CPUs of this machine: which are near a simulated GPU nobody can say. */
static void fill_cpus(unsigned words, unsigned long *mask)
{
    enum { BITS = 8 * sizeof *mask };
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    for (unsigned word = 0; word < words; word++) {
        mask[word] = 0;
        for (unsigned bit = 0; bit < BITS; bit++)
            if ((long)(word * BITS + bit) < cpus)
                mask[word] |= 1ul << bit;
    }
}

static nvmlReturn_t affinity(const char *function, nvmlDevice_t device, unsigned words,
                             unsigned long *mask, int is_memory)
{
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, function, device);
    if (result != NVML_SUCCESS)
        return result;
    if (words == 0 || mask == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    if (is_memory) {
        memset(mask, 0, words * sizeof *mask);
        mask[0] = 1;
    } else {
        fill_cpus(words, mask);
    }
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned words,
                                               unsigned long *mask);
nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned words, unsigned long *mask)
{
    return affinity(__func__, device, words, mask, 0);
}

NVML_API nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned words,
                                                          unsigned long *mask, unsigned scope);
nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned words,
                                                 unsigned long *mask, unsigned scope)
{
    (void)scope;
    return affinity(__func__, device, words, mask, 0);
}

NVML_API nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned words,
                                                  unsigned long *mask, unsigned scope);
nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned words, unsigned long *mask,
                                         unsigned scope)
{
    (void)scope;
    return affinity(__func__, device, words, mask, 1);
}

/* Whether the fabric manager has set up the switches: 1 not started, 2 in progress, 3 completed. */
NVML_API nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info);
nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
    enum { COMPLETED = 3 };
    unsigned state;
    nvmlReturn_t result = get_reading(__func__, device, READ_fabric_state, &state);
    if (result != NVML_SUCCESS)
        return result;
    if (info == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *info = (nvmlGpuFabricInfo_t){
        .status = state == COMPLETED ? NVML_SUCCESS : NVML_ERROR_NOT_READY,
        .state = (unsigned char)state,
    };
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device,
                                                  nvmlGpuFabricInfo_v2_t *info);
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v2_t *info)
{
    enum { VERSION = 0x02000024, COMPLETED = 3 };
    unsigned state;
    nvmlReturn_t result = get_reading(__func__, device, READ_fabric_state, &state);
    if (result != NVML_SUCCESS)
        return result;
    if (info == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (info->version != VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    *info = (nvmlGpuFabricInfo_v2_t){
        .version = VERSION,
        .status = state == COMPLETED ? NVML_SUCCESS : NVML_ERROR_NOT_READY,
        .state = (unsigned char)state,
    };
    return NVML_SUCCESS;
}
