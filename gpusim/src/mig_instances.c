/* GPU instances and their compute instances, as `nvidia-smi mig` makes and lists them. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mig.h"

static struct nvmlGpuInstance_st gpu_instances[MAX_GPUS][MAX_INSTANCES];

enum { PROFILE_V2 = 0x02000098, PROFILE_V3 = 0x03000098 };

nvmlGpuInstance_t mig_instance(unsigned gpu, unsigned id)
{
    gpu_instances[gpu][id] = (struct nvmlGpuInstance_st){gpu, id};
    return &gpu_instances[gpu][id];
}

nvmlReturn_t mig_begin_instance(struct call *call, const char *function,
                                nvmlGpuInstance_t handle, struct instances *all,
                                struct instance *one)
{
    int known = handle >= &gpu_instances[0][0] &&
                handle <= &gpu_instances[MAX_GPUS - 1][MAX_INSTANCES - 1];
    if (!known)
        return call_refuse(call, function);
    nvmlReturn_t result = call_begin_device(call, function, call_handle(handle->gpu));
    if (result != NVML_SUCCESS)
        return result;
    mig_read(call, all);
    const struct instance *found = mig_find(all, handle->id);
    if (found == NULL)
        return call_end(call, NVML_ERROR_NOT_FOUND);
    *one = *found;
    return NVML_SUCCESS;
}

/* Begin a call about a profile of a GPU whose MIG mode is on. */
static nvmlReturn_t begin_profile(struct call *call, const char *function, nvmlDevice_t device,
                                  unsigned id, const struct mig_profile **profile)
{
    nvmlReturn_t result = call_begin_device(call, function, device);
    if (result != NVML_SUCCESS)
        return result;
    *profile = mig_is_on(call) ? mig_profile_by_id(call, id) : NULL;
    if (*profile == NULL)
        return call_end(call, mig_is_on(call) ? NVML_ERROR_INVALID_ARGUMENT
                                              : NVML_ERROR_NOT_SUPPORTED);
    return NVML_SUCCESS;
}

static nvmlReturn_t describe(const char *function, nvmlDevice_t device, unsigned slot,
                             nvmlGpuInstanceProfileInfo_t *info, char name[96])
{
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, function, device);
    if (result != NVML_SUCCESS)
        return result;
    const struct mig_profile *profile = mig_is_on(&call) ? mig_profile_by_slot(&call, slot) : NULL;
    if (profile == NULL)
        return call_end(&call, NVML_ERROR_NOT_SUPPORTED);
    if (info == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *info = (nvmlGpuInstanceProfileInfo_t){
        .id = profile->id,
        .sliceCount = profile->slices,
        .instanceCount = profile->most,
        .multiprocessorCount = profile->multiprocessors,
        .copyEngineCount = profile->slices,
        .memorySizeMB = (unsigned long long)profile->memory_mib,
    };
    snprintf(name, 96, "MIG %s", profile->name);
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned slot,
                                                          nvmlGpuInstanceProfileInfo_t *info);
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned slot,
                                                 nvmlGpuInstanceProfileInfo_t *info)
{
    char name[96];
    return describe(__func__, device, slot, info, name);
}

/* Version 3 has no isP2pSupported and ends with capabilities. */
NVML_API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned slot,
                                                           void *info);
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned slot, void *info)
{
    nvmlGpuInstanceProfileInfo_t plain;
    char name[96];
    unsigned version;
    nvmlReturn_t result = describe(__func__, device, slot, &plain, name);
    if (result != NVML_SUCCESS)
        return result;
    if (info == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    memcpy(&version, info, sizeof version);
    if (version != PROFILE_V2 && version != PROFILE_V3)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (version == PROFILE_V2) {
        nvmlGpuInstanceProfileInfo_v2_t two = {
            .version = version,
            .id = plain.id,
            .sliceCount = plain.sliceCount,
            .instanceCount = plain.instanceCount,
            .multiprocessorCount = plain.multiprocessorCount,
            .copyEngineCount = plain.copyEngineCount,
            .memorySizeMB = plain.memorySizeMB,
        };
        memcpy(two.name, name, sizeof two.name);
        memcpy(info, &two, sizeof two);
        return NVML_SUCCESS;
    }
    nvmlGpuInstanceProfileInfo_v3_t three = {
        .version = version,
        .id = plain.id,
        .sliceCount = plain.sliceCount,
        .instanceCount = plain.instanceCount,
        .multiprocessorCount = plain.multiprocessorCount,
        .copyEngineCount = plain.copyEngineCount,
        .memorySizeMB = plain.memorySizeMB,
    };
    memcpy(three.name, name, sizeof three.name);
    memcpy(info, &three, sizeof three);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned id,
                                                                unsigned *count);
nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned id,
                                                       unsigned *count)
{
    struct call call;
    struct instances all;
    const struct mig_profile *profile;
    nvmlReturn_t result = begin_profile(&call, __func__, device, id, &profile);
    if (result != NVML_SUCCESS)
        return result;
    if (count == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    mig_read(&call, &all);
    *count = mig_room(&all, &call, profile, NULL);
    return call_end(&call, NVML_SUCCESS);
}

/* Where a profile may stand at all, whether that is taken or not. */
NVML_API nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(
    nvmlDevice_t device, unsigned id, nvmlGpuInstancePlacement_t *placements, unsigned *count);
nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned id,
                                                           nvmlGpuInstancePlacement_t *placements,
                                                           unsigned *count)
{
    struct call call;
    const struct mig_profile *profile;
    nvmlReturn_t result = begin_profile(&call, __func__, device, id, &profile);
    if (result != NVML_SUCCESS)
        return result;
    if (count == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    if (placements != NULL && *count < profile->start_count)
        return call_end(&call, NVML_ERROR_INSUFFICIENT_SIZE);
    for (unsigned i = 0; placements != NULL && i < profile->start_count; i++)
        placements[i] = (nvmlGpuInstancePlacement_t){profile->starts[i], profile->size};
    *count = profile->start_count;
    return call_end(&call, NVML_SUCCESS);
}

static unsigned free_id(const struct instances *all)
{
    unsigned id = 0;
    while (mig_find(all, id) != NULL)
        id++;
    return id;
}

static nvmlReturn_t make(const char *function, nvmlDevice_t device, unsigned id,
                         const nvmlGpuInstancePlacement_t *placement, nvmlGpuInstance_t *made)
{
    struct call call;
    struct instances all;
    const struct mig_profile *profile;
    unsigned starts[MAX_STARTS], at = 0;
    nvmlReturn_t result = begin_profile(&call, function, device, id, &profile);
    if (result != NVML_SUCCESS)
        return result;
    if (made == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    if (geteuid() != 0)
        return call_end(&call, NVML_ERROR_NO_PERMISSION);
    int lock = mig_lock();
    mig_read(&call, &all);
    unsigned room = mig_room(&all, &call, profile, starts);
    while (placement != NULL && at < room && starts[at] != placement->start)
        at++;
    if (at >= room || all.count == MAX_INSTANCES)
        result = NVML_ERROR_INSUFFICIENT_RESOURCES;
    if (result == NVML_SUCCESS) {
        unsigned new_id = free_id(&all);
        all.list[all.count++] = (struct instance){new_id, profile->slot, starts[at], 0};
        if (mig_write(&call, &all))
            *made = mig_instance(call.index, new_id);
        else
            result = NVML_ERROR_NO_PERMISSION;
    }
    mig_unlock(lock);
    return call_end(&call, result);
}

NVML_API nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned id,
                                                  nvmlGpuInstance_t *made);
nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned id, nvmlGpuInstance_t *made)
{
    return make(__func__, device, id, NULL, made);
}

NVML_API nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(
    nvmlDevice_t device, unsigned id, const nvmlGpuInstancePlacement_t *placement,
    nvmlGpuInstance_t *made);
nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned id,
                                                      const nvmlGpuInstancePlacement_t *placement,
                                                      nvmlGpuInstance_t *made)
{
    return make(__func__, device, id, placement, made);
}

nvmlReturn_t mig_change(const char *function, nvmlGpuInstance_t handle, int is_computing)
{
    struct call call;
    struct instances all;
    struct instance one;
    int lock = mig_lock();
    nvmlReturn_t result = mig_begin_instance(&call, function, handle, &all, &one);
    if (result != NVML_SUCCESS) {
        mig_unlock(lock);
        return result;
    }
    struct instance *found = all.list;
    while (found->id != handle->id)
        found++;
    if (geteuid() != 0)
        result = NVML_ERROR_NO_PERMISSION;
    else if (is_computing == 1 && one.is_computing)
        result = NVML_ERROR_INSUFFICIENT_RESOURCES;
    else if (is_computing == 0 && !one.is_computing)
        result = NVML_ERROR_NOT_FOUND;
    else if (is_computing < 0 && one.is_computing)
        result = NVML_ERROR_IN_USE;
    else if (is_computing < 0)
        *found = all.list[--all.count];
    else
        found->is_computing = is_computing;
    if (result == NVML_SUCCESS && !mig_write(&call, &all))
        result = NVML_ERROR_NO_PERMISSION;
    mig_unlock(lock);
    return call_end(&call, result);
}

NVML_API nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t handle);
nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t handle)
{
    return mig_change(__func__, handle, -1);
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned id,
                                                nvmlGpuInstance_t *handles, unsigned *count);
nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned id,
                                       nvmlGpuInstance_t *handles, unsigned *count)
{
    struct call call;
    struct instances all;
    const struct mig_profile *profile;
    nvmlReturn_t result = begin_profile(&call, __func__, device, id, &profile);
    if (result != NVML_SUCCESS)
        return result;
    if (handles == NULL || count == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    mig_read(&call, &all);
    *count = 0;
    for (unsigned i = 0; i < all.count; i++)
        if (all.list[i].slot == profile->slot)
            handles[(*count)++] = mig_instance(call.index, all.list[i].id);
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned id,
                                                   nvmlGpuInstance_t *handle);
nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned id,
                                          nvmlGpuInstance_t *handle)
{
    struct call call;
    struct instances all;
    nvmlReturn_t result = call_begin_device(&call, __func__, device);
    if (result != NVML_SUCCESS)
        return result;
    mig_read(&call, &all);
    if (handle == NULL || mig_find(&all, id) == NULL)
        return call_end(&call, NVML_ERROR_NOT_FOUND);
    *handle = mig_instance(call.index, id);
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t handle,
                                             nvmlGpuInstanceInfo_t *info);
nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t handle, nvmlGpuInstanceInfo_t *info)
{
    struct call call;
    struct instances all;
    struct instance one;
    nvmlReturn_t result = mig_begin_instance(&call, __func__, handle, &all, &one);
    if (result != NVML_SUCCESS)
        return result;
    if (info == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    const struct mig_profile *profile = mig_profile_by_slot(&call, one.slot);
    *info = (nvmlGpuInstanceInfo_t){
        call_handle(call.index), one.id, profile->id, {one.start, profile->size}};
    return call_end(&call, NVML_SUCCESS);
}
