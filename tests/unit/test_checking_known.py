"""A check that does not exist is refused before any server is asked."""

import pytest

from gpuferry.checking.known import known_checks, refuse_unknown
from gpuferry.checking.run import CHECKS_DIRECTORY
from gpuferry.errors import SpecError

KNOWN = known_checks(CHECKS_DIRECTORY)


def test_all_checks_are_known():
    assert {"gpu.count", "docker.daemon", "nvidia_cuda.runtime", "freeze.members"} <= set(KNOWN)
    assert len(KNOWN) == len(set(KNOWN))


@pytest.mark.parametrize("name", ["gpu", "gpu.count", "firewall", "nvidia_cuda.toolkit"])
def test_ids_and_concerns_are_accepted(name):
    refuse_unknown([name], KNOWN)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gpu.cuont", "gpu.count"),
        ("dokcer", "docker"),
        ("gpu.zzzzzzzz", "gpu.clocks"),
        ("zzzzzzzz", "Concerns: agent, base, container_toolkit"),
        ("gpu.", "gpu"),
        ("", "Concerns"),
    ],
)
def test_others_are_refused_with_what_comes_near(name, hint):
    with pytest.raises(SpecError, match=f"--only {name}: there is no such check") as caught:
        refuse_unknown([name], KNOWN)
    assert hint in str(caught.value)
    assert caught.value.exit_code == 2
