/* Compute instances: one for each GPU instance, as large as that (`nvidia-smi mig -C`). */
#include <stdio.h>
#include <string.h>

#include "mig.h"

struct nvmlComputeInstance_st {
    struct nvmlGpuInstance_st gpu_instance;
};

static struct nvmlComputeInstance_st compute_instances[MAX_GPUS][MAX_INSTANCES];

enum { COMPUTE_V2 = 0x02000088, COMPUTE_V3 = 0x0300008c, FIRST = 0 };
/* Numbers of the API: profiles of 1, 2, 3, 4, 7, 8 and 6 slices. */
static const unsigned slices_of_slot[] = {1, 2, 3, 4, 7, 8, 6};
enum { SLOTS = sizeof slices_of_slot / sizeof slices_of_slot[0] };

static nvmlComputeInstance_t handle_of(nvmlGpuInstance_t whole)
{
    nvmlComputeInstance_t handle = &compute_instances[whole->gpu][whole->id];
    handle->gpu_instance = *whole;
    return handle;
}

static unsigned slot_of(unsigned slices)
{
    unsigned slot = 0;
    while (slot < SLOTS && slices_of_slot[slot] != slices)
        slot++;
    return slot;
}

static unsigned slices_of(const struct call *call, const struct instance *one)
{
    return mig_profile_by_slot(call, one->slot)->slices;
}

/* Begin a call about the compute profile that is as large as the instance; another one of the
 * API's is not supported here. Their ids are their numbers. */
static nvmlReturn_t begin_profile(struct call *call, const char *function,
                                  nvmlGpuInstance_t handle, unsigned slot, struct instance *one)
{
    struct instances all;
    nvmlReturn_t result = mig_begin_instance(call, function, handle, &all, one);
    if (result != NVML_SUCCESS)
        return result;
    return slot == slot_of(slices_of(call, one)) ? NVML_SUCCESS
                                                 : call_end(call, NVML_ERROR_NOT_SUPPORTED);
}

static nvmlReturn_t describe(const char *function, nvmlGpuInstance_t handle, unsigned slot,
                             nvmlComputeInstanceProfileInfo_t *info, char name[96])
{
    struct call call;
    struct instance one;
    nvmlReturn_t result = begin_profile(&call, function, handle, slot, &one);
    if (result != NVML_SUCCESS)
        return result;
    if (info == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    const struct mig_profile *profile = mig_profile_by_slot(&call, one.slot);
    *info = (nvmlComputeInstanceProfileInfo_t){
        .id = slot,
        .sliceCount = profile->slices,
        .instanceCount = 1,
        .multiprocessorCount = profile->multiprocessors,
        .sharedCopyEngineCount = profile->slices,
    };
    snprintf(name, 96, "MIG %s", profile->name);
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(
    nvmlGpuInstance_t handle, unsigned slot, unsigned engine,
    nvmlComputeInstanceProfileInfo_t *info);
nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t handle, unsigned slot,
                                                          unsigned engine,
                                                          nvmlComputeInstanceProfileInfo_t *info)
{
    char name[96];
    (void)engine; /* there is one engine profile */
    return describe(__func__, handle, slot, info, name);
}

NVML_API nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t handle,
                                                                    unsigned slot, unsigned engine,
                                                                    void *info);
nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t handle, unsigned slot,
                                                           unsigned engine, void *info)
{
    nvmlComputeInstanceProfileInfo_v3_t whole = {0};
    (void)engine;
    nvmlReturn_t result = describe(__func__, handle, slot, &whole.info, whole.name);
    if (result != NVML_SUCCESS)
        return result;
    if (info == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    memcpy(&whole.version, info, sizeof whole.version);
    if (whole.version != COMPUTE_V2 && whole.version != COMPUTE_V3)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memcpy(info, &whole, whole.version & 0xffff);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t handle,
                                                                         unsigned id,
                                                                         unsigned *count);
nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t handle,
                                                                unsigned id, unsigned *count)
{
    struct call call;
    struct instance one;
    nvmlReturn_t result = begin_profile(&call, __func__, handle, id, &one);
    if (result != NVML_SUCCESS)
        return result;
    if (count == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *count = !one.is_computing;
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(
    nvmlGpuInstance_t handle, unsigned id, nvmlGpuInstancePlacement_t *placements,
    unsigned *count);
nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(
    nvmlGpuInstance_t handle, unsigned id, nvmlGpuInstancePlacement_t *placements, unsigned *count)
{
    struct call call;
    struct instance one;
    nvmlReturn_t result = begin_profile(&call, __func__, handle, id, &one);
    if (result != NVML_SUCCESS)
        return result;
    if (count == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    if (placements != NULL && *count >= 1)
        placements[0] = (nvmlGpuInstancePlacement_t){0, slices_of(&call, &one)};
    *count = 1;
    return call_end(&call, NVML_SUCCESS);
}

static nvmlReturn_t make(const char *function, nvmlGpuInstance_t handle, unsigned id,
                         nvmlComputeInstance_t *made)
{
    struct call call;
    struct instance one;
    nvmlReturn_t result = begin_profile(&call, function, handle, id, &one);
    if (result != NVML_SUCCESS)
        return result;
    call_end(&call, NVML_SUCCESS);
    if (made == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    result = mig_change(function, handle, 1);
    if (result == NVML_SUCCESS)
        *made = handle_of(handle);
    return result;
}

NVML_API nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t handle, unsigned id,
                                                           nvmlComputeInstance_t *made);
nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t handle, unsigned id,
                                                  nvmlComputeInstance_t *made)
{
    return make(__func__, handle, id, made);
}

NVML_API nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(
    nvmlGpuInstance_t handle, unsigned id, const nvmlGpuInstancePlacement_t *placement,
    nvmlComputeInstance_t *made);
nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(
    nvmlGpuInstance_t handle, unsigned id, const nvmlGpuInstancePlacement_t *placement,
    nvmlComputeInstance_t *made)
{
    (void)placement; /* the instance is taken as a whole */
    return make(__func__, handle, id, made);
}

/* The instance that a compute instance's handle belongs to; NULL: it is no such handle. */
static nvmlGpuInstance_t whole_of(nvmlComputeInstance_t handle)
{
    int known = handle >= &compute_instances[0][0] &&
                handle <= &compute_instances[MAX_GPUS - 1][MAX_INSTANCES - 1];
    return known ? mig_instance(handle->gpu_instance.gpu, handle->gpu_instance.id) : NULL;
}

NVML_API nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t handle);
nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t handle)
{
    return mig_change(__func__, whole_of(handle), 0);
}

NVML_API nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t handle, unsigned id,
                                                         nvmlComputeInstance_t *handles,
                                                         unsigned *count);
nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t handle, unsigned id,
                                                nvmlComputeInstance_t *handles, unsigned *count)
{
    struct call call;
    struct instance one;
    nvmlReturn_t result = begin_profile(&call, __func__, handle, id, &one);
    if (result != NVML_SUCCESS)
        return result;
    if (handles == NULL || count == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *count = one.is_computing ? 1 : 0;
    if (one.is_computing)
        handles[0] = handle_of(handle);
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t handle, unsigned id,
                                                            nvmlComputeInstance_t *found);
nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t handle, unsigned id,
                                                   nvmlComputeInstance_t *found)
{
    struct call call;
    struct instances all;
    struct instance one;
    nvmlReturn_t result = mig_begin_instance(&call, __func__, handle, &all, &one);
    if (result != NVML_SUCCESS)
        return result;
    if (found == NULL || id != FIRST || !one.is_computing)
        return call_end(&call, NVML_ERROR_NOT_FOUND);
    *found = handle_of(handle);
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t handle,
                                                    nvmlComputeInstanceInfo_t *info);
nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t handle,
                                           nvmlComputeInstanceInfo_t *info)
{
    struct call call;
    struct instances all;
    struct instance one;
    nvmlGpuInstance_t whole = whole_of(handle);
    nvmlReturn_t result = mig_begin_instance(&call, __func__, whole, &all, &one);
    if (result != NVML_SUCCESS)
        return result;
    if (info == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    unsigned slices = slices_of(&call, &one);
    *info = (nvmlComputeInstanceInfo_t){
        call_handle(call.index), whole, FIRST, slot_of(slices), {0, slices}};
    return call_end(&call, one.is_computing ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND);
}
