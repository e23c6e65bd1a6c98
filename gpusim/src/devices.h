#ifndef GPUSIM_DEVICES_H
#define GPUSIM_DEVICES_H

#include "nvml.h"

nvmlReturn_t device_by_index(const char *function, unsigned index, nvmlDevice_t *device);

#endif
