"""The declared GPUs: there, of the declared model, healthy, as fast as their model."""

from gpuferry.checking.gpu import health, limits
from gpuferry.checking.gpu.compute import compute
from gpuferry.checking.gpu.count import count
from gpuferry.checking.gpu.kernel_log import xids
from gpuferry.checking.mark import check

RESEAT = (
    "see the evidence and `./ferry ssh {server} -- sudo dmesg`, then reboot or ask the provider"
)
ASK = "ask the provider: the slot, the link or a setting gives less than the model can"


@check("gpu.count", severity="critical", next_step=RESEAT, deadline_seconds=45)
def test_count(survey, expectations, answer):
    """PCI, NVML and the declaration agree on number and model."""
    answer(count(survey, expectations.gpu))


@check("gpu.ecc", severity="critical", next_step=health.RESET, deadline_seconds=45)
def test_ecc(survey, answer):
    """No memory error that ECC could not correct."""
    answer(health.ecc(survey))


@check("gpu.remapped_rows", next_step=health.RESET, deadline_seconds=45)
def test_remapped_rows(survey, answer):
    """No memory row waits to be remapped or could not be."""
    answer(health.remapped_rows(survey))


@check("gpu.xid", next_step=RESEAT, deadline_seconds=45)
def test_xid(survey, answer):
    """The kernel's log tells of no fault since boot."""
    answer(xids(survey))


@check("gpu.pcie", next_step=ASK, deadline_seconds=45)
def test_pcie(survey, answer):
    """The PCIe link is what the model can."""
    answer(limits.pcie(survey))


@check("gpu.power_limit", next_step=ASK, deadline_seconds=45)
def test_power_limit(survey, answer):
    """The power limit is not below the model's."""
    answer(limits.power_limit(survey))


@check("gpu.clocks", next_step="look at cooling and power; ask the provider", deadline_seconds=45)
def test_clocks(survey, answer):
    """No fault holds the clocks back."""
    answer(health.clocks(survey))


@check("gpu.memory", next_step=ASK, deadline_seconds=45)
def test_memory(survey, answer):
    """The memory is the model's, and none is lost."""
    answer(limits.memory(survey))


@check("gpu.compute", severity="critical", next_step=RESEAT, deadline_seconds=45)
def test_compute(survey, answer):
    """Every GPU computes."""
    answer(compute(survey))
