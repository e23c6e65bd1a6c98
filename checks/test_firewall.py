"""The role firewall: what is declared is open, everything else is closed, seen from both sides."""

import pytest

from gpuferry.checking.exposure import differences, expected_openings
from gpuferry.checking.mark import check
from gpuferry.checking.nft import parse_ruleset
from gpuferry.checking.sockets import reachable_listeners

CLOSE = (
    "rules that somebody changed: ./ferry converge {server}; a port that shall be open: declare it "
    "in open_ports, then ./ferry up; else stop the service"
)


@pytest.fixture(scope="module")
def readings(firewall_readings):
    return firewall_readings


@pytest.fixture(scope="module")
def ruleset(readings):
    return parse_ruleset(readings["table"].text)


@check("firewall.policy", severity="critical")
def test_policy(ruleset, readings, verdict):
    """What no rule allows is dropped."""
    policy = ruleset.input_policy or "no input chain in table inet gpuferry"
    trouble = readings["table"].trouble if readings["table"].exit_code else ""
    verdict.judge(policy == "drop", measured=policy, expected="drop", evidence=trouble)


@check("firewall.allowed_set", severity="critical")
def test_allowed_set(ruleset, expectations, verdict):
    """The rules let in exactly what is declared."""
    wanted = expected_openings(expectations)
    problems = differences(wanted, ruleset.openings)
    problems += [f"not understood: {rule}" for rule in ruleset.unexplained]
    expected = "; ".join(map(str, sorted(wanted)))
    verdict.judge(not problems, measured="; ".join(problems) or "as declared", expected=expected)


@check("firewall.published_ports", severity="critical")
def test_published_ports(ruleset, expectations, verdict):
    """Ports that containers publish are filtered too; Docker bypasses all input rules."""
    if "docker" not in expectations.roles:
        verdict.not_measured("this server runs no containers")
        return
    wanted = expected_openings(expectations, ssh=False)
    unguarded = ["published ports are not filtered"] if ruleset.published is None else []
    problems = unguarded or differences(wanted, ruleset.published)
    expected = "; ".join(map(str, sorted(wanted))) or "none reachable"
    verdict.judge(not problems, measured="; ".join(problems) or "as declared", expected=expected)


@check("firewall.unit")
def test_unit(readings, verdict):
    """The rules come back after a restart."""
    properties = readings["unit"].properties
    state = [properties.get(name) or "absent" for name in ("ActiveState", "UnitFileState")]
    verdict.judge(
        state == ["active", "enabled"], measured=", ".join(state), expected="active, enabled"
    )


@check("firewall.listeners", severity="critical", next_step=CLOSE)
def test_listeners(ruleset, readings, expectations, verdict):
    """Nothing that listens for the world is reachable without being declared."""
    declared = {(o.protocol, o.port) for o in expected_openings(expectations)}
    open_to = {(o.protocol, o.port) for o in ruleset.openings}
    listeners = reachable_listeners(readings["sockets"].output)
    others = [x for x in listeners if (x.protocol, x.port) not in declared]
    filtered = ruleset.input_policy == "drop" and not ruleset.unexplained
    exposed = [x for x in others if not filtered or (x.protocol, x.port) in open_to]
    blocked = ", ".join(str(x) for x in others if x not in exposed)
    verdict.judge(
        bool(listeners) and not exposed,
        measured=", ".join(map(str, exposed)) or f"{len(listeners)} sockets, none exposed",
        expected="no undeclared socket within reach",
        evidence=f"listens everywhere, but the firewall blocks it: {blocked}" if blocked else "",
    )


@check("firewall.from_outside", severity="critical", next_step=CLOSE)
def test_from_outside(outside, verdict):
    """From here, declared ports let a packet through and all others stay silent."""
    measured = "; ".join(outside.problems) or "as declared"
    expected = "declared ports pass, others stay silent"
    verdict.judge(
        not outside.problems, measured=measured, expected=expected, evidence=outside.evidence
    )
