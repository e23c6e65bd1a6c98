/* What every function does first and last: initialised? faults? which device, which scenario? */
#ifndef GPUSIM_CALL_H
#define GPUSIM_CALL_H

#include "load.h"
#include "nvml.h"
#include "scenario.h"

struct nvmlDevice_st {
    unsigned index;
};

struct call {
    struct scenario *scenario;  /* held until call_end */
    const struct gpu *gpu;
    unsigned index;
    int64_t now_ms;
};

/* Begin a call that concerns no device. Other results than NVML_SUCCESS need no call_end. */
nvmlReturn_t call_begin(struct call *call, const char *function);

/* Begin a call about a device; `gpu` and `index` are set. */
nvmlReturn_t call_begin_device(struct call *call, const char *function, nvmlDevice_t device);

/* The whole of a call whose handle is none: an invalid argument, unless a fault comes first. */
nvmlReturn_t call_refuse(struct call *call, const char *function);

nvmlReturn_t call_end(struct call *call, nvmlReturn_t result);

/* Apply the faults of a function for a GPU or, without a device, EVERY_GPU. May sleep. */
nvmlReturn_t call_faults(struct call *call, const char *function, int gpu);

/* The handle of a GPU; handles stay valid when the scenario changes. */
nvmlDevice_t call_handle(unsigned index);

/* A whole function: one reading as unsigned, one text into a buffer. */
nvmlReturn_t get_reading(const char *function, nvmlDevice_t device, enum reading reading,
                         unsigned *value);
nvmlReturn_t get_text(const char *function, nvmlDevice_t device, enum text text, char *buffer,
                      unsigned length);

/* Copy a text into a caller's buffer. */
nvmlReturn_t put_text(const char *text, char *buffer, unsigned length);

#define READING_FUNCTION(function, reading)                                                     \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, unsigned *value);                       \
    nvmlReturn_t function(nvmlDevice_t device, unsigned *value)                                 \
    {                                                                                           \
        return get_reading(__func__, device, READ_##reading, value);                            \
    }

#define TEXT_FUNCTION(function, which)                                                          \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, char *buffer, unsigned length);         \
    nvmlReturn_t function(nvmlDevice_t device, char *buffer, unsigned length)                   \
    {                                                                                           \
        return get_text(__func__, device, TEXT_##which, buffer, length);                        \
    }

#endif
