"""What of a GPU's readings is a fault, what is normal, and what says nothing."""

import pytest

from gpuferry.checking.gpu import health, limits
from gpuferry.checking.gpu.judgement import conclude
from gpuferry.checking.gpu.kernel_log import xids
from tests.support.surveys import gpu, lost, survey


def l4(**values):
    return survey(gpu(0, **values))


CASES = [
    (health.ecc, l4(), "pass", "no uncorrected memory error"),
    (health.ecc, l4(ecc_corrected=9999), "pass", "no uncorrected"),
    (health.ecc, l4(ecc_uncorrected_ever=3), "pass", "no uncorrected"),
    (health.ecc, l4(ecc_uncorrected=1), "fail", "1 uncorrected"),
    (health.ecc, l4(ecc_mode=[0, 1]), "not_measured", "ECC is off"),
    (health.ecc, l4(ecc_mode={3}), "not_measured", "no ECC"),
    (health.ecc, l4(ecc_mode={999}), "not_measured", "unknown error (999)"),
    (health.ecc, l4(ecc_uncorrected={13}), "not_measured", "function not found (13)"),
    (health.remapped_rows, l4(), "pass", "0 rows remapped"),
    (health.remapped_rows, l4(remapped_rows=[1, 2, 0, 0]), "pass", "3 rows remapped"),
    (health.remapped_rows, l4(remapped_rows=[0, 1, 1, 0]), "fail", "waits"),
    (health.remapped_rows, l4(remapped_rows=[0, 1, 0, 1]), "fail", "could not be remapped"),
    (health.remapped_rows, l4(remapped_rows={3}, retired_pending=0), "pass", "no page waits"),
    (health.remapped_rows, l4(remapped_rows={3}, retired_pending=1), "fail", "a page waits"),
    (health.remapped_rows, l4(remapped_rows={3}, retired_pending={3}), "not_measured", "retires"),
    *[(health.clocks, l4(throttle_reasons=bits), "pass", "not held back")
      for bits in (0, 0x1, 0x2, 0x4, 0x10, 0x100, 0x105)],
    *[(health.clocks, l4(throttle_reasons=bits), "fail", "held back by")
      for bits in (0x8, 0x20, 0x40, 0x80, 0x48, 0x21)],
    (health.clocks, l4(throttle_reasons={3}), "not_measured", "not supported"),
    (health.clocks, survey(gpu(sm_clock_max_mhz=1500), device="2330"), "fail", "1980 MHz is the"),
    (health.clocks, survey(gpu(sm_clock_max_mhz=1980), device="2330"), "pass", "not held back"),
    (limits.pcie, l4(), "pass", "generation 4 x16"),
    (limits.pcie, l4(pcie_width=8), "fail", "x16 is possible"),
    (limits.pcie, l4(pcie_width=8, pcie_width_max=8), "fail", "x16 is possible"),
    (limits.pcie, l4(pcie_generation_max=3), "fail", "the model can generation 4"),
    (limits.pcie, survey(gpu(name="X", pcie_width=8, pcie_width_max=8), device="0"), "pass", "x8"),
    (limits.pcie, survey(gpu(name="X", pcie_width=8), device="ffff"), "fail", "x16 is possible"),
    (limits.pcie, l4(pcie_width={3}), "not_measured", "not supported"),
    (limits.power_limit, l4(), "pass", "72 W"),
    (limits.power_limit, l4(power_limit_mw=71500), "pass", "72 W"),
    (limits.power_limit, l4(power_limit_mw=40000), "fail", "40 W, 72 W is the model's"),
    (limits.power_limit, l4(power_limit_mw=40000, power_limit_default_mw=40000), "fail", "40 W"),
    (limits.power_limit, survey(gpu(name="X"), device="ffff"), "pass", "its default"),
    (limits.power_limit, l4(power_limit_mw={3}), "not_measured", "not supported"),
    (limits.memory, l4(), "pass", "23034 MiB, 0 MiB in use by 0 processes"),
    (limits.memory, l4(memory=[23034 << 20, 9000 << 20], processes=[42]), "pass", "by 1 process"),
    (limits.memory, l4(memory=[23034 << 20, 200 << 20]), "pass", "200 MiB"),
    (limits.memory, l4(memory=[23034 << 20, 300 << 20]), "fail", "leaked"),
    (limits.memory, l4(memory=[16000 << 20, 0]), "fail", "20599 MiB or more"),
    (limits.memory, survey(gpu(memory=[80000 << 20, 0]), device="2330"), "fail", "80743 MiB"),
    (limits.memory, survey(gpu(memory=[81559 << 20, 0]), device="2330"), "pass", "81559"),
    (limits.memory, l4(processes={3}), "not_measured", "not supported"),
    (limits.memory,
     survey(gpu(memory=[23034 << 20, 9000 << 20]), facts={"virtualization": {"container": "lxc"}}),
     "not_measured", "not seen from here"),
]  # fmt: skip


@pytest.mark.parametrize(("judge", "found", "status", "words"), CASES)
def test_a_reading_is_judged(judge, found, status, words):
    judgement = judge(found)
    assert (judgement.status, words in judgement.measured) == (status, True), judgement


HEALTH = [health.ecc, health.remapped_rows, health.clocks, limits.pcie, limits.power_limit,
          limits.memory]  # fmt: skip


@pytest.mark.parametrize("judge", HEALTH)
def test_a_lost_gpu_is_no_pass_and_no_failure_of_each_check(judge):
    judgement = judge(survey(gpu(0), lost()))
    assert judgement.status == "not_measured"
    assert judgement.measured == ("GPU 1: nvmlDeviceGetHandleByIndex_v2: GPU is lost (15)")


def test_the_worst_gpu_decides_and_is_named():
    judgement = health.ecc(survey(gpu(0), lost(), gpu(2, ecc_uncorrected=4)))
    assert (judgement.status, judgement.severity) == ("fail", "critical")
    assert judgement.measured == "GPU 2: 4 uncorrected memory errors"


def test_what_is_the_same_for_all_is_told_once():
    assert limits.pcie(survey(gpu(0), gpu(1))).measured == "2 GPUs: generation 4 x16"


@pytest.mark.parametrize("judge", [*HEALTH, xids])
def test_nothing_passes_without_a_gpu(judge):
    found = survey()
    assert conclude(found, judge(found)).status == "not_measured"


@pytest.mark.parametrize("judge", [*HEALTH, xids])
def test_every_pass_on_a_simulated_gpu_says_so(judge):
    found = survey(gpu(0), facts={"simulated": True})
    concluded = conclude(found, judge(found))
    assert concluded.status == "pass"
    assert "simulated GPU" in concluded.measured


def xid(code, address="0000:04:00", text="pid=77, name=python, Ch 8"):
    return f"NVRM: Xid (PCI:{address}): {code}, {text}"


@pytest.mark.parametrize(
    ("lines", "status", "severity", "words"),
    [
        ([], "pass", None, "no Xid since boot"),
        (["NVRM: loading NVIDIA UNIX x86_64 Kernel Module"], "pass", None, "no Xid"),
        ([xid(63), xid(43)], "pass", None, "not of the GPU: Xid 63"),
        ([xid(13)], "pass", None, "in python 77"),
        ([xid(31), xid(31)], "pass", None, "2 times"),
        ([xid(13), xid(63)], "pass", None, "Xid 13"),
        ([xid(9999)], "fail", "major", "not in the catalogue"),
        ([xid(64)], "fail", "critical", "remapping failure"),
        ([xid(31), xid(79)], "fail", "critical", "fallen off the bus"),
        (["NVRM: GPU 0000:18:00.0: GPU has fallen off the bus."], "fail", "critical", "0000:18:00"),
    ],
)
def test_xids_are_judged_by_what_they_ask_for(lines, status, severity, words):
    judgement = xids(survey(gpu(0), kernel_log={"source": "dmesg", "lines": lines}))
    assert (judgement.status, judgement.severity) == (status, severity)
    assert words in judgement.measured


def test_a_log_that_cannot_be_read_is_not_measured():
    assert xids(survey(gpu(0), kernel_log={})).status == "not_measured"
