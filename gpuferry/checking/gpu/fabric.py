"""The fabric manager of servers with NVSwitches."""

from __future__ import annotations

import re

from gpuferry.checking.gpu.judgement import Judgement, judge, not_measured
from gpuferry.checking.gpu.survey import Survey
from gpuferry.driver.facts import upstream
from gpuferry.driver.needs import needs_fabric_manager

WAIT = "bringing up all links takes minutes; then run: ./ferry check {server}"


def fabric_manager(survey: Survey) -> Judgement:
    """The service runs, in exactly the driver's version.

    Starting is no failure: on large boards it takes more than a quarter of an hour
    (aws/aws-parallelcluster#6571).
    """
    expected = "active, of the driver's version"
    if not needs_fabric_manager(survey.facts.pci):
        return not_measured("no NVSwitch on PCI", expected)
    if survey.simulated:
        return not_measured("simulated NVSwitches have no links to bring up", expected)
    unit = survey.fabric_manager
    state = unit.get("ActiveState", "unknown")
    packages = survey.facts.packages
    managers = [n for n in packages if re.match(r"nvidia-fabric-?manager(-\d+)?$", n)]
    version = upstream(packages[managers[0]].version) if managers else ""
    if unit.get("LoadState") == "not-found" or not managers:
        return judge(False, "not installed", expected)
    evidence = f"{unit.get('SubState')}, result {unit.get('Result')}"
    if state == "activating":
        return Judgement("not_measured", "starting", expected, evidence, next_step=WAIT)
    now = survey.facts.module.version
    told = f"{state}, {version}, driver {now}"
    return judge(state == "active" and version == now, told, expected, evidence)
