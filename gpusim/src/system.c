/* Driver and library. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "call.h"
#include "processes.h"

#define SYSTEM_TEXT_FUNCTION(function, member)                                                  \
    NVML_API nvmlReturn_t function(char *buffer, unsigned length);                              \
    nvmlReturn_t function(char *buffer, unsigned length)                                        \
    {                                                                                           \
        struct call call;                                                                       \
        nvmlReturn_t result = call_begin(&call, __func__);                                      \
        if (result != NVML_SUCCESS)                                                             \
            return result;                                                                      \
        return call_end(&call, put_text(call.scenario->member, buffer, length));                \
    }

SYSTEM_TEXT_FUNCTION(nvmlSystemGetDriverVersion, driver)
SYSTEM_TEXT_FUNCTION(nvmlSystemGetNVMLVersion, nvml)

static nvmlReturn_t cuda_version(const char *function, int *version)
{
    struct call call;
    nvmlReturn_t result = call_begin(&call, function);
    if (result != NVML_SUCCESS)
        return result;
    if (version == NULL)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    *version = call.scenario->cuda;
    return call_end(&call, NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version);
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    return cuda_version(__func__, version);
}

NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version);
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return cuda_version(__func__, version);
}

NVML_API nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length);
nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length)
{
    struct call call;
    char text[256];
    nvmlReturn_t result = call_begin(&call, __func__);
    if (result != NVML_SUCCESS)
        return result;
    if (name == NULL || length == 0)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    if (!process_name(pid, text, sizeof text))
        return call_end(&call, NVML_ERROR_NOT_FOUND);
    /* Longer names are cut, not refused. */
    snprintf(name, length, "%s", text);
    return call_end(&call, NVML_SUCCESS);
}
