/* What a process calls to keep a simulated GPU busy; also exported by the library, for Python. */
#ifndef GPUSIM_BUSY_H
#define GPUSIM_BUSY_H

#include "nvml.h"

struct gpusim_busy;

/* Make a mark, not busy yet. NULL with errno set: the run folder cannot be written. */
NVML_API struct gpusim_busy *gpusim_busy_open(unsigned gpu, unsigned percent,
                                              unsigned long long memory_bytes);
/* Saying "busy" again writes down what was done so far. */
NVML_API void gpusim_busy_set(struct gpusim_busy *busy, int is_busy);
NVML_API void gpusim_busy_close(struct gpusim_busy *busy);

#endif
