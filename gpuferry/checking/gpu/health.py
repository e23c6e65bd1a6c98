"""Memory errors and what holds clocks back, judged for each GPU."""

from __future__ import annotations

from gpuferry.checking.gpu.judgement import Judgement, each_gpu, not_measured, number_of
from gpuferry.checking.gpu.model import model_of
from gpuferry.checking.gpu.survey import Survey, Transcript

_DRAIN = "drain {server}, then "
RESET = _DRAIN + "reset the GPU (sudo nvidia-smi --gpu-reset -i INDEX) or reboot"
REPLACE = _DRAIN + "have the GPU replaced: it has no spare memory left for the bad row"
# Bits of the NVML API reference (nvmlClocksEventReasons): a fault's, and normal ones.
HELD_BACK = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
NORMAL = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x10: "sync boost",
    0x100: "display clocks",
}


def ecc(survey: Survey) -> Judgement:
    """No memory error since the driver was loaded that ECC could not correct.

    Corrected errors ask for nothing by themselves (NVIDIA, GPU memory error management; Xid 92).
    """

    def one(gpu: Transcript) -> Judgement:
        if gpu.not_supported("ecc_mode"):
            return not_measured("this GPU has no ECC to ask for")
        if why := gpu.why_not("ecc_mode") or gpu.why_not("ecc_uncorrected"):
            return not_measured(why)
        if not gpu.values["ecc_mode"][0]:
            return not_measured("ECC is off, nothing counts errors")
        number = gpu.values["ecc_uncorrected"]
        evidence = f"corrected {_number(gpu, 'ecc_corrected')}, uncorrected ever "
        evidence += _number(gpu, "ecc_uncorrected_ever")
        if number:
            told = number_of(number, "uncorrected memory error")
            return Judgement("fail", told, evidence=evidence, severity="critical", next_step=RESET)
        return Judgement("pass", "no uncorrected memory error", evidence=evidence)

    return each_gpu(survey, "0 uncorrected memory errors since the driver was loaded", one)


def remapped_rows(survey: Survey) -> Judgement:
    """No memory row failed to be remapped, and none waits for a reset (before Ampere: pages).

    A pending row is recorded, and harmless until the reset that it asks for; a failed one is not
    (Xid 63 and 64 were taken for each other: leptonai/gpud#987).
    """

    def one(gpu: Transcript) -> Judgement:
        if gpu.not_supported("remapped_rows"):
            return _retired_pages(gpu)
        if why := gpu.why_not("remapped_rows"):
            return not_measured(why)
        corrected, uncorrected, pending, failed = gpu.values["remapped_rows"]
        evidence = f"remapped so far: {corrected} corrected, {uncorrected} uncorrected"
        if failed:
            told = "a row could not be remapped"
            return Judgement("fail", told, "", evidence, "critical", REPLACE)
        if pending:
            return Judgement("fail", "a row waits to be remapped", "", evidence, "major", RESET)
        return Judgement("pass", f"{corrected + uncorrected} rows remapped, none waits or failed")

    return each_gpu(survey, "no row that waits or failed", one)


def clocks(survey: Survey) -> Judgement:
    """Only load, idleness and settings hold the clocks back; the top clock is the model's."""

    def one(gpu: Transcript) -> Judgement:
        row = model_of(survey, gpu)
        wanted = row.sm_clock_mhz if row else None
        top = gpu.values.get("sm_clock_max_mhz")
        if wanted and top and top < wanted:
            return Judgement("fail", f"top SM clock {top} MHz, {wanted} MHz is the model's")
        if why := gpu.why_not("throttle_reasons"):
            return not_measured(why)
        bits = gpu.values["throttle_reasons"]
        bad = [name for bit, name in HELD_BACK.items() if bits & bit]
        now = f"SM clock {gpu.values.get('sm_clock_mhz', 'unknown')} of {top or 'unknown'} MHz"
        if bad:
            return Judgement("fail", f"held back by {', '.join(bad)}", evidence=f"{bits:#x}, {now}")
        why = ", ".join(name for bit, name in NORMAL.items() if bits & bit)
        return Judgement("pass", f"not held back{f' ({why})' if why else ''}", evidence=now)

    return each_gpu(survey, "no thermal, power brake or hardware slowdown", one)


def _retired_pages(gpu: Transcript) -> Judgement:
    if gpu.not_supported("retired_pending"):
        return not_measured("this GPU remaps no rows and retires no pages")
    if why := gpu.why_not("retired_pending"):
        return not_measured(why)
    if gpu.values["retired_pending"]:
        return Judgement("fail", "a page waits to be retired", severity="major", next_step=RESET)
    return Judgement("pass", "no page waits to be retired")


def _number(gpu: Transcript, key: str) -> str:
    return str(gpu.values.get(key, "unknown"))
