/* What readers make of all marks. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "mark_file.h"
#include "place.h"

static unsigned add_process(struct mark_process *processes, unsigned count, unsigned room,
                            const struct mark *mark, double percent)
{
    unsigned i = 0;
    while (i < count && processes[i].pid != (unsigned)mark->pid)
        i++;
    if (i == room)
        return count;
    if (i == count)
        processes[i] = (struct mark_process){.pid = (unsigned)mark->pid};
    processes[i].memory_bytes += mark->memory_bytes;
    processes[i].percent += percent;
    return i == count ? count + 1 : count;
}

unsigned marks_read(unsigned gpu, struct load *load, struct mark_process *processes,
                    unsigned room)
{
    char folder[PLACE_SIZE];
    unsigned count = 0;
    memset(load, 0, sizeof *load);
    load->busy_ns = marks_retired_ns(gpu);
    place_run_path(folder, MARK_FOLDER);
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        char path[PLACE_SIZE + 300];
        struct mark mark;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || !mark_load(path, &mark) || mark.gpu != (int64_t)gpu)
            continue;
        int64_t now_ns = clock_monotonic_ns(), since = mark.busy_since_ns;
        int is_alive = process_start_ticks(mark.pid) == mark.start_ticks;
        if (!is_alive)
            mark.busy_since_ns = 0; /* killed while busy */
        double running_ns = mark.busy_since_ns != 0 ? (double)(now_ns - since) : 0;
        double percent = mark_percent(&mark, now_ns);
        load->busy_ns += ((double)mark.busy_total_ns + running_ns) * (double)mark.percent / 100;
        load->percent += percent;
        load->heat += mark_heat(&mark, now_ns);
        if (is_alive) {
            load->memory_bytes += (double)mark.memory_bytes;
            count = add_process(processes, count, room, &mark, percent);
        }
    }
    if (directory != NULL)
        closedir(directory);
    if (load->percent > 100)
        load->percent = 100;
    if (load->heat > 100)
        load->heat = 100;
    return count;
}
