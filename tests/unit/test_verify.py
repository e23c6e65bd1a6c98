"""What a deployment says about a server whose checks failed."""

from __future__ import annotations

from gpuferry.verdict import Verdict
from gpuferry.verify import failure


def test_a_failed_check_comes_with_its_evidence_and_what_to_do() -> None:
    verdicts = [
        Verdict(id="a", server="gpu-1", status="pass", measured="1", expected="1"),
        Verdict(
            id="server.reachable",
            server="gpu-1",
            status="fail",
            measured="not reached",
            expected="login with the pinned host key",
            evidence="no answer; the machine is off",
            next_step="cure the reason given",
        ),
        Verdict(id="b", server="gpu-1", status="fail", measured="1", expected="2"),
    ]
    assert failure("gpu-1", verdicts) == (
        "gpu-1: 2 of 3 checks failed.\n"
        "server.reachable: measured not reached (no answer; the machine is off), expected login "
        "with the pinned host key. Next: cure the reason given\n"
        "b: measured 1, expected 2"
    )
