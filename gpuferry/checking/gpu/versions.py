"""Whether all parts of the driver have one version, and whether it answers."""

from __future__ import annotations

import re

from gpuferry.checking.gpu.judgement import Judgement, judge, not_measured, number_of
from gpuferry.checking.gpu.survey import Survey
from gpuferry.checking.mark import CONVERGE
from gpuferry.driver.facts import upstream

REBOOT = "reboot {server} when no work runs: the installed driver is not the loaded one"
UPGRADE = "bring all parts to one version: ./ferry driver upgrade {server}"
_SAME = "one version of all parts"


def versions(survey: Survey) -> Judgement:
    """The loaded module, the library, nvidia-smi and the fabric manager are of one version.

    Where GPUs are simulated no module is loaded: the version that NVML reports is in its place.
    """
    parts = _parts(survey)
    mismatch = survey.nvml.system.why_not("count") if _is_mismatch(survey) else ""
    told = ", ".join(f"{name} {version or 'absent'}" for name, version in parts.items())
    distinct = set(parts.values())
    if mismatch or len(distinct - {""}) > 1:
        return Judgement(
            "fail", "; ".join(filter(None, [told, mismatch])), _SAME, next_step=_next_step(survey)
        )
    if distinct == {""}:
        return Judgement("fail", "no driver is installed", _SAME, next_step=CONVERGE)
    if survey.simulated and survey.nvml.system.hung:
        return not_measured(f"{told}; {survey.nvml.system.hung} does not return", _SAME)
    if "" in distinct:
        return Judgement("fail", told, _SAME, next_step=CONVERGE)
    return judge(True, told, _SAME)


def answers(survey: Survey) -> Judgement:
    """nvidia-smi ends in time with exit code 0, and no NVML function hangs.

    A printed table proves nothing: it also comes with exit codes other than 0
    (GoogleCloudPlatform/compute-gpu-installation#18).
    """
    smi = survey.smi
    expected = "nvidia-smi ends within 10 s with exit code 0, NVML answers"
    hanging = [f"GPU {i}: {gpu.hung}" for i, gpu in enumerate(survey.nvml.gpus) if gpu.hung]
    hanging += [survey.nvml.system.hung] if survey.nvml.system.hung else []
    pids = ", ".join(map(str, dict.fromkeys([*smi.stuck, *survey.nvml.stuck])))
    evidence = f"processes that nothing can end: {pids}" if pids else ""
    problems = [f"NVML does not return from {', '.join(hanging)}"] if hanging else []
    if smi.state == "hung":
        waited = f"did not end within {smi.seconds:.0f} s" if smi.seconds else "hangs since before"
        problems.insert(0, f"nvidia-smi {waited}")
    elif smi.state == "absent":
        problems.insert(0, "nvidia-smi is not installed")
    elif smi.code != 0:
        problems.insert(0, f"nvidia-smi: exit code {smi.code}: {_last_line(smi.out)}")
    if problems:
        return judge(False, "; ".join(problems), expected, evidence)
    return judge(True, f"nvidia-smi ended in {smi.seconds:.1f} s with exit code 0", expected)


def _parts(survey: Survey) -> dict[str, str]:
    facts = survey.facts
    reported = str(survey.nvml.system.values.get("driver_version", ""))
    first = {"NVML reports": reported} if survey.simulated else {"module": facts.module.version}
    parts = {**first, "library": facts.library.version}
    smi = _smi_version(survey)
    if smi or survey.smi.state == "absent":
        parts["nvidia-smi"] = smi
    managers = [n for n in facts.packages if re.match(r"nvidia-fabric-?manager(-\d+)?$", n)]
    return parts | {name: upstream(facts.packages[name].version) for name in managers}


def _smi_version(survey: Survey) -> str:
    """From its table, else from its package."""
    if found := re.search(r"NVIDIA-SMI (\d{3}\.\d+(?:\.\d+)?)", survey.smi.out):
        return found.group(1)
    package = survey.facts.packages.get("nvidia-smi")
    return upstream(package.version) if package else ""


def _is_mismatch(survey: Survey) -> bool:
    return survey.nvml.system.errors.get("start", ("", 0))[1] == 18


def _next_step(survey: Survey) -> str:
    facts = survey.facts
    waiting = facts.module.version != facts.module.disk_version == facts.library.version
    return REBOOT if waiting or (survey.simulated and _is_mismatch(survey)) else UPGRADE


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip("| +-=\t")]
    return lines[-1][:160] if lines else "no output"


def container_versions(survey: Survey) -> Judgement:
    """Running containers use the driver of now: they keep the files of their start.

    An upgrade was not seen inside running containers until they were made anew
    (badbread/crumbvms#395).
    """
    expected = "no container with another driver version mounted"
    docker = survey.docker
    if docker.state != "ok":
        return not_measured(f"docker ps: {docker.state}", expected)
    if not docker.containers:
        return not_measured("no container with GPUs runs", expected)
    now = next(iter(_parts(survey).values()))
    stale = {name: v for name, v in docker.containers.items() if v and v != [now]}
    blind = [name for name, found in docker.containers.items() if not found]
    if stale:
        told = "; ".join(f"{name} uses {', '.join(found)}" for name, found in stale.items())
        return Judgement(
            "fail", f"{told}, the driver is {now}", expected,
            next_step=f"make these containers anew when their work allows it: {', '.join(stale)}",
        )  # fmt: skip
    if blind:
        return not_measured(f"no driver file is mounted in {', '.join(blind)}", expected)
    return judge(True, f"{now} in {number_of(len(docker.containers), 'container')}", expected)
