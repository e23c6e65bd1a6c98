"""The role nvidia_driver: one version everywhere, and it answers."""

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
