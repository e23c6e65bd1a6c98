"""Thresholds of the detectors, each with where it comes from."""

from __future__ import annotations

from dataclasses import dataclass

# As long as the agent keeps its points: what is to last longer would never be found to.
MOST_SECONDS = 1800.0


@dataclass(frozen=True)
class Thresholds:
    """Ratios are 0 to 1; `_seconds` is how long something must last."""

    # Below this a GPU does nothing: the counter's own noise (NVRx and GCM use 5 %, too).
    idle_utilization: float = 0.05
    window_seconds: float = 60.0
    # NVRx tolerates 512 MB without a process; GCM 15 MiB, which a display already exceeds.
    leaked_memory_bytes: float = 512e6
    leaked_seconds: float = 60.0
    zombie_seconds: float = 300.0  # GCM
    # NCCL#968: 100 % at about 70 W; nebius/soperator#796: same rule. 35 % of the limit is our
    # choice between those (10 to 23 %) and ordinary training; not verified on silicon.
    hung_utilization: float = 0.95
    hung_power_ratio: float = 0.35
    hung_seconds: float = 300.0  # DCGM's hang monitor, gpud: five checks a minute apart
    hung_cores: float = 0.01
    cpu_phase_cores: float = 0.2
    # What counts as moving, where a process' own reads cannot be seen.
    moving_bytes_per_second: float = 1e6
    # NVRx: a heartbeat is late after 5 times the longest interval seen.
    progress_intervals: float = 5.0
    # nvidia_gpu_exporter: hardware slowdown for 5 min, software thermal for 30 min.
    throttle_hardware_seconds: float = 300.0
    throttle_thermal_seconds: float = 1800.0
    throttle_share: float = 0.5
    # Below the device's own slowdown temperature: cards have other plateaus (mmontes11#115).
    hot_margin_celsius: float = 5.0
    hot_seconds: float = 60.0
    xid_seconds: float = 600.0
    # One poll after a boot was wrong on 63 healthy nodes (NVSentinel#1701).
    fault_polls: float = 2.0
    starved_utilization: float = 0.8  # the mission: < 80 % suggests starvation
    warm_up_seconds: float = 120.0
    psi_memory: float = 0.10  # samber/awesome-prometheus-alerts
    major_faults_per_second: float = 500.0  # node_exporter's mixin
    available_memory: float = 0.10
    disk_waiting_share: float = 0.30  # measured: 77 to 83 % when starved, 12 % when not
    psi_io: float = 0.25  # measured: 42 to 83 % when starved, 30 % once when not
    iowait: float = 0.10  # samber
    cpu_running_share: float = 0.70  # measured: 100 % when starved, 12 % when not
    cpu_worker_cores: float = 0.8
    host_idle: float = 0.20
    main_thread_cores: float = 0.9
    network_worker_cores: float = 0.2
    network_psi_io: float = 0.15
    network_saturated: float = 0.80  # samber
