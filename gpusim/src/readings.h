/*
 * Everything a scenario can say about a GPU: X(name). One name, one whole number.
 *
 * Units: powers mW, energy mJ, temperatures degrees Celsius, clocks MHz, memory MiB, ratios percent,
 * PCIe traffic KB/s, NVLink speed MB/s. A reading that is not in the scenario is not supported by
 * that GPU, except those that load.c derives from the load.
 */
#ifndef GPUSIM_READINGS_H
#define GPUSIM_READINGS_H

#define READINGS(X)                                                                             \
    X(architecture) X(brand) X(compute_major) X(compute_minor) X(cores) X(multiprocessors)      \
    X(memory_bus_width) X(minor_number) X(board_id) X(module_id) X(numa_node) X(gsp_firmware)   \
    X(pci_domain) X(pci_bus) X(pci_device) X(pci_device_id) X(pci_subsystem_id)                 \
    X(persistence) X(compute_mode) X(mig_mode) X(mig_instances) X(display_active)               \
    X(display_mode) X(performance_state)                                                        \
    X(utilization) X(memory_utilization) X(encoder_utilization) X(decoder_utilization)          \
    X(jpeg_utilization) X(ofa_utilization)                                                      \
    X(memory_total) X(memory_reserved) X(memory_used) X(memory_leaked) X(bar1_total)            \
    X(bar1_used)                                                                                \
    X(temperature) X(temperature_idle) X(temperature_load) X(temperature_memory)                \
    X(temperature_shutdown) X(temperature_slowdown) X(temperature_memory_max)                   \
    X(temperature_gpu_max) X(fan_speed) X(fans)                                                 \
    X(power) X(power_idle) X(power_load) X(power_limit) X(power_limit_default)                  \
    X(power_limit_min) X(power_limit_max)                                                       \
    X(energy_base) X(energy_since) X(energy_marks)                                              \
    X(clock_graphics) X(clock_sm) X(clock_memory) X(clock_video)                                \
    X(clock_graphics_idle) X(clock_sm_idle) X(clock_memory_idle) X(clock_video_idle)            \
    X(clock_graphics_max) X(clock_sm_max) X(clock_memory_max) X(clock_video_max)                \
    X(clock_graphics_application) X(clock_memory_application)                                   \
    X(throttle_reasons) X(throttle_supported)                                                   \
    X(ecc_mode) X(ecc_dram_volatile_corrected) X(ecc_dram_volatile_uncorrected)                 \
    X(ecc_dram_aggregate_corrected) X(ecc_dram_aggregate_uncorrected)                           \
    X(ecc_sram_volatile_corrected) X(ecc_sram_volatile_uncorrected)                             \
    X(ecc_sram_aggregate_corrected) X(ecc_sram_aggregate_uncorrected)                           \
    X(remapped_correctable) X(remapped_uncorrectable) X(remapped_pending) X(remapped_failed)    \
    X(retired_corrected) X(retired_uncorrected) X(retired_pending)                              \
    X(pcie_generation) X(pcie_generation_max) X(pcie_width) X(pcie_width_max)                   \
    X(pcie_tx) X(pcie_rx) X(pcie_replay)                                                        \
    X(nvlink_count) X(nvlink_version) X(nvlink_speed) X(nvlink_switches)     \
    X(fabric_state)

#define TEXTS(X) X(name) X(uuid) X(serial) X(vbios) X(part_number) X(inforom)

#define ENUMERATE(name) READ_##name,
enum reading { READINGS(ENUMERATE) READING_COUNT };
#undef ENUMERATE
#define ENUMERATE(name) TEXT_##name,
enum text { TEXTS(ENUMERATE) TEXT_COUNT };
#undef ENUMERATE

#endif
