"""What a healthy GPU of its model shows."""

from __future__ import annotations

from gpuferry.checking.gpu.survey import Survey, Transcript
from gpuferry.driver import expectations
from gpuferry.driver.expectations import Expectation


def model_of(survey: Survey, gpu: Transcript) -> Expectation | None:
    """The row of a GPU: by PCI id, else by its name; None where no row knows it."""
    device = survey.device(gpu)
    row = expectations.by_pci_id(device.device, device.subsystem_device) if device else None
    return row or expectations.by_name(str(gpu.values.get("name", "")))
