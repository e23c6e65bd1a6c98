"""The role nvidia_driver: one version everywhere, and it answers."""

from gpuferry.checking.gpu.modules import BUILD, module_for_kernels, nouveau, persistence
from gpuferry.checking.gpu.versions import UPGRADE, answers, versions
from gpuferry.checking.mark import check

HANGS = "see `./ferry ssh {server} -- sudo dmesg`; reboot {server} when no work runs"


@check("nvidia_driver.versions", severity="critical", next_step=UPGRADE, deadline_seconds=45)
def test_versions(survey, answer):
    """Module, library, nvidia-smi and fabric manager have one version."""
    answer(versions(survey))


@check("nvidia_driver.answers", severity="critical", next_step=HANGS, deadline_seconds=45)
def test_answers(survey, answer):
    """nvidia-smi ends in time with exit code 0."""
    answer(answers(survey))


@check(
    "nvidia_driver.module_for_kernels", severity="critical", next_step=BUILD, deadline_seconds=45
)
def test_module_for_kernels(survey, answer):
    """The running and the newest installed kernel have the module."""
    answer(module_for_kernels(survey))


@check("nvidia_driver.nouveau", deadline_seconds=45)
def test_nouveau(survey, answer):
    """nouveau is neither loaded nor bound."""
    answer(nouveau(survey))


@check("nvidia_driver.persistence", deadline_seconds=45)
def test_persistence(survey, answer):
    """Persistence mode is on."""
    answer(persistence(survey))
