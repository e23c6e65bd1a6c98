"""The role encryption: what is declared to be encrypted is."""

import json

import pytest

from gpuferry.checking import volumes
from gpuferry.checking.mark import check


@pytest.fixture(scope="module")
def told(node):
    return node.read(said=volumes.VERIFY)["said"]


@check("encryption.volumes", severity="critical")
def test_volumes(told, expectations, verdict):
    """Every declared volume is mounted, and its cipher is at work."""
    if told.exit_code != 0:
        verdict.judge(False, measured=told.trouble, expected="the server's own answer")
        return
    verdict.answers.append(volumes.judge(expectations.volumes, json.loads(told.output)))
