#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mig.h"
#include "place.h"

int mig_is_on(const struct call *call)
{
    return reading_or(call, READ_mig_mode, 0) == 1;
}

const struct mig_profile *mig_profile_by_slot(const struct call *call, unsigned slot)
{
    for (unsigned i = 0; i < call->gpu->mig_profile_count; i++)
        if (call->gpu->mig_profiles[i].slot == slot)
            return &call->gpu->mig_profiles[i];
    return NULL;
}

const struct mig_profile *mig_profile_by_id(const struct call *call, unsigned id)
{
    for (unsigned i = 0; i < call->gpu->mig_profile_count; i++)
        if (call->gpu->mig_profiles[i].id == id)
            return &call->gpu->mig_profiles[i];
    return NULL;
}

static void state_path(char path[PLACE_SIZE], unsigned gpu)
{
    char name[80];
    snprintf(name, sizeof name, "set/%u.mig", gpu);
    place_run_path(path, name);
}

void mig_read(const struct call *call, struct instances *instances)
{
    char path[PLACE_SIZE];
    struct instance one;
    instances->count = 0;
    state_path(path, call->index);
    FILE *file = mig_is_on(call) ? fopen(path, "re") : NULL;
    if (file == NULL)
        return;
    while (instances->count < MAX_INSTANCES &&
           fscanf(file, "%u %u %u %d", &one.id, &one.slot, &one.start, &one.is_computing) == 4)
        if (mig_profile_by_slot(call, one.slot) != NULL)
            instances->list[instances->count++] = one;
    fclose(file);
}

int mig_write(const struct call *call, const struct instances *instances)
{
    char path[PLACE_SIZE], draft[PLACE_SIZE + 32];
    state_path(path, call->index);
    snprintf(draft, sizeof draft, "%s.%lld", path, (long long)getpid());
    FILE *file = fopen(draft, "we");
    if (file == NULL)
        return 0;
    for (unsigned i = 0; i < instances->count; i++) {
        const struct instance *one = &instances->list[i];
        fprintf(file, "%u %u %u %d\n", one->id, one->slot, one->start, one->is_computing);
    }
    if (fclose(file) != 0 || rename(draft, path) != 0) {
        unlink(draft);
        return 0;
    }
    return 1;
}

const struct instance *mig_find(const struct instances *instances, unsigned id)
{
    for (unsigned i = 0; i < instances->count; i++)
        if (instances->list[i].id == id)
            return &instances->list[i];
    return NULL;
}

static int is_free(const struct instances *instances, const struct call *call, unsigned start,
                   unsigned size)
{
    for (unsigned i = 0; i < instances->count; i++) {
        const struct instance *one = &instances->list[i];
        unsigned taken = mig_profile_by_slot(call, one->slot)->size;
        if (start < one->start + taken && one->start < start + size)
            return 0;
    }
    return 1;
}

unsigned mig_room(const struct instances *instances, const struct call *call,
                  const struct mig_profile *profile, unsigned starts[MAX_STARTS])
{
    unsigned found = 0, present = 0;
    for (unsigned i = 0; i < instances->count; i++)
        present += instances->list[i].slot == profile->slot;
    for (unsigned i = 0; i < profile->start_count && present + found < profile->most; i++)
        if (is_free(instances, call, profile->starts[i], profile->size)) {
            if (starts != NULL)
                starts[found] = profile->starts[i];
            found++;
        }
    return found;
}

int mig_lock(void)
{
    char path[PLACE_SIZE];
    place_run_path(path, "");
    (void)mkdir(path, 0755);
    place_run_path(path, "set");
    (void)mkdir(path, 0755);
    place_run_path(path, "set/mig.lock");
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (file >= 0 && fcntl(file, F_SETLKW, &whole) != 0) {
        close(file);
        file = -1;
    }
    return file;
}

void mig_unlock(int lock)
{
    if (lock >= 0)
        close(lock);
}
