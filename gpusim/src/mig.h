/* GPUs that are cut into instances (MIG): what is there, kept until boot like all settings. */
#ifndef GPUSIM_MIG_H
#define GPUSIM_MIG_H

#include "call.h"

enum { MAX_INSTANCES = 8 };

/* A GPU instance; its one compute instance, where it has one, is as large as itself. */
struct instance {
    unsigned id, slot, start;   /* `slot` of the profile, `start` in memory slices */
    int is_computing;
};

struct instances {
    unsigned count;
    struct instance list[MAX_INSTANCES];
};

int mig_is_on(const struct call *call);

/* The profile of a slot (NVML_GPU_INSTANCE_PROFILE_*) or of an id (`-lgip`); NULL: no such one. */
const struct mig_profile *mig_profile_by_slot(const struct call *call, unsigned slot);
const struct mig_profile *mig_profile_by_id(const struct call *call, unsigned id);

/* Read the instances of a GPU; those whose profile the scenario does not know are left out. */
void mig_read(const struct call *call, struct instances *instances);

/* 0: the caller may not. */
int mig_write(const struct call *call, const struct instances *instances);

const struct instance *mig_find(const struct instances *instances, unsigned id);

/* How many more of a profile fit; `starts` gets where, unless it is NULL. */
unsigned mig_room(const struct instances *instances, const struct call *call,
                  const struct mig_profile *profile, unsigned starts[MAX_STARTS]);

/* One at a time changes instances. Give back what it returns. */
int mig_lock(void);
void mig_unlock(int lock);

struct nvmlGpuInstance_st {
    unsigned gpu, id;
};

/* The handle of an instance, which need not be there. */
nvmlGpuInstance_t mig_instance(unsigned gpu, unsigned id);

/* Begin a call about an instance: it may be gone since its handle was given out. */
nvmlReturn_t mig_begin_instance(struct call *call, const char *function,
                                nvmlGpuInstance_t handle, struct instances *all,
                                struct instance *one);

/* Change one instance: `is_computing` 1 or 0, or -1 to take it away. */
nvmlReturn_t mig_change(const char *function, nvmlGpuInstance_t handle, int is_computing);

/* Begin a call about a MIG device; NVML_ERROR_INVALID_ARGUMENT when the handle is not one. */
nvmlReturn_t mig_begin(struct call *call, const char *function, nvmlDevice_t device,
                       struct instance *instance);

nvmlReturn_t mig_by_uuid(const char *function, const char *uuid, nvmlDevice_t *device);

int mig_is_handle(nvmlDevice_t device);

/* Memory of an instance in MiB. */
nvmlReturn_t mig_memory(const char *function, nvmlDevice_t device, int64_t *mebibytes);

#endif
