"""Readings and faults as a person asks for them: decisions, without any server."""

from __future__ import annotations

import re
from dataclasses import replace

import click
import pytest
import typer.main
from typer.testing import CliRunner

from gpuferry.cli.app import app
from gpuferry.cli.sim import _KINDS
from gpuferry.errors import SpecError
from gpuferry.simulation.assign import assign
from gpuferry.simulation.compiled import compiled
from gpuferry.simulation.faults import KINDS, Request, clear, inject
from gpuferry.simulation.functions import functions
from gpuferry.simulation.kernel_log import record
from gpuferry.simulation.moment import Moment
from gpuferry.simulation.scenario import Scenario, Series

NOW = Moment(now_ms=1_800_000_000_000, uptime_seconds=5, energy=[(900.0, 7.0), (800.0, 0.0)])
HEALTHY = Scenario(
    profile="L4", count=2, driver_version="550.163.01", cuda_version="12.4", seed="gpu-1"
)
POWER = "nvmlDeviceGetPowerUsage"


def lines(scenario: Scenario) -> list[str]:
    return compiled(scenario).splitlines()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("utilization=95", "reading utilization 95"),
        ("power=71.5", "reading power 71500"),
        ("throttle_reasons=0x48", "reading throttle_reasons 72"),
        ("memory_used=0", "reading memory_used 0"),
        ("temperature=0:30,10:95", "series temperature hold step 1800000000000 0 30 10000 95"),
        (
            "power=0:30,0.5:71,loop,linear",
            "series power loop linear 1800000000000 0 30000 500 71000",
        ),
    ],
)
def test_a_reading_is_compiled(text: str, line: str) -> None:
    scenario = assign(HEALTHY, [1], [text], NOW)
    first, second = compiled(scenario).split("gpu 1\n")
    assert line in second.splitlines()
    assert line not in first.splitlines()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("utilisation=95", "no reading that can be set. Did you mean utilization"),
        ("cores=5", "no reading that can be set"),
        ("energy_base=5", "no reading that can be set"),
        ("utilization=101", "a number from 0 to 100 (%)"),
        ("temperature=-1", "a number from 0 to 150"),
        ("temperature=hot", "a number from 0 to 150"),
        ("temperature=nan", "a number from 0 to 150"),
        ("utilization", "no assignment"),
        ("utilization=", "no assignment"),
        ("=5", "no assignment"),
        ("power=x:5", "no number of seconds"),
        ("power=0:5,round", "'round' is unknown"),
        ("power=5:1,4:1", "start at 0 or later and grow"),
        ("power=0:1,loop", "needs a last time above 0"),
        ("power=nan:1,2:3", "finite number"),
        ("power=inf:1", "finite number"),
    ],
)
def test_a_wrong_reading_is_refused_with_what_is_accepted(text: str, words: str) -> None:
    with pytest.raises(SpecError, match=re.escape(words)):
        assign(HEALTHY, [0], [text], NOW)


def test_a_reading_can_be_taken_away_and_given_back() -> None:
    without = assign(HEALTHY, [0], ["temperature=50", "power=absent"], NOW)
    assert without.gpu(0).absent == ["power"]
    back = assign(without, [0], ["temperature=default", "power=default"], NOW)
    assert back.gpu(0).absent == []
    assert not {"temperature", "power"} & back.gpu(0).readings.keys()


def test_whatever_is_changed_the_energy_counters_go_on() -> None:
    for scenario in (
        assign(HEALTHY, [0], ["power=50"], NOW),
        inject(HEALTHY, Request("lost", gpu=1), NOW).scenario,
        clear(HEALTHY, NOW),
    ):
        counters = [scenario.gpu(i).readings["energy_base"] for i in range(2)]
        assert counters == [900, 800]
        assert scenario.gpu(0).readings["energy_since"] == NOW.now_ms


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        (Request("lost", gpu=1), "error 15"),
        (Request("unknown-error", gpu=1), "error 999"),
        (Request("reset-required", gpu=1), "error 16"),
        (Request("driver-not-loaded"), "init-error 9"),
        (Request("version-mismatch"), "init-error 18"),
        (Request("wide-processes"), "process-stride 32"),
        (Request("hang", function=POWER), f"function {POWER} hang 0"),
        (Request("delay", function=POWER, milliseconds=250), f"function {POWER} delay 250"),
        (Request("not-supported", function=POWER, gpu=1), f"function {POWER} return 3"),
        (Request("absent", function=POWER), f"function {POWER} return 13"),
        (Request("xid", gpu=1, code=48), "event 1 1800000000000 48"),
        (Request("ecc-corrected", gpu=1, count=4), "reading ecc_dram_aggregate_corrected 4"),
        (Request("ecc-uncorrected", gpu=1, count=2), "reading ecc_dram_volatile_uncorrected 2"),
        (Request("remap-pending", gpu=1), "reading remapped_pending 1"),
        (Request("remap-failed", gpu=1), "reading remapped_failed 1"),
        (Request("throttle", gpu=1, reason="power-brake"), "reading throttle_reasons 136"),
        (Request("energy-reset", gpu=1), "reading energy_base 0"),
        (Request("memory-leak", gpu=1, count=512), "reading memory_leaked 512"),
    ],
)
def test_a_fault_is_compiled_and_can_be_cleared(request_: Request, line: str) -> None:
    faulty = inject(HEALTHY, request_, NOW).scenario
    assert line in lines(faulty)
    assert line not in lines(HEALTHY)
    if request_.kind != "energy-reset":
        assert line not in lines(clear(faulty, NOW))


def test_no_devices_hides_the_gpus_and_clear_brings_them_back() -> None:
    hidden = inject(HEALTHY, Request("no-devices"), NOW).scenario
    assert not [line for line in lines(hidden) if line.startswith("gpu ")]
    # Nothing can be measured of hidden GPUs; their counters go on all the same.
    back = clear(hidden, replace(NOW, energy=[]))
    assert [line for line in lines(back) if line.startswith("gpu ")] == ["gpu 0", "gpu 1"]
    assert back.gpu(0).readings["energy_base"] == 900


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request("explode"), "'explode' is no fault; accepted: lost, "),
        (Request("lost"), "needs --gpu: an index from 0 to "),
        (Request("lost", gpu=2), "--gpu 2: accepted: 0 to 1"),
        (Request("lost", gpu=0, code=5), "has no --code"),
        (Request("version-mismatch", gpu=0), "has no --gpu"),
        (Request("hang"), "needs --function: a function of NVML such as nvmlDevice"),
        (Request("delay", function=POWER), "needs --milliseconds"),
        (Request("hang", function="nvmlDeviceGetPower"), "Did you mean nvmlDeviceGetPower"),
        (Request("hang", function="nvmlDeviceGetBridgeChipInfo"), "has no function"),
        (Request("xid", gpu=0), "needs --code: an Xid such as 79"),
        (Request("xid", gpu=0, code=0), "an Xid from 1 to 999"),
        (Request("throttle", gpu=0, reason="heat"), "accepted: power-cap, "),
        (Request("ecc-corrected", gpu=0), "needs --count: a number such as 2"),
        (Request("throttle", gpu=0), "needs --reason: one of power-cap, hw-slowdown"),
    ],
)
def test_a_wrong_fault_is_refused_with_what_is_accepted(request_: Request, words: str) -> None:
    with pytest.raises(SpecError, match=re.escape(words)):
        inject(HEALTHY, request_, NOW)


def test_xids_are_numbered_for_ever_and_written_to_the_log() -> None:
    scenario, messages = HEALTHY, []
    for code in (63, 79, 5):
        change = inject(scenario, Request("xid", gpu=1, code=code), NOW)
        scenario = clear(change.scenario, NOW)
        messages += change.messages
    assert scenario.sequence == 3
    start = "NVRM: Xid (PCI:0000:02:00): "
    assert [m.removeprefix(start).split(",")[0] for m in messages] == ["63", "79", "5"]
    text = "NVRM: Xid (PCI:0000:02:00): 63, Row remapping event: Rows remapped, pending reset"
    assert record(messages[0], 4, 12.5) == f"3,4,12500000,-;{text}\n"


def test_many_xids_keep_the_scenario_small() -> None:
    scenario = HEALTHY
    for _ in range(200):
        scenario = inject(scenario, Request("xid", gpu=0, code=43), NOW).scenario
    events = scenario.gpu(0).events
    assert (len(events), events[-1].sequence) == (64, 200)
    Scenario.model_validate_json(scenario.model_dump_json())


def test_a_scenario_survives_being_written_and_read() -> None:
    scenario = assign(HEALTHY, [0], ["power=0:30,10:71,loop", "temperature=absent"], NOW)
    scenario = inject(scenario, Request("hang", function=POWER, gpu=1), NOW).scenario
    again = Scenario.model_validate_json(scenario.model_dump_json(exclude_defaults=True))
    assert again == scenario
    assert isinstance(again.gpu(0).readings["power"], Series)


def test_the_command_names_every_fault_and_takes_the_documented_options() -> None:
    words = set(re.findall(r"[a-z][a-z-]+", _KINDS))
    assert set(KINDS) <= words
    group = typer.main.get_command(app).commands["sim"]  # type: ignore[attr-defined]
    context = click.Context(group)
    assert sorted(group.list_commands(context)) == ["clear", "fault", "set", "show"]
    fault = group.commands["fault"].make_context(
        "fault", ["hang", "--function", POWER, "--gpu", "1"], resilient_parsing=True
    )
    assert (fault.params["kind"], fault.params["gpu"]) == ("hang", 1)


def test_without_a_fault_the_command_names_them_all() -> None:
    result = CliRunner().invoke(app, ["sim", "gpu-1", "fault", "--gpu", "0"])
    assert isinstance(result.exception, SpecError)
    assert set(KINDS) <= set(re.findall(r"[a-z][a-z-]+", str(result.exception)))


def test_functions_for_faults_are_found_in_the_sources() -> None:
    assert {"nvmlInit_v2", "nvmlDeviceGetName", "nvmlEventSetWait_v2", POWER} <= set(functions())
    assert "nvmlDeviceGetBridgeChipInfo" not in functions()
