#ifndef GPUSIM_PROCESSES_H
#define GPUSIM_PROCESSES_H

#include <stddef.h>

/* The program a process runs, as its first argument says; 0 when no such process lives. */
int process_name(unsigned pid, char *name, size_t size);

#endif
