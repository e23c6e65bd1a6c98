/* MIG devices: what a program sees of a compute instance, as if it were a small GPU. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "mig.h"

/* `index` of a handle is the MIG device's place among those of its GPU. */
static struct nvmlDevice_st handles[MAX_GPUS][MAX_INSTANCES];

int mig_is_handle(nvmlDevice_t device)
{
    return device >= &handles[0][0] && device <= &handles[MAX_GPUS - 1][MAX_INSTANCES - 1];
}

static unsigned gpu_of(nvmlDevice_t device)
{
    return (unsigned)((device - &handles[0][0]) / MAX_INSTANCES);
}

/* The instance that is the nth MIG device; NULL: there are fewer. */
static const struct instance *nth(const struct instances *all, unsigned place)
{
    for (unsigned i = 0; i < all->count; i++)
        if (all->list[i].is_computing && place-- == 0)
            return &all->list[i];
    return NULL;
}

nvmlReturn_t mig_begin(struct call *call, const char *function, nvmlDevice_t device,
                       struct instance *instance)
{
    struct instances all;
    if (!mig_is_handle(device))
        return call_refuse(call, function);
    nvmlReturn_t result = call_begin_device(call, function, call_handle(gpu_of(device)));
    if (result != NVML_SUCCESS)
        return result;
    mig_read(call, &all);
    const struct instance *found = nth(&all, device->index);
    if (found == NULL)
        return call_end(call, NVML_ERROR_NOT_FOUND);
    *instance = *found;
    return NVML_SUCCESS;
}

static uint64_t hash(const char *text, uint64_t value)
{
    for (; *text != '\0'; text++)
        value = (value ^ (unsigned char)*text) * 0x100000001b3; /* FNV-1a */
    return value;
}

/* The same for the same instance of the same GPU. */
static void uuid_of(const struct call *call, const struct instance *one, char uuid[48])
{
    char text[TEXT_SIZE + 32];
    snprintf(text, sizeof text, "%s/%u/0", call->gpu->text[TEXT_uuid], one->id);
    uint64_t high = hash(text, 0xcbf29ce484222325), low = hash(text, high);
    snprintf(uuid, 48, "MIG-%08x-%04x-5%03x-8%03x-%012llx", (unsigned)(high >> 32),
             (unsigned)(high >> 16) & 0xffff, (unsigned)high & 0xfff, (unsigned)(low >> 52),
             (unsigned long long)(low & 0xffffffffffff));
}

nvmlReturn_t mig_by_uuid(const char *function, const char *uuid, nvmlDevice_t *device)
{
    struct call call;
    struct instance one;
    char own[48];
    for (unsigned gpu = 0; gpu < MAX_GPUS; gpu++)
        for (unsigned place = 0; place < MAX_INSTANCES; place++) {
            nvmlDevice_t handle = &handles[gpu][place];
            handle->index = place;
            if (mig_begin(&call, function, handle, &one) != NVML_SUCCESS)
                break;
            uuid_of(&call, &one, own);
            call_end(&call, NVML_SUCCESS);
            if (strcmp(own, uuid) == 0) {
                *device = handle;
                return NVML_SUCCESS;
            }
        }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t mig_memory(const char *function, nvmlDevice_t device, int64_t *mebibytes)
{
    struct call call;
    struct instance one;
    nvmlReturn_t result = mig_begin(&call, function, device, &one);
    if (result != NVML_SUCCESS)
        return result;
    *mebibytes = mig_profile_by_slot(&call, one.slot)->memory_mib;
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *buffer, unsigned length);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *buffer, unsigned length)
{
    struct call call;
    struct instance one;
    char name[TEXT_SIZE + 40];
    if (!mig_is_handle(device))
        return get_text(__func__, device, TEXT_name, buffer, length);
    nvmlReturn_t result = mig_begin(&call, __func__, device, &one);
    if (result != NVML_SUCCESS)
        return result;
    snprintf(name, sizeof name, "%s MIG %s", call.gpu->text[TEXT_name],
             mig_profile_by_slot(&call, one.slot)->name);
    return call_end(&call, put_text(name, buffer, length));
}

NVML_API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *buffer, unsigned length);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *buffer, unsigned length)
{
    struct call call;
    struct instance one;
    char uuid[48];
    if (!mig_is_handle(device))
        return get_text(__func__, device, TEXT_uuid, buffer, length);
    nvmlReturn_t result = mig_begin(&call, __func__, device, &one);
    if (result != NVML_SUCCESS)
        return result;
    uuid_of(&call, &one, uuid);
    return call_end(&call, put_text(uuid, buffer, length));
}

NVML_API nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *is_mig);
nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *is_mig)
{
    struct call call;
    struct instance one;
    int is = mig_is_handle(device);
    nvmlReturn_t result = is ? mig_begin(&call, __func__, device, &one)
                             : call_begin_device(&call, __func__, device);
    if (result != NVML_SUCCESS)
        return result;
    if (is_mig == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *is_mig = (unsigned)is;
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index,
                                                          nvmlDevice_t *mig);
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index,
                                                 nvmlDevice_t *mig)
{
    struct call call;
    struct instances all;
    nvmlReturn_t result = call_begin_device(&call, __func__, device);
    if (result != NVML_SUCCESS)
        return result;
    mig_read(&call, &all);
    if (mig == NULL || nth(&all, index) == NULL)
        return call_end(&call, NVML_ERROR_NOT_FOUND);
    *mig = &handles[call.index][index];
    (*mig)->index = index;
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device,
                                                                   nvmlDevice_t *whole);
nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t *whole)
{
    struct call call;
    struct instance one;
    nvmlReturn_t result = mig_begin(&call, __func__, device, &one);
    if (result != NVML_SUCCESS)
        return result;
    if (whole == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *whole = call_handle(call.index);
    return call_end(&call, NVML_SUCCESS);
}

static nvmlReturn_t instance_id(const char *function, nvmlDevice_t device, unsigned *id)
{
    struct call call;
    struct instance one;
    nvmlReturn_t result = mig_begin(&call, function, device, &one);
    if (result != NVML_SUCCESS)
        return result;
    if (id == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *id = one.id;
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *id);
nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *id)
{
    return instance_id(__func__, device, id);
}

NVML_API nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned *id);
nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned *id)
{
    nvmlReturn_t result = instance_id(__func__, device, id);
    if (result == NVML_SUCCESS)
        *id = 0; /* the first of its instance, and the only one */
    return result;
}

/* Real drivers answer for MIG devices only. */
NVML_API nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device,
                                                 nvmlDeviceAttributes_t *attributes);
nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    struct call call;
    struct instance one;
    if (!mig_is_handle(device)) {
        nvmlReturn_t is_there = call_begin_device(&call, __func__, device);
        return is_there == NVML_SUCCESS ? call_end(&call, NVML_ERROR_NOT_SUPPORTED) : is_there;
    }
    nvmlReturn_t result = mig_begin(&call, __func__, device, &one);
    if (result != NVML_SUCCESS)
        return result;
    if (attributes == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    const struct mig_profile *profile = mig_profile_by_slot(&call, one.slot);
    *attributes = (nvmlDeviceAttributes_t){
        .multiprocessorCount = profile->multiprocessors,
        .sharedCopyEngineCount = profile->slices,
        .gpuInstanceSliceCount = profile->slices,
        .computeInstanceSliceCount = profile->slices,
        .memorySizeMB = (unsigned long long)profile->memory_mib,
    };
    return call_end(&call, NVML_SUCCESS);
}
