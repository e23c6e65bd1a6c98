"""Whether the GPUs compute: only where one is real and idle."""

from __future__ import annotations

from gpuferry.checking.gpu.judgement import Judgement, judge, not_measured, number_of
from gpuferry.checking.gpu.survey import SECONDS, Survey, parsed

_EXPECTED = "every GPU fills memory, and the pattern comes back"


def compute(survey: Survey) -> Judgement:
    """What the driver's own library did on every GPU (on_server/compute.py)."""
    run = survey.compute
    if survey.simulated:
        return not_measured("a simulated GPU computes nothing", _EXPECTED)
    if survey.no_nvml:
        return not_measured(survey.no_nvml, _EXPECTED)
    busy = [i for i, gpu in enumerate(survey.nvml.gpus) if gpu.values.get("processes") != []]
    if run is None:
        names = ", ".join(map(str, busy))
        return not_measured(f"GPU {names} in use or not known to be idle: left alone", _EXPECTED)
    if run.state == "hung":
        return judge(False, f"did not end within {SECONDS['compute']} s", _EXPECTED)
    answer = parsed(run)
    if answer is None:
        return judge(False, f"the process ended with exit code {run.code}", _EXPECTED)
    gpus, count = answer["gpus"], len(survey.nvml.gpus)
    told = f"{len(gpus)} of {number_of(count, 'GPU')} computed"
    ok = not answer["trouble"] and len(gpus) == count
    return judge(ok, "; ".join(filter(None, [told, answer["trouble"]])), _EXPECTED, ", ".join(gpus))
