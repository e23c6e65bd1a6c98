"""The role secrets: what was delivered is there, in memory, for whom it is meant."""

import json

from gpuferry.checking.mark import check

PROGRAM = "/usr/local/lib/gpuferry/secrets.py"


@check("secrets.delivered", severity="critical", applies=lambda expected: bool(expected.secrets))
def test_delivered(node, expectations, verdict):
    """Every declared secret is a file in memory, as delivered, and no other is there."""
    told = node.read(said=f"python3 -I -B {PROGRAM} verify")["said"]
    if told.exit_code != 0:
        verdict.judge(False, measured=told.trouble, expected="the server's own answer")
        return
    said = json.loads(told.output)
    wanted = {secret.name: f"ok, user {secret.uid}" for secret in expectations.secrets}
    wrong = [
        f"{name}: {said['secrets'].get(name, 'missing')}"
        for name in sorted({*wanted, *said["secrets"]})
        if said["secrets"].get(name) != wanted.get(name)
    ]
    wrong += [] if said["memory"] else ["/run is not in memory"]
    verdict.judge(
        not wrong,
        measured="; ".join(wrong) or f"{len(wanted)} as delivered",
        expected="mode 0400 in memory, and an encrypted copy for the next boot",
        evidence=", ".join(wanted),
    )
