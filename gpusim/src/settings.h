/* What `nvidia-smi -pm`, `-pl` and the like change: one small file for each value. */
#ifndef GPUSIM_SETTINGS_H
#define GPUSIM_SETTINGS_H

#include <stdint.h>

#include "readings.h"

/* 1 and the value when somebody has set this reading through the library since boot. */
int settings_get(unsigned gpu, enum reading reading, int64_t *value);

/* 0: the caller may not. */
int settings_put(unsigned gpu, enum reading reading, int64_t value);

/* Back to what the scenario says. */
void settings_drop(unsigned gpu, enum reading reading);

#endif
