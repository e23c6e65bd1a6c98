#include "busy.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mark_file.h"
#include "place.h"

struct gpusim_busy {
    struct mark *mark;          /* the mapped file */
    pthread_mutex_t lock;
};

static void update(struct mark *mark, void (*change)(struct mark *, int64_t))
{
    mark->sequence++;
    atomic_thread_fence(memory_order_seq_cst);
    change(mark, clock_monotonic_ns());
    atomic_thread_fence(memory_order_seq_cst);
    mark->sequence_end = mark->sequence;
}

static int make_folder(char path[PLACE_SIZE])
{
    place_run_path(path, "");
    (void)mkdir(path, 0755);
    place_run_path(path, MARK_FOLDER);
    /* Every user of the machine may compute, as in /tmp. */
    if (mkdir(path, 0755) == 0 && chmod(path, 01777) != 0)
        return 0;
    return access(path, W_OK) == 0;
}

static struct mark *map_new(const char *folder, unsigned gpu)
{
    static atomic_uint serial;
    char path[PLACE_SIZE + MARK_NAME_SIZE];
    snprintf(path, sizeof path, "%s/%lld-%u-%u", folder, (long long)getpid(), gpu,
             atomic_fetch_add(&serial, 1));
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0)
        return NULL;
    void *memory = MAP_FAILED;
    if (ftruncate(file, sizeof(struct mark)) == 0)
        memory = mmap(NULL, sizeof(struct mark), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return memory == MAP_FAILED ? NULL : memory;
}

struct gpusim_busy *gpusim_busy_open(unsigned gpu, unsigned percent,
                                     unsigned long long memory_bytes)
{
    char folder[PLACE_SIZE];
    if (percent > 100) {
        errno = EINVAL;
        return NULL;
    }
    if (!make_folder(folder))
        return NULL;
    marks_retire(gpu);
    struct gpusim_busy *busy = calloc(1, sizeof *busy);
    struct mark *mark = busy == NULL ? NULL : map_new(folder, gpu);
    if (mark == NULL) {
        free(busy);
        return NULL;
    }
    mark->pid = getpid();
    mark->start_ticks = process_start_ticks(getpid());
    mark->gpu = gpu;
    mark->memory_bytes = (int64_t)memory_bytes;
    mark->percent = percent;
    mark->heat_time_ns = clock_monotonic_ns();
    atomic_thread_fence(memory_order_seq_cst);
    mark->magic = MARK_MAGIC;
    busy->mark = mark;
    pthread_mutex_init(&busy->lock, NULL);
    return busy;
}

/* What is written down so far is not lost when the process is killed. */
static void carry_on(struct mark *mark, int64_t now_ns)
{
    mark_end(mark, now_ns);
    mark_begin(mark, now_ns);
}

void gpusim_busy_set(struct gpusim_busy *busy, int is_busy)
{
    pthread_mutex_lock(&busy->lock);
    update(busy->mark, is_busy ? carry_on : mark_end);
    pthread_mutex_unlock(&busy->lock);
}

static void leave(struct mark *mark, int64_t now_ns)
{
    mark_end(mark, now_ns);
    /* Its totals stay, its memory and its place in the process list do not. */
    mark->start_ticks = -2;
}

void gpusim_busy_close(struct gpusim_busy *busy)
{
    update(busy->mark, leave);
    munmap(busy->mark, sizeof *busy->mark);
    pthread_mutex_destroy(&busy->lock);
    free(busy);
}
