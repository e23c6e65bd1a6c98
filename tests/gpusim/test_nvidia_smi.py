"""The real nvidia-smi of Debian 12 and 13 against the simulated library."""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

from gpuferry.simulation import profiles
from gpuferry.simulation.compiled import gpu_uuid
from tests.support.nvidia_smi import NvidiaSmi
from tests.support.simulated import Simulated, wait_until


def run(gpus: Simulated, smi: NvidiaSmi, *arguments: str) -> subprocess.CompletedProcess[str]:
    return gpus.run([str(smi.path), *arguments])


def output(gpus: Simulated, smi: NvidiaSmi, *arguments: str) -> str:
    done = run(gpus, smi, *arguments)
    assert done.returncode == 0, f"{arguments}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def query(gpus: Simulated, smi: NvidiaSmi, *columns: str) -> list[list[str]]:
    arguments = (f"--query-gpu={','.join(columns)}", "--format=csv,noheader,nounits")
    rows = csv.reader(io.StringIO(output(gpus, smi, *arguments)), skipinitialspace=True)
    return [list(row) for row in rows]


def test_it_lists_the_gpus_of_the_scenario(gpus: Simulated, smi: NvidiaSmi) -> None:
    gpus.make(driver=smi.version)
    expected = [f"GPU {i}: NVIDIA L4 (simulated) (UUID: {gpu_uuid('test', i)})" for i in range(2)]
    assert output(gpus, smi, "-L").splitlines() == expected


@pytest.mark.parametrize("model", list(profiles.profiles()))
def test_every_view_works_with_every_model(gpus: Simulated, smi: NvidiaSmi, model: str) -> None:
    gpus.make(model, driver=smi.version)
    assert f"Driver Version: {smi.version}" in output(gpus, smi)
    assert "simulated" in output(gpus, smi, "-L")
    assert len(output(gpus, smi, "-q").splitlines()) > 350
    for arguments in (["topo", "-m"], ["topo", "-p2p", "r"], ["nvlink", "-s"], ["-i", "1"]):
        output(gpus, smi, *arguments)
    tree = ElementTree.fromstring(output(gpus, smi, "-q", "-x"))
    assert [gpu.findtext("product_name") for gpu in tree.iter("gpu")] == [
        f"{profiles.find(model).name} (simulated)"
    ] * 2


# Column to what sets it; every value is another one, so that no two can be mistaken.
COLUMNS = {
    "utilization.gpu": "utilization=97",
    "utilization.memory": "memory_utilization=53",
    "utilization.encoder": "encoder_utilization=29",
    "utilization.decoder": "decoder_utilization=31",
    "temperature.gpu": "temperature=83",
    "power.draw": "power=61.43",
    "enforced.power.limit": "power_limit=67.19",
    "power.default_limit": "power_limit_default=71.23",
    "power.min_limit": "power_limit_min=41.57",
    "power.max_limit": "power_limit_max=73.91",
    "clocks.gr": "clock_graphics=1009",
    "clocks.sm": "clock_sm=1013",
    "clocks.mem": "clock_memory=1019",
    "clocks.video": "clock_video=1021",
    "clocks.max.gr": "clock_graphics_max=2003",
    "clocks.max.sm": "clock_sm_max=2011",
    "clocks.max.mem": "clock_memory_max=2017",
    "memory.total": "memory_total=22013",
    "memory.used": "memory_used=7919",
    "ecc.errors.corrected.volatile.dram": "ecc_dram_volatile_corrected=101",
    "ecc.errors.uncorrected.volatile.dram": "ecc_dram_volatile_uncorrected=103",
    "ecc.errors.corrected.aggregate.dram": "ecc_dram_aggregate_corrected=107",
    "ecc.errors.uncorrected.aggregate.dram": "ecc_dram_aggregate_uncorrected=109",
    "pcie.link.gen.current": "pcie_generation=2",
    "pcie.link.gen.max": "pcie_generation_max=3",
    "pcie.link.width.current": "pcie_width=4",
    "pcie.link.width.max": "pcie_width_max=8",
    "pstate": "performance_state=5",
}


def test_every_column_shows_its_own_value(gpus: Simulated, smi: NvidiaSmi) -> None:
    gpus.make(driver=smi.version).set(*COLUMNS.values())
    values = [text.split("=")[1] for text in COLUMNS.values()]
    assert len(set(values)) == len(values), "two values are the same"
    (first, _) = query(gpus, smi, *COLUMNS)
    shown = dict(zip(COLUMNS, first, strict=True))
    assert shown == dict(zip(COLUMNS, values, strict=True)) | {"pstate": "P5"}


def test_remapped_rows_and_throttle_reasons_are_told_apart(gpus: Simulated, smi: NvidiaSmi) -> None:
    gpus.make(driver=smi.version)
    gpus.set("remapped_correctable=11", "remapped_uncorrectable=13", "remapped_pending=1")
    gpus.fault("throttle", gpu=0, reason="hw-thermal")
    names = ["correctable", "uncorrectable", "pending", "failure"]
    columns = ",".join(f"remapped_rows.{name}" for name in names)
    arguments = (f"--query-remapped-rows={columns}", "--format=csv,noheader")
    text = output(gpus, smi, *arguments).splitlines()
    assert text == ["11, 13, 1, 0", "0, 0, 0, 0"]
    reasons = ("hw_thermal_slowdown", "hw_slowdown", "sw_thermal_slowdown", "sw_power_cap")
    (first, second) = query(gpus, smi, *(f"clocks_throttle_reasons.{r}" for r in reasons))
    assert first == ["Active", "Active", "Not Active", "Not Active"]
    assert second == ["Not Active"] * 4


@pytest.mark.parametrize(
    ("kind", "gpu", "code", "words"),
    [
        ("driver-not-loaded", None, 9, "couldn't communicate with the NVIDIA driver"),
        ("version-mismatch", None, 18, "Driver/library version mismatch"),
        ("no-devices", None, 6, "No devices were found"),
        ("lost", 1, 15, "GPU is lost"),
    ],
)
def test_faults_end_it_with_the_real_exit_code(
    gpus: Simulated, smi: NvidiaSmi, kind: str, gpu: int | None, code: int, words: str
) -> None:
    gpus.make(driver=smi.version).fault(kind, gpu=gpu)
    done = run(gpus, smi)
    assert (done.returncode, words in done.stdout + done.stderr) == (code, True), done.stdout
    gpus.clear()
    assert run(gpus, smi).returncode == 0


def test_a_list_shows_the_gpus_before_the_lost_one(gpus: Simulated, smi: NvidiaSmi) -> None:
    gpus.make(driver=smi.version).fault("lost", gpu=1)
    done = run(gpus, smi, "-L")
    assert done.returncode == 15
    assert done.stdout.startswith("GPU 0: NVIDIA L4 (simulated)")


def test_without_the_library_it_says_so(gpus: Simulated, smi: NvidiaSmi) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    if "libnvidia-ml" in subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout:
        pytest.skip("this machine has a real NVML library")
    assert subprocess.run([smi.path], env=environment, capture_output=True).returncode == 12


def test_a_hanging_function_hangs_only_who_calls_it(gpus: Simulated, smi: NvidiaSmi) -> None:
    gpus.make(driver=smi.version).fault("hang", function="nvmlDeviceGetTemperature")
    with pytest.raises(subprocess.TimeoutExpired):
        gpus.run([str(smi.path)], timeout=2)
    assert output(gpus, smi, "-L").count("simulated") == 2


def test_a_function_that_is_not_there_leaves_a_hole(gpus: Simulated, smi: NvidiaSmi) -> None:
    gpus.make(driver=smi.version).fault("absent", function="nvmlDeviceGetPowerUsage")
    gpus.fault("not-supported", function="nvmlDeviceGetTemperature", gpu=1)
    rows = query(gpus, smi, "utilization.gpu", "temperature.gpu")
    assert [row[1] for row in rows] == ["38", "[N/A]"]
    assert run(gpus, smi).returncode == 0


def test_a_setting_stays_until_boot(gpus: Simulated, smi: NvidiaSmi) -> None:
    gpus.make(driver=smi.version)
    assert query(gpus, smi, "persistence_mode")[0] == ["Disabled"]
    assert "Enabled" in output(gpus, smi, "-pm", "1", "-i", "0")
    assert [row[0] for row in query(gpus, smi, "persistence_mode")] == ["Enabled", "Disabled"]
    output(gpus, smi, "-pl", "55", "-i", "1")
    assert [row[0] for row in query(gpus, smi, "power.limit")] == ["72.00", "55.00"]
    assert run(gpus, smi, "-pl", "500").returncode != 0


def test_real_processes_are_listed_with_their_memory(gpus: Simulated, smi: NvidiaSmi) -> None:
    gpus.make(driver=smi.version)
    process = gpus.busy("--gpu", "1", "--seconds", "60", "--memory-mib", "1237")
    columns = "--query-compute-apps=gpu_uuid,pid,used_memory"
    arguments = (columns, "--format=csv,noheader,nounits")
    line = wait_until("the process in the list", lambda: output(gpus, smi, *arguments).strip())
    assert line == f"{gpu_uuid('test', 1)}, {process.pid}, 1237"
    assert re.search(rf"\| +1 +N/A +N/A +{process.pid} +C ", output(gpus, smi))
    assert [row[0] for row in query(gpus, smi, "memory.used")] == ["0", "1237"]
    process.kill()
    process.wait()
    assert output(gpus, smi, *arguments).strip() == ""


def test_a_board_with_nvswitches_shows_all_links(gpus: Simulated, smi: NvidiaSmi) -> None:
    gpus.make("H100", 8, driver=smi.version)
    line = next(x for x in output(gpus, smi, "topo", "-m").splitlines() if x.startswith("GPU0"))
    assert line.split()[:9] == ["GPU0", "X", *["NV18"] * 7]
    assert output(gpus, smi, "nvlink", "-s").count("26.562 GB/s") == 8 * 18


def fabric(gpus: Simulated, smi: NvidiaSmi) -> list[str]:
    tree = ElementTree.fromstring(output(gpus, smi, "-q", "-x", "-i", "0"))
    return [tree.findtext(f"gpu/fabric/{name}", "") for name in ("state", "status")]


def test_only_a_board_with_nvswitches_needs_a_fabric_manager(
    gpus: Simulated, smi: NvidiaSmi
) -> None:
    gpus.make("H100", 8, driver=smi.version)
    assert fabric(gpus, smi) == ["Completed", "Success"]
    gpus.set("fabric_state=1")
    assert fabric(gpus, smi)[0] == "Not Started"
    gpus.make("H100", 4, driver=smi.version)
    assert fabric(gpus, smi) == ["N/A", "N/A"]
