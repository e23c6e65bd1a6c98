"""Driver versions, answers, modules, persistence, CUDA, the fabric manager and computing."""

import pytest

from gpuferry.checking.expectations import ExpectedCuda
from gpuferry.checking.gpu import cuda, modules
from gpuferry.checking.gpu.compute import compute
from gpuferry.checking.gpu.fabric import fabric_manager
from gpuferry.checking.gpu.judgement import conclude
from gpuferry.checking.gpu.survey import Transcript
from gpuferry.checking.gpu.versions import REBOOT, UPGRADE, answers, versions
from gpuferry.checking.mark import CONVERGE
from tests.support.surveys import VERSION, gpu, survey

MISMATCH = Transcript(errors={"start": ("nvmlInit_v2", 18)})
NOT_LOADED = Transcript(errors={"start": ("nvmlInit_v2", 9)})
NO_LIBRARY = Transcript(errors={"start": ("libnvidia-ml.so.1", 12)})
OLD = "550.90.07"


def module(version, on_disk=VERSION):
    return {"loaded": bool(version), "version": version, "disk_version": on_disk}


@pytest.mark.parametrize(
    ("found", "status", "words", "next_step"),
    [
        (survey(gpu()), "pass", f"module {VERSION}, library {VERSION}, nvidia-smi {VERSION}", ""),
        (survey(gpu(), facts={"module": module(OLD)}), "fail", f"module {OLD}, library", REBOOT),
        (survey(gpu(), facts={"module": module(OLD, OLD)}), "fail", f"module {OLD}", UPGRADE),
        (survey(system=MISMATCH, facts={"module": module(OLD)}), "fail", "mismatch", REBOOT),
        (survey(gpu(), smi={"state": "ok", "out": f"NVIDIA-SMI {OLD}"}), "fail", f"smi {OLD}", ""),
        (
            survey(gpu(), facts={"packages": {
                "nvidia-fabricmanager-550": {"version": f"{OLD}-1"}}}),
            "fail", f"nvidia-fabricmanager-550 {OLD}", "",
        ),
        (
            survey(gpu(), facts={"packages": {
                "nvidia-fabricmanager-550": {"version": f"{VERSION}-1"}}}),
            "pass", f"nvidia-fabricmanager-550 {VERSION}", "",
        ),
        (survey(system=NOT_LOADED, facts={"module": module("")}), "fail", "absent", CONVERGE),
        (
            survey(system=NO_LIBRARY, facts={"module": module(""), "library": {}}, smi={}),
            "fail", "no driver is installed", "",
        ),
        # Its version is not known then, which is not the same as absent.
        (survey(gpu(), smi={"state": "hung"}), "pass", f"library {VERSION}", ""),
        # Simulated: what NVML reports stands for the module.
        (survey(gpu(), facts={"simulated": True, "module": {}}), "pass", "NVML reports 550", ""),
        (
            survey(system=Transcript(hung="nvmlInit_v2"), facts={"simulated": True}),
            "not_measured", "nvmlInit_v2 does not return", "",
        ),
    ],
)  # fmt: skip
def test_all_parts_have_one_version(found, status, words, next_step):
    judgement = versions(found)
    assert (judgement.status, words in judgement.measured) == (status, True), judgement
    assert not next_step or judgement.next_step == next_step


@pytest.mark.parametrize(
    ("smi", "status", "words"),
    [
        ({"state": "ok", "code": 0, "seconds": 1.24}, "pass", "1.2 s with exit code 0"),
        ({"state": "failed", "code": 9, "out": "+---+\n| a table |\n+---+"}, "fail", "exit code 9"),
        ({"state": "failed", "code": 15, "out": "GPU is lost"}, "fail", "15: GPU is lost"),
        ({"state": "hung", "seconds": 10.02}, "fail", "did not end within 10 s"),
        ({"state": "hung", "stuck": [77]}, "fail", "hangs since before"),
        ({"state": "absent"}, "fail", "not installed"),
    ],
)
def test_nvidia_smi_has_to_end_in_time_with_exit_code_0(smi, status, words):
    judgement = answers(survey(gpu(), smi=smi))
    assert (judgement.status, words in judgement.measured) == (status, True), judgement
    assert not smi.get("stuck") or "77" in judgement.evidence


def test_a_hanging_nvml_function_is_named_even_where_nvidia_smi_ends():
    hanging = Transcript(values={"uuid": "GPU-1"}, hung="nvmlDeviceGetPciInfo_v3")
    judgement = answers(survey(gpu(), hanging))
    assert judgement.status == "fail"
    assert judgement.measured == "NVML does not return from GPU 1: nvmlDeviceGetPciInfo_v3"


@pytest.mark.parametrize(
    ("more", "status", "words"),
    [
        ({"modules": {"6.1.0-1": VERSION}}, "pass", "6.1.0-1"),
        ({"modules": {"6.1.0-1": VERSION, "6.1.0-2": ""}}, "fail", "6.1.0-2: none"),
        ({"modules": {}}, "fail", "no kernel"),
        ({"facts": {"simulated": True}}, "not_measured", "simulated"),
        ({"facts": {"virtualization": {"container": "docker"}}}, "not_measured", "host's kernel"),
    ],
)
def test_the_next_kernel_has_its_module_too(more, status, words):
    judgement = modules.module_for_kernels(survey(gpu(), **more))
    assert (judgement.status, words in judgement.measured) == (status, True), judgement


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({}, "pass"),
        ({"nouveau": {"loaded": True}}, "fail"),
        ({"pci": [{"address": "0000:01:00.0", "device": "27b8", "driver": "nouveau"}]}, "fail"),
    ],
)
def test_nouveau_is_neither_loaded_nor_bound(facts, status):
    assert modules.nouveau(survey(gpu(), facts=facts)).status == status


@pytest.mark.parametrize(
    ("mode", "facts", "status", "words"),
    [
        (1, {}, "pass", "on"),
        (0, {}, "fail", "off"),
        (0, {"boot": {"uptime_seconds": 599}}, "not_measured", "pending"),
        (0, {"boot": {"uptime_seconds": 600}}, "fail", "off"),
        (0, {"simulated": True}, "not_measured", "simulated GPU"),
        (0, {"virtualization": {"container": "lxc"}}, "not_measured", "host"),
        ({4}, {}, "not_measured", "no permission"),
    ],
)
def test_persistence_may_come_late_after_a_boot(mode, facts, status, words):
    judgement = modules.persistence(survey(gpu(persistence=mode), facts=facts))
    assert (judgement.status, words in judgement.measured) == (status, True), judgement


@pytest.mark.parametrize(
    ("declared", "status", "words"),
    [
        ([], "pass", f"driver {VERSION} offers CUDA 12.4"),
        (["12.4", "11.8"], "pass", "12.4"),
        (["12.8"], "pass", "12.4"),  # minor version compatibility
        (["13.0"], "fail", "CUDA 13.0 needs branch 580"),
        (["14.0"], "fail", "no rule knows it"),
    ],
)
def test_the_driver_has_to_run_the_declared_cuda(declared, status, words):
    judgement = cuda.driver(survey(gpu()), ExpectedCuda(runtime=declared))
    assert (judgement.status, words in judgement.measured) == (status, True), judgement
    assert ("12.8" in judgement.evidence) is ("12.8" in declared)


def test_without_nvml_nothing_is_said_about_cuda():
    assert cuda.driver(survey(system=NOT_LOADED), ExpectedCuda()).status == "not_measured"


@pytest.mark.parametrize(
    ("run", "status", "words"),
    [
        ({"state": "ok", "out": '{"runtime": {"/a": "12.4", "/b": "11.8"}}'}, "pass", "12.4, 11.8"),
        (
            {"state": "ok", "out": '{"runtime": {"/a": "12.4"}}'},
            "fail",
            "11.8 missing; there: 12.4",
        ),
        ({"state": "ok", "out": '{"runtime": {}}'}, "fail", "12.4, 11.8 missing; there: none"),
        ({"state": "ok", "out": '{"runtime": {"/a": "cannot open"}}'}, "fail", "there: none"),
        ({"state": "hung", "out": ""}, "fail", "within 10 s"),
        ({"state": "failed", "code": 1, "out": "Trace"}, "fail", "broke off"),
        (None, "fail", "broke off"),
    ],
)
def test_declared_runtimes_have_to_tell_their_version(run, status, words):
    judgement = cuda.installed(survey(gpu(), cuda=run), "runtime", ["12.4", "11.8"])
    assert (judgement.status, words in judgement.measured) == (status, True), judgement


SWITCH = {"address": "0000:41:00.0", "device": "22a3", "class": "068000"}
H100 = {"address": "0000:01:00.0", "device": "2330"}
B200 = {"address": "0000:01:00.0", "device": "2901"}
MANAGER = {"nvidia-fabricmanager-550": {"version": f"{VERSION}-1"}}
ACTIVE = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "Result": "success",
}


@pytest.mark.parametrize(
    ("pci", "packages", "unit", "status", "words"),
    [
        ([H100], {}, {}, "not_measured", "no NVSwitch"),
        ([H100, SWITCH], MANAGER, ACTIVE, "pass", "active"),
        ([B200], MANAGER, ACTIVE, "pass", "active"),
        ([H100, SWITCH], {}, {"LoadState": "not-found"}, "fail", "not installed"),
        ([H100, SWITCH], MANAGER, {**ACTIVE, "ActiveState": "activating"}, "not_measured", "start"),
        ([H100, SWITCH], MANAGER, {**ACTIVE, "ActiveState": "failed"}, "fail", "failed"),
        ([H100, SWITCH], MANAGER, {**ACTIVE, "ActiveState": "inactive"}, "fail", "inactive"),
        ([H100, SWITCH], {"nvidia-fabricmanager": {"version": "535.1-1"}}, ACTIVE, "fail", "535.1"),
    ],
)
def test_starting_is_told_apart_from_failed(pci, packages, unit, status, words):
    facts = {"pci": pci, "packages": packages}
    judgement = fabric_manager(survey(gpu(), facts=facts, fabric_manager=unit))
    assert (judgement.status, words in judgement.measured) == (status, True), judgement


def test_simulated_switches_have_no_fabric_manager():
    facts = {"pci": [H100, SWITCH], "simulated": True}
    assert fabric_manager(survey(gpu(), facts=facts)).status == "not_measured"


@pytest.mark.parametrize(
    ("run", "status", "words"),
    [
        ({"state": "ok", "out": '{"gpus": ["L4"], "trouble": ""}'}, "pass", "1 of 1 GPU computed"),
        ({"state": "ok", "out": '{"gpus": [], "trouble": "GPU 0: cuInit"}'}, "fail", "cuInit"),
        ({"state": "ok", "out": '{"gpus": [], "trouble": ""}'}, "fail", "0 of 1"),
        ({"state": "hung", "out": ""}, "fail", "did not end within"),
        ({"state": "failed", "code": -11, "out": ""}, "fail", "exit code -11"),
    ],
)
def test_every_gpu_has_to_compute(run, status, words):
    judgement = compute(survey(gpu(), compute=run))
    assert (judgement.status, words in judgement.measured) == (status, True), judgement


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (survey(gpu(), facts={"simulated": True}), "simulated GPU computes nothing"),
        (survey(system=NOT_LOADED), "driver not loaded"),
        (survey(gpu(0), gpu(1, processes=[42])), "GPU 1 in use"),
    ],
)
def test_nothing_computes_where_it_cannot_or_may_not(found, words):
    judgement = conclude(found, compute(found))
    assert judgement.status == "not_measured"
    assert words in judgement.measured
