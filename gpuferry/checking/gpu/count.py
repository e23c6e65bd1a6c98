"""How many GPUs there are, by three counts, and whether they are the declared ones."""

from __future__ import annotations

import re
from collections import Counter

from gpuferry.checking.expectations import ExpectedGpu
from gpuferry.checking.gpu.health import RESET
from gpuferry.checking.gpu.judgement import SIMULATED, Judgement
from gpuferry.checking.gpu.survey import Survey, Transcript
from gpuferry.driver import expectations
from gpuferry.driver.facts import PciDevice


def count(survey: Survey, declared: ExpectedGpu | None) -> Judgement:
    """PCI, NVML and the declaration agree in number and model.

    Seven of eight GPUs went unnoticed where only one count was taken (leptonai/gpud#591).
    """
    gpus, answering = survey.on_pci, survey.answering
    word = f" ({SIMULATED}s)" if survey.simulated else ""
    wanted = f"{declared.count} x {declared.model} declared" if declared else "none declared"
    measured = f"{len(gpus)} on PCI, {len(answering)} answer NVML{word}"
    problems = [survey.no_nvml] if survey.no_nvml else []
    problems += _silent(survey)
    problems += _unlisted(survey)
    if declared:
        problems += _other_models(survey, declared)
    number = declared.count if declared else 0
    ok = not problems and len(gpus) == len(answering) == number > 0
    return Judgement(
        "pass" if ok else "fail",
        "; ".join([measured, *problems]),
        f"{wanted}, as many on PCI and in NVML",
        _shown(survey),
        next_step=RESET if any(_needs_reset(gpu) for gpu in survey.nvml.gpus) else "",
    )


def _needs_reset(gpu: Transcript) -> bool:
    return any(code == 16 for _, code in gpu.errors.values())


def model_differs(device: PciDevice | None, name: str, declared: str) -> bool:
    """Whether a GPU is another model than declared: by PCI id, else by whole words of its name."""
    wanted = expectations.by_name(declared)
    by_id = expectations.by_pci_id(device.device, device.subsystem_device) if device else None
    found = by_id or expectations.by_name(name)
    if wanted and found:
        return wanted.name != found.name
    # A number stands for its unit as well: "A100 80" is the "A100 80GB".
    words = _words(name or (found.name if found else ""))
    if wanted and (words & expectations.VARIANTS) - _words(declared):
        return True
    return not all(w in words or (w.isdigit() and f"{w}gb" in words) for w in _words(declared))


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", name.lower()))


def _other_models(survey: Survey, declared: ExpectedGpu) -> list[str]:
    names = {str(gpu.values["pci"]): str(gpu.values["name"]) for gpu in survey.answering}
    found = Counter(
        names.get(device.address.lower()) or _by_id(device)
        for device in survey.on_pci
        if model_differs(device, names.get(device.address.lower(), ""), declared.model)
    )
    return [f"{number} x {name} instead of {declared.model}" for name, number in found.items()]


def _by_id(device: PciDevice) -> str:
    row = expectations.by_pci_id(device.device, device.subsystem_device)
    return row.name if row else f"10de:{device.device}"


def _silent(survey: Survey) -> list[str]:
    """GPUs that NVML lists and that do not tell who they are."""
    return [
        f"GPU {index}{_where(survey, gpu)}: {why}"
        for index, gpu in enumerate(survey.nvml.gpus)
        if (why := next(filter(None, map(gpu.why_not, ("uuid", "name", "pci"))), ""))
    ]


def _where(survey: Survey, gpu: Transcript) -> str:
    """The address of a GPU that does not tell it, where only one is left over."""
    known = {str(g.values["pci"]) for g in survey.nvml.gpus if "pci" in g.values}
    left = [d.address for d in survey.on_pci if d.address.lower() not in known]
    return f" ({left[0]})" if len(left) == 1 and "pci" not in gpu.values else ""


def _unlisted(survey: Survey) -> list[str]:
    """GPUs on PCI that NVML does not list at all."""
    if survey.no_nvml or len(survey.nvml.gpus) >= len(survey.on_pci):
        return []
    known = {str(gpu.values["pci"]) for gpu in survey.answering}
    missing = [d for d in survey.on_pci if d.address.lower() not in known]
    return [f"{d.address} is not in NVML (driver: {d.driver or 'none'})" for d in missing]


def _shown(survey: Survey) -> str:
    names = {str(gpu.values["pci"]): str(gpu.values["name"]) for gpu in survey.answering}
    shown = [
        f"{device.address} {names.pop(device.address.lower(), _by_id(device))}"
        for device in survey.on_pci
    ]
    return ", ".join(
        [*shown, *(f"{address} {name}, not on PCI" for address, name in names.items())]
    )
