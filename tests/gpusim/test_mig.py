"""GPUs cut into MIG instances by the real nvidia-smi, and what programs then see."""

from __future__ import annotations

import ctypes
import json
import re
import sys

import pynvml
import pytest

from gpuferry.paths import REPOSITORY
from tests.support.nvidia_smi import NvidiaSmi
from tests.support.simulated import Simulated, wait_until

PROGRAM = REPOSITORY / "playbooks/module_utils/mig_layout.py"


@pytest.fixture
def cut(gpus: Simulated, smi: NvidiaSmi) -> Simulated:
    """Two A100; `run` finds nvidia-smi by its name."""
    gpus.make("A100-80", driver=smi.version)
    folder = gpus.folder / "bin"
    folder.mkdir()
    (folder / "nvidia-smi").symlink_to(smi.path)
    return gpus


def said(gpus: Simulated, smi: NvidiaSmi, *arguments: str, code: int = 0) -> str:
    done = gpus.run([str(smi.path), *arguments])
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def parts(gpus: Simulated, smi: NvidiaSmi) -> list[str]:
    return re.findall(r"MIG (\S+)\s+Device", said(gpus, smi, "-L"))


def test_nvidia_smi_cuts_lists_and_mends(cut: Simulated, smi: NvidiaSmi) -> None:
    said(cut, smi, "-i", "0", "-mig", "1")
    table = said(cut, smi, "mig", "-i", "0", "-lgip")
    assert re.search(r"MIG 1g\.10gb\+me\s+20\s+1/1", table)
    assert "Profile ID 14 Placements: {0,2,4}:2" in said(cut, smi, "mig", "-i", "0", "-lgipp")
    said(cut, smi, "mig", "-i", "0", "-cgi", "9:4,2g.20gb:0", "-C")
    assert parts(cut, smi) == ["3g.40gb", "2g.20gb"]
    assert re.search(r"MIG 3g\.40gb\s+9\s+0\s+4:4", said(cut, smi, "mig", "-lgi"))
    assert "Insufficient" in said(cut, smi, "mig", "-i", "0", "-cgi", "9", code=23)
    said(cut, smi, "mig", "-i", "0", "-cgi", "19:2", "-C")
    assert "In use" in said(cut, smi, "mig", "-i", "0", "-dgi", code=19)
    said(cut, smi, "mig", "-i", "0", "-dci")
    said(cut, smi, "mig", "-i", "0", "-dgi")
    assert parts(cut, smi) == []
    said(cut, smi, "-i", "0", "-mig", "0")


def test_instances_do_not_outlive_a_boot(cut: Simulated, smi: NvidiaSmi) -> None:
    said(cut, smi, "-i", "0", "-mig", "1")
    said(cut, smi, "mig", "-i", "0", "-cgi", "0", "-C")
    assert parts(cut, smi) == ["7g.80gb"]
    for path in (cut.folder / "run/set").iterdir():  # a tmpfs on a server
        path.unlink()
    assert parts(cut, smi) == []


def test_the_mode_does_not_change_under_a_process(cut: Simulated, smi: NvidiaSmi) -> None:
    cut.busy("--gpu", "0", "--seconds", "60")
    query = ("--query-compute-apps=pid", "--format=csv,noheader")
    wait_until("the process", lambda: said(cut, smi, *query).strip())
    assert "In use" in said(cut, smi, "-i", "0", "-mig", "1")
    modes = said(cut, smi, "--query-gpu=mig.mode.current", "--format=csv,noheader")
    assert modes.split() == ["Disabled", "Disabled"]


def test_pynvml_agrees_with_nvidia_smi(cut: Simulated, smi: NvidiaSmi) -> None:
    said(cut, smi, "-i", "1", "-mig", "1")
    said(cut, smi, "mig", "-i", "1", "-cgi", "9:0,14:4", "-C")
    ask = cut.client()
    first = "n.nvmlDeviceGetMigDeviceHandleByIndex(g[1], 0)"
    assert ask(f"n.nvmlDeviceGetName({first})").endswith(" MIG 3g.40gb")
    uuid = ask(f"n.nvmlDeviceGetUUID({first})")
    assert uuid in said(cut, smi, "-L")
    assert ask(f"n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByUUID('{uuid}'))") == uuid
    assert ask(f"n.nvmlDeviceIsMigDeviceHandle({first}).value") == 1
    assert ask(f"n.nvmlDeviceGetMemoryInfo({first})")["total"] == 40000 << 20
    assert ask(f"n.nvmlDeviceGetGpuInstanceId({first})") == 0
    assert (
        ask.error(f"n.nvmlDeviceGetUtilizationRates({first})") == pynvml.NVML_ERROR_INVALID_ARGUMENT
    )
    assert (
        ask.error("n.nvmlDeviceGetMigDeviceHandleByIndex(g[0], 0)") == pynvml.NVML_ERROR_NOT_FOUND
    )
    info = ask("n.nvmlDeviceGetGpuInstanceProfileInfo(g[1], n.NVML_GPU_INSTANCE_PROFILE_3_SLICE)")
    assert (info["id"], info["sliceCount"], info["instanceCount"]) == (9, 3, 2)
    assert info["name"] == "MIG 3g.40gb"


@pytest.mark.parametrize(
    ("name", "version"),
    [("c_nvmlGpuInstanceProfileInfo_v2_t", 2), ("c_nvmlComputeInstanceProfileInfo_v2_t", 2)],
)
def test_layouts_are_those_of_the_api(name: str, version: int) -> None:
    """The sizes that the library compares versions with."""
    size = ctypes.sizeof(getattr(pynvml, name))
    assert getattr(pynvml, name.removeprefix("c_").removesuffix("_t")) == version << 24 | size


def layout(gpus: Simulated, action: str, wanted: dict[str, list[str]]) -> tuple[int, str]:
    path = gpus.folder / "mig.json"
    path.write_text(json.dumps(wanted))
    environment = {**gpus.environment, "PATH": f"{gpus.folder / 'bin'}:/usr/bin:/bin"}
    argv = ["/usr/bin/env", *(f"{k}={v}" for k, v in environment.items())]
    done = gpus.run([*argv, sys.executable, str(PROGRAM), action, str(path)])
    return done.returncode, (done.stdout + done.stderr).strip()


def test_a_declared_layout_is_made_and_kept(cut: Simulated, smi: NvidiaSmi) -> None:
    wanted = {"0": ["1g.10gb", "2g.20gb", "3g.40gb"], "1": []}
    assert layout(cut, "check", wanted) == (0, "GPUs [0] differ")
    assert layout(cut, "apply", wanted) == (0, "GPU 0: 1g.10gb + 2g.20gb + 3g.40gb")
    assert layout(cut, "apply", wanted) == (0, "same")
    said(cut, smi, "mig", "-i", "0", "-dci", "-gi", "0")  # half a part is none
    assert layout(cut, "check", wanted) == (0, "GPUs [0] differ")
    assert layout(cut, "apply", wanted)[0] == 0
    assert sorted(parts(cut, smi)) == sorted(wanted["0"])
    assert layout(cut, "apply", {"0": [], "1": ["1g.10gb"] * 7})[0] == 0
    assert parts(cut, smi) == ["1g.10gb"] * 7
    code, why = layout(cut, "apply", {"1": ["3g.20gb"]})
    assert code == 1
    assert "it offers 1g.10gb" in why


def test_a_model_without_mig_is_refused_in_words(gpus: Simulated, smi: NvidiaSmi) -> None:
    gpus.make("L4", driver=smi.version)
    (gpus.folder / "bin").mkdir()
    (gpus.folder / "bin/nvidia-smi").symlink_to(smi.path)
    assert layout(gpus, "apply", {"0": [], "1": []}) == (0, "same")
    code, why = layout(gpus, "apply", {"0": ["1g.10gb"]})
    assert (code, why.split(";")[0]) == (1, "MIG layout: GPU 0 cannot be cut into MIG instances")
