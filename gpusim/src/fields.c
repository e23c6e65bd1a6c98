/* Field values: many readings in one call, each with its own result. */
#include "call.h"
#include "place.h"

/* How a value becomes the field's value. */
enum kind { PLAIN, WIDE };

struct field {
    unsigned id;
    enum reading reading;
    enum kind kind;
};

/* Numbers of the public API reference; those that are not here are not supported. */
static const struct field fields[] = {
    {1, READ_ecc_mode, PLAIN},
    {2, READ_ecc_mode, PLAIN},
    {11, READ_ecc_dram_volatile_corrected, WIDE},
    {12, READ_ecc_dram_volatile_uncorrected, WIDE},
    {22, READ_ecc_dram_aggregate_corrected, WIDE},
    {23, READ_ecc_dram_aggregate_uncorrected, WIDE},
    {29, READ_retired_corrected, PLAIN},
    {30, READ_retired_uncorrected, PLAIN},
    {31, READ_retired_pending, PLAIN},
    {82, READ_temperature_memory, PLAIN},
    {90, READ_nvlink_speed, PLAIN},
    {91, READ_nvlink_count, PLAIN},
    {94, READ_pcie_replay, PLAIN},
    {142, READ_remapped_correctable, PLAIN},
    {143, READ_remapped_uncorrectable, PLAIN},
    {144, READ_remapped_pending, PLAIN},
    {145, READ_remapped_failed, PLAIN},
    {164, READ_nvlink_speed, PLAIN},
    {166, READ_nvlink_version, PLAIN},
    {185, READ_power, PLAIN},
    {186, READ_power, PLAIN},
    {187, READ_power_limit_min, PLAIN},
    {188, READ_power_limit_max, PLAIN},
    {189, READ_power_limit_default, PLAIN},
    {190, READ_power_limit, PLAIN},
    {192, READ_power_limit, PLAIN},
};

enum {
    ECC_VOLATILE_CORRECTED = 3,
    ECC_AGGREGATE_UNCORRECTED = 6,
    POWER_FIRST = 185,
    POWER_LAST = 192,
    LINK_SPEED_FIRST = 84,
    LINK_SPEED_LAST = 89,
    ENERGY = 83,
    LINK_SPEED = 164,
    LINK_STATE = 165,
    LINK_VERSION = 166,
    LINKS_TO_SWITCHES = 147,
    ENERGY_NEW = 191,
    PCIE_SENT = 197,
    PCIE_RECEIVED = 198,
};

static void put(nvmlFieldValue_t *field, int64_t value, enum kind kind)
{
    field->valueType = kind == PLAIN ? NVML_VALUE_UNSIGNED_INT : NVML_VALUE_UNSIGNED_LONG_LONG;
    field->value.ullVal = 0;
    if (kind == PLAIN)
        field->value.uiVal = (unsigned)value;
    else
        field->value.ullVal = (unsigned long long)value;
    field->nvmlReturn = NVML_SUCCESS;
}

static int is_link_there(const struct call *call, unsigned link)
{
    return link < reading_or(call, READ_nvlink_count, 0);
}

/* Of the locations together. */
static void ecc_total(const struct call *call, nvmlFieldValue_t *field)
{
    unsigned offset = field->fieldId - ECC_VOLATILE_CORRECTED;
    int64_t dram, sram;
    if (reading_now(call, READ_ecc_dram_volatile_corrected + offset, &dram) &&
        reading_now(call, READ_ecc_sram_volatile_corrected + offset, &sram))
        put(field, dram + sram, WIDE);
}

static void answer(const struct call *call, nvmlFieldValue_t *field)
{
    unsigned id = field->fieldId;
    int64_t value;
    field->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    if (id >= ECC_VOLATILE_CORRECTED && id <= ECC_AGGREGATE_UNCORRECTED) {
        ecc_total(call, field);
        return;
    }
    /* Scope 1 is the memory's power and 2 the module's: no GPU here tells them apart. */
    if (id >= POWER_FIRST && id <= POWER_LAST && field->scopeId != 0)
        return;
    if (id == ENERGY || id == ENERGY_NEW) {
        put(field, energy_now(call), WIDE);
        return;
    }
    if (id >= LINK_SPEED_FIRST && id <= LINK_SPEED_LAST) {
        if (is_link_there(call, id - LINK_SPEED_FIRST))
            put(field, reading_or(call, READ_nvlink_speed, 0), PLAIN);
        return;
    }
    if ((id == PCIE_SENT || id == PCIE_RECEIVED)) {
        /* Bytes since boot, at the rate that is in force. */
        enum reading rate = id == PCIE_SENT ? READ_pcie_tx : READ_pcie_rx;
        if (reading_now(call, rate, &value))
            put(field, value * (clock_monotonic_ns() / 1000000), WIDE);
        return;
    }
    if ((id == LINK_SPEED || id == LINK_STATE || id == LINK_VERSION) &&
        !is_link_there(call, field->scopeId))
        return;
    if (id == LINKS_TO_SWITCHES) {
        int has_switches = reading_or(call, READ_nvlink_switches, 0) > 0;
        put(field, has_switches ? reading_or(call, READ_nvlink_count, 0) : 0, PLAIN);
        return;
    }
    if (id == LINK_STATE) {
        put(field, 1, PLAIN);
        return;
    }
    for (unsigned i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].id == id && reading_now(call, fields[i].reading, &value))
            put(field, value, fields[i].kind);
}

NVML_API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                               nvmlFieldValue_t *values);
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, __func__, device);
    if (result != NVML_SUCCESS)
        return result;
    if (values == NULL || count < 1)
        return call_end(&call, NVML_ERROR_INVALID_ARGUMENT);
    for (int i = 0; i < count; i++) {
        values[i].timestamp = call.now_ms * 1000;
        values[i].latencyUsec = 0;
        answer(&call, &values[i]);
    }
    return call_end(&call, NVML_SUCCESS);
}
