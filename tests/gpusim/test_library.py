"""The library as a file and as a guest in other programs."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gpuferry.simulation.compiled import compiled
from gpuferry.simulation.library import compile_into
from gpuferry.simulation.readings import READINGS
from tests.support.simulated import Simulated, wait_until

# Slurm's plugin links these besides what nvidia-smi asks for.
SLURM = [
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetCpuAffinity",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    "nvmlDeviceGetSupportedMemoryClocks",
    "nvmlDeviceGetSupportedGraphicsClocks",
    "nvmlDeviceGetApplicationsClock",
    "nvmlDeviceSetApplicationsClocks",
    "nvmlDeviceResetApplicationsClocks",
    "nvmlDeviceGetAttributes_v2",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetProcessUtilization",
]


def symbols(path: Path, *options: str) -> str:
    argv = ["nm", "-D", *options, str(path)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("part", ["lib/libnvidia-ml.so.1", "bin/gpusim"])
def test_it_runs_with_the_c_library_of_debian_12(built: Path, part: str) -> None:
    needed = re.findall(r"GLIBC_(\d+)\.(\d+)", symbols(built / part, "--undefined-only"))
    assert needed
    assert max((int(a), int(b)) for a, b in needed) <= (2, 34)


def test_it_exports_what_slurm_links_and_nothing_of_its_own(built: Path) -> None:
    listed = symbols(built / "lib/libnvidia-ml.so.1", "--defined-only")
    names = {line.split()[-1].split("@")[0] for line in listed.splitlines()}
    assert set(SLURM) <= names
    assert [n for n in names if not n.startswith(("nvml", "gpusim_busy_"))] == []


def test_its_readings_are_those_of_the_scenario(gpus: Simulated) -> None:
    names = gpus.run([str(gpus.built / "bin/gpusim"), "readings"]).stdout.split()
    assert sorted(names) == sorted(READINGS)


def test_a_running_program_sees_a_change(gpus: Simulated) -> None:
    client = gpus.make().client()
    assert client("n.nvmlDeviceGetTemperature(g[0], 0)") == 38
    gpus.set("temperature=91")
    assert client("n.nvmlDeviceGetTemperature(g[0], 0)") == 91
    gpus.set("temperature=default")
    assert client("n.nvmlDeviceGetTemperature(g[0], 0)") == 38


def test_a_series_moves_by_itself(gpus: Simulated) -> None:
    client = gpus.make().client()
    gpus.set("temperature=0:40,2:90", "power=0:10,4:50,linear")
    assert client("n.nvmlDeviceGetTemperature(g[0], 0)") == 40
    first = client("n.nvmlDeviceGetPowerUsage(g[0])")
    wait_until("the step", lambda: client("n.nvmlDeviceGetTemperature(g[0], 0)") == 90, 10)
    later = client("n.nvmlDeviceGetPowerUsage(g[0])")
    assert 10000 <= first < later <= 50000


def damage(text: str) -> dict[str, bytes]:
    return {
        "empty": b"",
        "half": text[: len(text) // 2].encode(),
        "cut before the last line": text.removesuffix("end\n").encode(),
        "binary": bytes(range(256)) * 50,
        "unknown reading": text.replace("reading power_idle", "reading spin").encode(),
        "a word for a number": text.replace("reading cores 7424", "reading cores many").encode(),
        "too many GPUs": text.replace("gpu 1", "gpu 99").encode(),
        "empty line": text.replace("gpu 1", "\ngpu 1").encode(),
        "another version": text.replace("gpusim-scenario 1", "gpusim-scenario 2").encode(),
    }


@pytest.mark.parametrize("kind", damage(""))
def test_a_broken_scenario_leaves_the_last_good_one_in_force(gpus: Simulated, kind: str) -> None:
    text = compiled(gpus.make().scenario)
    client = gpus.client()
    gpus.write(damage(text)[kind])
    assert client("n.nvmlDeviceGetCount()") == 2
    assert gpus.run([str(gpus.built / "bin/gpusim"), "check"]).returncode == 1
    fresh = gpus.client(start=False)
    assert fresh("start()") == 0
    gpus.write(text.encode())
    assert client("n.nvmlDeviceGetTemperature(g[1], 0)") == 38
    assert fresh("n.nvmlDeviceGetCount()") == 2


def test_no_scenario_is_no_device_and_silence(gpus: Simulated) -> None:
    done = gpus.run([str(gpus.built / "bin/gpusim"), "energy"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    gpus_verbose = {**gpus.environment, "GPUSIM_VERBOSE": "1"}
    argv = [str(gpus.built / "bin/gpusim"), "energy"]
    told = subprocess.run(argv, env=gpus_verbose, capture_output=True, text=True, check=False)
    assert "is missing" in told.stderr


def test_many_threads_read_while_the_scenario_changes(gpus: Simulated) -> None:
    client = gpus.make().client()
    client(
        "kept.update(stop=False, seen=[], threads=[threading.Thread(target=lambda: [kept['seen']"
        ".append(n.nvmlDeviceGetTemperature(g[0], 0)) for _ in iter(lambda: kept['stop'], True)]) "
        "for _ in range(4)])"
    )
    client("[t.start() for t in kept['threads']]")
    for value in range(40, 90):
        gpus.set(f"temperature={value}")
    client("kept.update(stop=True)")
    client("[t.join() for t in kept['threads']]")
    seen = set(client("sorted(set(kept['seen']))"))
    assert seen <= {38, *range(40, 90)}
    assert len(seen) > 5


DRIVER = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    int (*init)(void), (*handle)(unsigned, void **), (*get)(void *, unsigned *), (*shutdown)(void);
    int (*create)(void **), (*add)(void *, unsigned long long, void *), (*release)(void *);
    int (*wait)(void *, void *, unsigned), (*fields)(void *, int, void *);
    int (*processes)(void *, unsigned *, void *);
    *(void **)&init = dlsym(library, "nvmlInit_v2");
    *(void **)&handle = dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    *(void **)&get = dlsym(library, "nvmlDeviceGetPowerUsage");
    *(void **)&create = dlsym(library, "nvmlEventSetCreate");
    *(void **)&release = dlsym(library, "nvmlEventSetFree");
    *(void **)&add = dlsym(library, "nvmlDeviceRegisterEvents");
    *(void **)&wait = dlsym(library, "nvmlEventSetWait_v2");
    *(void **)&fields = dlsym(library, "nvmlDeviceGetFieldValues");
    *(void **)&processes = dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
    *(void **)&shutdown = dlsym(library, "nvmlShutdown");
    void *device, *set;
    unsigned power, count = 8;
    char data[64], list[8 * 24], values[2][40] = {{83}, {91}};
    if (init() || handle(0, &device) || create(&set) || add(device, 8, set)) return 1;
    for (int i = 0; i < 3; i++)
        if (get(device, &power) || fields(device, 2, values)) return 2;
    if (processes(device, &count, list) || wait(set, data, 30) != 10 || release(set)) return 3;
    printf("%u\n", power);
    return shutdown() || dlclose(library);
}
"""


def test_memory_is_used_properly(gpus: Simulated) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    gpus.make().set("power=0:10,100:20,linear")
    (gpus.folder / "driver.c").write_text(DRIVER)
    program = gpus.folder / "driver"
    source = str(gpus.folder / "driver.c")
    subprocess.run(["gcc", "-o", str(program), source, "-ldl"], check=True)
    done = gpus.run(
        ["valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full", str(program)]
    )
    assert done.returncode == 0, done.stderr


def test_no_damage_to_the_scenario_makes_its_reader_stumble(gpus: Simulated) -> None:
    """With the compiler's checks of memory and arithmetic, and damage at random places."""
    flags = "CFLAGS=-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
    compile_into(gpus.folder / "checked", flags)
    gpus.make("H100").set("power=0:100,7:200,linear,loop")
    gpus.fault("hang", function="nvmlDeviceGetName", gpu=1)
    gpus.fault("xid", gpu=0, code=13)
    whole = compiled(gpus.scenario).encode()
    chance = random.Random(20)
    for number in range(150):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 5)):
            at = chance.randrange(len(data))
            kind = chance.randrange(3)
            if kind == 0:
                data[at] = chance.randrange(256)
            elif kind == 1:
                del data[at : at + chance.randint(1, 300)]
            else:
                data[at:at] = chance.choice(
                    [b" series ", b"9" * 30, b"\0", b"\n", b"gpu 5\n", b"-"]
                )
        gpus.write(bytes(data))
        verb = ["check", "energy"][number % 2]
        done = gpus.run([str(gpus.folder / "checked/bin/gpusim"), verb])
        assert done.returncode in (0, 1), f"{number}: {done.stderr}"


def test_a_program_sees_the_gpus_whose_device_files_it_has(
    gpus: Simulated, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gpus.make("L4", 3)
    uuids = gpus.client()("[n.nvmlDeviceGetUUID(h) for h in g]")
    devices = tmp_path / "devices"
    devices.mkdir()
    monkeypatch.setenv("GPUSIM_DEV_DIR", str(devices))
    assert gpus.client()("n.nvmlDeviceGetCount()") == 3, "without a control device all are shown"
    for name in ("nvidiactl", "nvidia1", "nvidia2"):
        (devices / name).touch()
    client = gpus.client()
    assert client("[n.nvmlDeviceGetUUID(h) for h in g]") == uuids[1:]
    assert client("[n.nvmlDeviceGetIndex(h) for h in g]") == [0, 1]
    assert client("[n.nvmlDeviceGetMinorNumber(h) for h in g]") == [1, 2]
    assert client.error("n.nvmlDeviceGetHandleByIndex(2)") == 2
    assert client.error(f"n.nvmlDeviceGetHandleByUUID({uuids[0]!r})") == 6
    (devices / "nvidia2").unlink()
    assert client("n.nvmlDeviceGetCount()") == 1
    gpus.fault("lost", gpu=1)
    assert client.error("n.nvmlDeviceGetHandleByIndex(0)") == 15
