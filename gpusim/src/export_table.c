/*
 * nvidia-smi asks for a table of functions that have no names. What is known of it was found by
 * trying with 535.261.03 and 550.163.01; the slots are named below. Without slot 23 `topo -m` ends
 * with an error, and the default view shows no process unless all three lists answer. All other
 * slots say "not supported" and write nothing, because some of them pass small numbers where
 * others pass pointers.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "devices.h"
#include "processes.h"

enum {
    TABLE_SLOTS = 512,
    SLOT_ANCESTOR = 23,        /* how far apart two PCI devices are */
    SLOT_HANDLE = 81,          /* by index */
    SLOT_ENFORCED_LIMIT = 108,
    SLOT_COMPUTE = 213,
    SLOT_GRAPHICS = 214,
    SLOT_MPS = 215,
    ROOM = 2 * MAX_PROCESSES,
};

struct entry {
    uint32_t pid, unused;
    uint64_t memory_bytes;
    uint32_t gpu_instance, compute_instance;
    uint64_t protected_bytes;
    char name[4096];
};
_Static_assert(sizeof(struct entry) == 4128, "nvidia-smi steps by this size");

/* 6c3efec4-8fc9-4e6c-a327-ee696e12f7c4; the first three groups are little-endian numbers. */
static const uint8_t table_id[16] = {
    0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e, 0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4,
};

static nvmlReturn_t not_supported(void)
{
    return NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t handle(unsigned index, nvmlDevice_t *device)
{
    return device_by_index("nvmlDeviceGetHandleByIndex_v2", index, device);
}

static nvmlReturn_t list(const char *function, nvmlDevice_t device, char type, unsigned *count,
                         struct entry *entries)
{
    struct call call;
    struct gpu_process all[ROOM];
    nvmlReturn_t result = call_begin_device(&call, function, device);
    if (result != NVML_SUCCESS)
        return result;
    if (count == NULL || entries == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    unsigned found = 0, room = *count, number = processes_now(&call, all, ROOM);
    for (unsigned i = 0; i < number && found < room; i++) {
        if (all[i].type != type)
            continue;
        struct entry *entry = &entries[found++];
        memset(entry, 0, sizeof *entry);
        entry->pid = all[i].pid;
        entry->memory_bytes = all[i].memory_bytes;
        entry->gpu_instance = NVML_NO_INSTANCE;
        entry->compute_instance = NVML_NO_INSTANCE;
        if (!process_name(all[i].pid, entry->name, sizeof entry->name))
            snprintf(entry->name, sizeof entry->name, "[Not Found]");
    }
    *count = found;
    return call_end(&call, NVML_SUCCESS);
}

static nvmlReturn_t compute(nvmlDevice_t device, unsigned *count, struct entry *entries)
{
    return list("nvmlDeviceGetComputeRunningProcesses_v3", device, 'C', count, entries);
}

static nvmlReturn_t graphics(nvmlDevice_t device, unsigned *count, struct entry *entries)
{
    return list("nvmlDeviceGetGraphicsRunningProcesses_v3", device, 'G', count, entries);
}

static nvmlReturn_t mps(nvmlDevice_t device, unsigned *count, struct entry *entries)
{
    return list("nvmlDeviceGetMPSComputeRunningProcesses_v3", device, 'M', count, entries);
}

static nvmlReturn_t enforced_limit(nvmlDevice_t device, unsigned *milliwatts)
{
    return get_reading("nvmlDeviceGetEnforcedPowerLimit", device, READ_power_limit, milliwatts);
}

static nvmlReturn_t ancestor(const void *one, const void *two, unsigned *level)
{
    enum { SAME_HOST_BRIDGE = 2 }; /* counted otherwise than in the public function */
    (void)one;
    (void)two;
    *level = SAME_HOST_BRIDGE;
    return NVML_SUCCESS;
}

typedef nvmlReturn_t (*slot)(void);
static union {
    slot function;
    uintptr_t size;
} table[TABLE_SLOTS];

__attribute__((constructor)) static void fill(void)
{
    for (unsigned i = 1; i < TABLE_SLOTS; i++)
        table[i].function = not_supported;
    table[0].size = sizeof table;
    table[SLOT_ANCESTOR].function = (slot)(void (*)(void))ancestor;
    table[SLOT_HANDLE].function = (slot)(void (*)(void))handle;
    table[SLOT_ENFORCED_LIMIT].function = (slot)(void (*)(void))enforced_limit;
    table[SLOT_COMPUTE].function = (slot)(void (*)(void))compute;
    table[SLOT_GRAPHICS].function = (slot)(void (*)(void))graphics;
    table[SLOT_MPS].function = (slot)(void (*)(void))mps;
}

NVML_API nvmlReturn_t nvmlInternalGetExportTable(const void **result, const void *id);
nvmlReturn_t nvmlInternalGetExportTable(const void **result, const void *id)
{
    if (result == NULL || id == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (memcmp(id, table_id, sizeof table_id) != 0)
        return NVML_ERROR_NOT_FOUND;
    *result = table;
    return NVML_SUCCESS;
}
