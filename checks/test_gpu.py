"""The declared GPUs: there, of the declared model, healthy."""

from gpuferry.checking.gpu.count import count
from gpuferry.checking.mark import check

RESEAT = (
    "see the evidence and `./ferry ssh {server} -- sudo dmesg`, then reboot or ask the provider"
)


@check("gpu.count", severity="critical", next_step=RESEAT, deadline_seconds=45)
def test_count(survey, expectations, answer):
    """PCI, NVML and the declaration agree on number and model."""
    answer(count(survey, expectations.gpu))
