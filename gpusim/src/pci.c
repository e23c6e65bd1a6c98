/* Where a GPU sits, and its link. */
#include <stdio.h>

#include "call.h"
#include "place.h"

static unsigned part(const struct call *call, enum reading reading)
{
    return (unsigned)reading_or(call, reading, 0);
}

static nvmlReturn_t pci_info(const char *function, nvmlDevice_t device, nvmlPciInfo_t *info)
{
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, function, device);
    if (result != NVML_SUCCESS)
        return result;
    if (info == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *info = (nvmlPciInfo_t){
        .domain = part(&call, READ_pci_domain),
        .bus = part(&call, READ_pci_bus),
        .device = part(&call, READ_pci_device),
        .pciDeviceId = part(&call, READ_pci_device_id),
        .pciSubSystemId = part(&call, READ_pci_subsystem_id),
    };
    snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "%04X:%02X:%02X.0",
             info->domain & 0xFFFF, info->bus & 0xFF, info->device & 0xFF);
    snprintf(info->busId, sizeof info->busId, "%08X:%02X:%02X.0", info->domain, info->bus,
             info->device);
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info);
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    return pci_info(__func__, device, info);
}

static nvmlReturn_t old_pci_info(const char *function, nvmlDevice_t device, nvmlPciInfo_v2_t *info)
{
    nvmlPciInfo_t whole;
    nvmlReturn_t result = info == NULL ? NVML_ERROR_INVALID_ARGUMENT
                                       : pci_info(function, device, &whole);
    if (result != NVML_SUCCESS)
        return result;
    *info = (nvmlPciInfo_v2_t){
        .domain = whole.domain,
        .bus = whole.bus,
        .device = whole.device,
        .pciDeviceId = whole.pciDeviceId,
        .pciSubSystemId = whole.pciSubSystemId,
    };
    for (size_t i = 0; i < sizeof info->busId; i++)
        info->busId[i] = whole.busIdLegacy[i];
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_v2_t *info);
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_v2_t *info)
{
    return old_pci_info(__func__, device, info);
}

NVML_API nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t *info);
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t *info)
{
    return old_pci_info(__func__, device, info);
}

NVML_API nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_v1_t *info);
nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_v1_t *info)
{
    nvmlPciInfo_t whole;
    nvmlReturn_t result = info == NULL ? NVML_ERROR_INVALID_ARGUMENT
                                       : pci_info(__func__, device, &whole);
    if (result != NVML_SUCCESS)
        return result;
    *info = (nvmlPciInfoExt_v1_t){
        .version = info->version,
        .domain = whole.domain,
        .bus = whole.bus,
        .device = whole.device,
        .pciDeviceId = whole.pciDeviceId,
        .pciSubSystemId = whole.pciSubSystemId,
        .baseClass = 0x03,
        .subClass = 0x02,
    };
    for (size_t i = 0; i < sizeof info->busId; i++)
        info->busId[i] = whole.busId[i];
    return NVML_SUCCESS;
}

READING_FUNCTION(nvmlDeviceGetCurrPcieLinkGeneration, pcie_generation)
READING_FUNCTION(nvmlDeviceGetMaxPcieLinkGeneration, pcie_generation_max)
READING_FUNCTION(nvmlDeviceGetGpuMaxPcieLinkGeneration, pcie_generation_max)
READING_FUNCTION(nvmlDeviceGetCurrPcieLinkWidth, pcie_width)
READING_FUNCTION(nvmlDeviceGetMaxPcieLinkWidth, pcie_width_max)
READING_FUNCTION(nvmlDeviceGetPcieReplayCounter, pcie_replay)

NVML_API nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned counter,
                                                  unsigned *kilobytes_per_second);
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned counter,
                                         unsigned *kilobytes_per_second)
{
    if (counter > NVML_PCIE_RX)
        return NVML_ERROR_INVALID_ARGUMENT;
    /* The real call counts for 20 ms. */
    sleep_ms(20);
    return get_reading(__func__, device, counter == NVML_PCIE_TX ? READ_pcie_tx : READ_pcie_rx,
                       kilobytes_per_second);
}
