"""All roles of a GPU server together on Debian 12, as a stack file declares them.

What does not differ between the releases is tested on Debian 13; `--images` takes both.
"""

from __future__ import annotations

import pytest

from gpuferry import desired
from gpuferry.checking import run_checks
from gpuferry.spec import parse_spec
from tests.support.gpu_node import NEVER
from tests.support.node import Node, NodeMaker

DECLARED = {
    "gpuferry:servers": [
        {"name": "gpu-1", "image": "debian-12", "gpu": {"model": "L4", "count": 2}}
    ],
    "gpuferry:secrets": {"token": {"value": "of-no-use"}},
    "gpuferry:monitoring": {},
}
NOT_DECLARED = {"base.extra_ca_trusted", "base.users", "object_store.round_trip"}
# Its Docker is too old for it.
WITHOUT_CDI = {"container_toolkit.device"}


@pytest.fixture(scope="module")
def node(new_node: NodeMaker) -> Node:
    return new_node("debian-12", name="gpu-1", gpu_model="L4", gpu_count=2)


def test_all_roles_change_it_once(node: Node) -> None:
    spec, facts = declared(node)
    variables = desired.role_variables(spec, spec.servers[0], facts)
    roles = variables.pop("ferry_roles")
    assert roles == desired.GPU_ROLES
    assert node.changed(*roles, **variables) > 0
    assert node.changed(*roles, **variables) == 0


def test_every_check_passes_or_says_why_it_measured_nothing(node: Node) -> None:
    spec, facts = declared(node)
    user = node.server.user
    expected = desired.expectations(spec, spec.servers[0], user, "container", facts)
    verdicts = {v.id: v for v in run_checks([node.server], {"gpu-1": expected})}
    assert {name: v for name, v in verdicts.items() if v.status == "fail"} == {}
    unmeasured = {name for name, v in verdicts.items() if v.status == "not_measured"}
    assert unmeasured == NEVER | WITHOUT_CDI | NOT_DECLARED
    assert "has no CDI" in verdicts["container_toolkit.device"].measured


def declared(node: Node):
    spec = parse_spec(DECLARED, "Pulumi.x.yaml")
    networks = [node.network["subnet4"], node.network["subnet6"]]
    return spec, desired.StackFacts(management_networks=networks, scrape_token="of-the-agents")
