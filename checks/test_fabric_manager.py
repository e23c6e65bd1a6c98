"""The role fabric_manager: NVSwitches are managed, by the driver's own version."""

from gpuferry.checking.gpu.fabric import fabric_manager
from gpuferry.checking.mark import check


@check("fabric_manager.running", severity="critical", deadline_seconds=45)
def test_running(survey, answer):
    """Where there are NVSwitches the service runs, in the driver's version."""
    answer(fabric_manager(survey))
