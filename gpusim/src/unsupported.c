/*
 * Functions that nvidia-smi or Slurm look up and that a bare-metal GPU without vGPU and units
 * answers with "not supported". Their arguments are never looked at.
 */
#include "nvml.h"

#define UNSUPPORTED(function)                                                                   \
    NVML_API nvmlReturn_t function(void);                                                       \
    nvmlReturn_t function(void)                                                                 \
    {                                                                                           \
        return NVML_ERROR_NOT_SUPPORTED;                                                        \
    }

UNSUPPORTED(nvmlDeviceGetAccountingBufferSize)
UNSUPPORTED(nvmlDeviceGetAccountingMode)
UNSUPPORTED(nvmlDeviceGetAccountingPids)
UNSUPPORTED(nvmlDeviceGetAccountingStats)
UNSUPPORTED(nvmlDeviceGetActiveVgpus)
UNSUPPORTED(nvmlDeviceGetAutoBoostedClocksEnabled)
UNSUPPORTED(nvmlDeviceGetBridgeChipInfo)
UNSUPPORTED(nvmlDeviceGetC2cModeInfoV)
UNSUPPORTED(nvmlDeviceGetConfComputeMemSizeInfo)
UNSUPPORTED(nvmlDeviceGetConfComputeProtectedMemoryUsage)
UNSUPPORTED(nvmlDeviceGetDriverModel)
UNSUPPORTED(nvmlDeviceGetDriverModel_v2)
UNSUPPORTED(nvmlDeviceGetEncoderSessions)
UNSUPPORTED(nvmlDeviceGetEncoderStats)
UNSUPPORTED(nvmlDeviceGetFBCSessions)
UNSUPPORTED(nvmlDeviceGetFBCStats)
UNSUPPORTED(nvmlDeviceGetGpcClkVfOffset)
UNSUPPORTED(nvmlDeviceGetGpuOperationMode)
UNSUPPORTED(nvmlDeviceGetGridLicensableFeatures_v4)
UNSUPPORTED(nvmlDeviceGetHostVgpuMode)
UNSUPPORTED(nvmlDeviceGetInforomVersion)
UNSUPPORTED(nvmlDeviceGetLastBBXFlushTime)
UNSUPPORTED(nvmlDeviceGetMultiGpuBoard)
UNSUPPORTED(nvmlDeviceGetRowRemapperHistogram)
UNSUPPORTED(nvmlDeviceGetSamples)
UNSUPPORTED(nvmlDeviceGetSupportedVgpus)
UNSUPPORTED(nvmlDeviceGetVgpuCapabilities)
UNSUPPORTED(nvmlDeviceGetVgpuHeterogeneousMode)
UNSUPPORTED(nvmlDeviceGetVgpuMetadata)
UNSUPPORTED(nvmlDeviceGetVgpuSchedulerState)
UNSUPPORTED(nvmlDeviceGetViolationStatus)
UNSUPPORTED(nvmlDeviceQueryDrainState)
UNSUPPORTED(nvmlDeviceResetGpuLockedClocks)
UNSUPPORTED(nvmlDeviceResetMemoryLockedClocks)
UNSUPPORTED(nvmlDeviceSetEccMode)
UNSUPPORTED(nvmlDeviceSetGpuLockedClocks)
UNSUPPORTED(nvmlDeviceSetMemoryLockedClocks)
UNSUPPORTED(nvmlDeviceValidateInforom)
UNSUPPORTED(nvmlSystemGetConfComputeCapabilities)
UNSUPPORTED(nvmlSystemGetConfComputeGpusReadyState)
UNSUPPORTED(nvmlSystemGetConfComputeSettings)
UNSUPPORTED(nvmlSystemGetConfComputeState)
UNSUPPORTED(nvmlSystemGetHicVersion)
UNSUPPORTED(nvmlSystemGetNvlinkBwMode)
UNSUPPORTED(nvmlSystemGetTopologyGpuSet)
UNSUPPORTED(nvmlUnitGetCount)
