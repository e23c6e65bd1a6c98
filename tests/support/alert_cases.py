"""Cases for the alert rules: series in, who fires when. Judged by the real promtool.

A series' values are in promtool's own notation: `0x3 1x9` is four times 0 and ten times 1, `stale`
ends it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml

GPU = 'server="a",uuid="u"'
INFO = {f'gpu_info{{{GPU},index="0",name="L4"}}': "1x2000"}
_WATCHED = ("server", "uuid", "index", "mount", "integration", "rule_group")


class Case(NamedTuple):
    """At a time an alert fires with these labels, or (None) does not fire."""

    alert: str
    at: str
    fires: dict[str, str] | None
    series: dict[str, str]
    interval: str = "1s"


OF_GPU = {"server": "a", "uuid": "u", "index": "0"}
OF_SERVER = {"server": "a"}
OF_DISK = {"server": "a", "mount": "/data"}


def _state(name: str, values: str, *, cause: str = "") -> dict[str, str]:
    return {f'gpu_state{{{GPU},state="{name}",cause="{cause}",severity="warning"}}': values, **INFO}


def _disk(free: str, **more: str) -> dict[str, str]:
    names = {"free_bytes": free, "size_bytes": "100x2000", **more}
    return {f'node_agent_disk_{k}{{server="a",mount="/data"}}': v for k, v in names.items()}


def _states() -> Iterator[Case]:
    """An alert that is a state of the agent: fires with it, not without, not for a moment's gap."""
    for alert, state in (
        ("GpuFault", "fault"), ("GpuCollectiveHung", "collective_hung"),
        ("GpuProcessHung", "process_hung"), ("GpuLeakedMemory", "leaked_memory"),
        ("GpuThrottled", "throttled"), ("GpuHot", "hot"), ("GpuXid", "xid"),
        ("GpuJobFault", "job_fault"),
    ):  # fmt: skip
        yield Case(alert, "10s", OF_GPU, _state(state, "1x20"))
        yield Case(alert, "10s", None, _state("working", "1x20"))
        # Hysteresis: 30 s without it is not the end of it, an hour is.
        yield Case(alert, "50s", OF_GPU, _state(state, "1x20 stale _x100"))
        yield Case(alert, "61m", None, _state(state, "1x1 stale _x100"), "1m")


def _driver(status: str, values: str) -> dict[str, str]:
    return {f'node_agent_driver{{server="a",status="{status}"}}': values}


_USED = f'gpu_utilization_minute_ratio{{{GPU},of="mean"}}'
_HELD = f"gpu_processes{{{GPU}}}"
_ECC = f'gpu_memory_errors_total{{{GPU},kind="KIND"}}'
_ROWS = f'gpu_memory_remapped_rows{{{GPU},cause="CAUSE"}}'
_AGE = 'node_agent_snapshot_age_seconds{server="a"}'

CASES = [
    *_states(),
    Case("GpuDriverHung", "2s", OF_SERVER, _state("driver_hung", "1x5")),
    Case("GpuDriverHung", "5s", None, _state("fault", "1x5")),
    Case("GpuDriverHung", "50s", OF_SERVER, _state("driver_hung", "1x20 stale _x90")),
    Case("GpuDriverHung", "90s", None, _state("driver_hung", "1x20 stale _x90")),
    Case("GpuDriverFailed", "31s", OF_SERVER, _driver("failed", "1x40")),
    Case("GpuDriverFailed", "29s", None, _driver("failed", "1x40")),
    # Told once, for the server.
    Case("GpuFault", "30s", None, {**_state("fault", "1x40"), **_driver("failed", "1x40")}),
    Case("GpuMissing", "31s", OF_SERVER, {
        'node_agent_gpus_visible{server="a"}': "7x40",
        'node_agent_gpus_expected{server="a"}': "8x40",
    }),
    Case("GpuMissing", "31s", None, {
        'node_agent_gpus_visible{server="a"}': "8x40",
        'node_agent_gpus_expected{server="a"}': "8x40",
    }),
    Case("GpuRemapDue", "5s", OF_GPU, {f"gpu_memory_remap_pending{{{GPU}}}": "1x9", **INFO}),
    Case("GpuRemapDue", "5s", None, {f"gpu_memory_remap_pending{{{GPU}}}": "0x9", **INFO}),
    Case("GpuRemappedRows", "65s", OF_GPU, {
        _ROWS.replace("CAUSE", "correctable"): "500x80",
        _ROWS.replace("CAUSE", "uncorrectable"): "12x80", **INFO,
    }),
    Case("GpuRemappedRows", "65s", None, {
        _ROWS.replace("CAUSE", "correctable"): "500x80",
        _ROWS.replace("CAUSE", "uncorrectable"): "11x80", **INFO,
    }),
    Case("GpuEccUncorrected", "6m", OF_GPU,
         {_ECC.replace("KIND", "uncorrected"): "3x4 4x60", **INFO}, "1m"),
    # Old ones are not new.
    Case("GpuEccUncorrected", "6m", None,
         {_ECC.replace("KIND", "uncorrected"): "3x60", **INFO}, "1m"),
    Case("GpuEccCorrected", "5s", OF_GPU, {_ECC.replace("KIND", "corrected"): "2.1e7x9", **INFO}),
    Case("GpuEccCorrected", "5s", None, {_ECC.replace("KIND", "corrected"): "1e7x9", **INFO}),
    Case("GpuStarved", "11m", OF_GPU, _state("starved", "1x60", cause="disk"), "1m"),
    Case("GpuStarved", "9m", None, _state("starved", "1x60", cause="disk"), "1m"),
    # Another cause is no new alert.
    Case("GpuStarved", "11m", OF_GPU, {
        **_state("starved", "1x5 stale", cause="disk"),
        **_state("starved", "_x6 1x60", cause="cpu"),
    }, "1m"),
    Case("GpuAllocatedIdle", "31m", OF_GPU, _state("allocated_idle", "1x60"), "1m"),
    Case("GpuAllocatedIdle", "29m", None, _state("allocated_idle", "1x60"), "1m"),
    Case("GpuUtilisationFalling", "125m", OF_GPU,
         {_USED: "0.9x90 0.2x60", _HELD: "1x200", **INFO}, "1m"),
    Case("GpuUtilisationFalling", "125m", None,
         {_USED: "0.9x90 0.7x60", _HELD: "1x200", **INFO}, "1m"),
    # The job ended, and it was never much.
    Case("GpuUtilisationFalling", "125m", None,
         {_USED: "0.9x90 0.0x60", _HELD: "1x90 0x60", **INFO}, "1m"),
    Case("GpuUtilisationFalling", "125m", None,
         {_USED: "0.4x90 0.1x60", _HELD: "1x200", **INFO}, "1m"),
    # It began within the hour: its first minutes are no measure.
    Case("GpuUtilisationFalling", "62m", None,
         {_USED: "0.9x30 0.2x60", _HELD: "0x2 1x90", **INFO}, "1m"),
    Case("DiskNearlyFull", "65s", OF_DISK, _disk("4x90")),
    Case("DiskNearlyFull", "65s", None, _disk("6x90")),
    Case("DiskLow", "6m", OF_DISK, _disk("9x20"), "1m"),
    Case("DiskLow", "6m", None, _disk("11x20"), "1m"),
    Case("DiskLow", "4m", None, _disk("9x20"), "1m"),
    Case("DiskInodesLow", "6m", OF_DISK, _disk("50x20", inodes_free_ratio="0.09x20"), "1m"),
    Case("DiskInodesLow", "6m", None, _disk("50x20", inodes_free_ratio="0.11x20"), "1m"),
    Case("DiskStuck", "65s", OF_DISK, _disk("50x90", stuck="1x90")),
    Case("DiskStuck", "65s", None, _disk("50x90", stuck="0x90")),
    Case("DiskFillingUp", "345m", OF_DISK, _disk("100-0.2x400"), "1m"),
    # Slowly, much left, or it has stopped.
    Case("DiskFillingUp", "345m", None, _disk("30-0.001x400"), "1m"),
    Case("DiskFillingUp", "200m", None, _disk("100-0.2x400"), "1m"),
    Case("DiskFillingUp", "400m", None, _disk("100-0.2x310 38x100"), "1m"),
    Case("AgentDown", "65s", OF_SERVER, {'up{job="agent",server="a"}': "0x90"}),
    Case("AgentDown", "50s", None, {'up{job="agent",server="a"}': "0x90"}),
    Case("AgentDown", "65s", None, {'up{job="agent",server="a"}': "1x90"}),
    Case("AgentBlind", "3m", OF_SERVER, {_AGE: "40x99"}, "1m"),
    Case("AgentBlind", "3m", OF_SERVER, _driver("starting", "1x9"), "1m"),
    Case("AgentBlind", "3m", None, {_AGE: "2x99"}, "1m"),
    # A driver that hangs is told by its own alert.
    Case("AgentBlind", "3m", None, {_AGE: "40x99", **_driver("hung", "1x99")}, "1m"),
    Case("AgentRestarting", "10m", OF_SERVER,
         {'node_agent_start_timestamp_seconds{server="a"}': "1 2 3 4 5x9"}, "1m"),
    Case("AgentRestarting", "10m", None,
         {'node_agent_start_timestamp_seconds{server="a"}': "1 2 3 3 3x9"}, "1m"),
    Case("Watchdog", "5s", {}, {}),
    # Not while what it vouches for does not work.
    Case("Watchdog", "9m", None,
         {'alertmanager_notifications_failed_total{server="a",integration="webhook"}': "0+1x20"},
         "1m"),
    Case("AlertsNotDelivered", "3m", {"server": "a", "integration": "email"},
         {'alertmanager_notifications_failed_total{server="a",integration="email"}': "0 0 1x9"},
         "1m"),
    Case("AlertsNotDelivered", "3m", None,
         {'alertmanager_notifications_failed_total{server="a",integration="email"}': "1x9"}, "1m"),
    Case("AlertmanagerDown", "65s", OF_SERVER, {'up{job="alertmanager",server="a"}': "0x90"}),
    Case("AlertmanagerDown", "65s", None, {'up{job="alertmanager",server="a"}': "1x90"}),
    Case("AlertRulesFailing", "3m", {"server": "a", "rule_group": "faults"},
         {'prometheus_rule_evaluation_failures_total{server="a",rule_group="faults"}': "0 0 2x9"},
         "1m"),
    Case("AlertRulesFailing", "3m", None,
         {'prometheus_rule_evaluation_failures_total{server="a",rule_group="faults"}': "2x9"},
         "1m"),
    Case("PrometheusStorage", "3m", OF_SERVER, {
        'prometheus_tsdb_wal_corruptions_total{server="a"}': "0 0 1x9",
        'prometheus_tsdb_compactions_failed_total{server="a"}': "0x9",
        'prometheus_tsdb_wal_writes_failed_total{server="a"}': "0x9",
    }, "1m"),
    Case("PrometheusStorage", "3m", None, {
        'prometheus_tsdb_wal_corruptions_total{server="a"}': "0x9",
        'prometheus_tsdb_compactions_failed_total{server="a"}': "0x9",
        'prometheus_tsdb_wal_writes_failed_total{server="a"}': "0x9",
    }, "1m"),
]  # fmt: skip


def promtool_files(rules: str) -> Iterator[str]:
    """The cases as `promtool test rules` reads them; those of hours are evaluated less often."""
    for interval, evaluated in (("1s", "1s"), ("1m", "30s")):
        tests = [_test(case) for case in CASES if case.interval == interval]
        file = {"rule_files": [rules], "evaluation_interval": evaluated, "tests": tests}
        yield yaml.safe_dump(file, sort_keys=False)


def _test(case: Case) -> dict[str, Any]:
    # Annotations are looked at where they arrive; here it is who fires, and when.
    labels = ", ".join(_WATCHED)
    expr = f'count by ({labels}) (ALERTS{{alertstate="firing", alertname="{case.alert}"}})'
    fires = case.fires
    expected = [] if fires is None else [{"labels": _selector(fires), "value": 1}]
    return {
        "name": f"{case.alert} at {case.at}",
        "interval": case.interval,
        "input_series": [{"series": name, "values": v} for name, v in case.series.items()],
        "promql_expr_test": [{"expr": expr, "eval_time": case.at, "exp_samples": expected}],
    }


def _selector(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'{k}="{v}"' for k, v in labels.items()) + "}"
