"""What takes a minute and `ferry check --security` asks for: the server as a stranger meets it."""

import json

import pytest

from gpuferry import exposure
from gpuferry.checking import lynis, scan, ssh_audit, volumes
from gpuferry.checking.accounts import judge_logins, read_logins
from gpuferry.checking.leaks.judge import judge
from gpuferry.checking.mark import check
from gpuferry.checking.nft import other_filters

CLOSE = (
    "rules that somebody changed: ./ferry converge {server}; a port that shall be open: declare it "
    "in open_ports, then ./ferry up; else stop the service"
)
STRANGERS = (
    "declare them in users, then ./ferry up; or remove their ~/.ssh/authorized_keys, "
    "then check again"
)
TAKE_OUT = (
    "replace the secret where it came from, then hand it over as a file: ./ferry secret set NAME, "
    "and mount /run/gpuferry/secrets/NAME"
)
LYNIS = "read what it suggests (evidence), and mend what is new"


@check("security.ssh_audit", severity="critical", deadline_seconds=60)
def test_ssh_audit(audit, expectations, verdict):
    """ssh-audit's hardened policy for the distribution holds."""
    name, answer = audit
    if not name:
        verdict.not_measured("ssh-audit has no hardened policy for this distribution")
        return
    judged = ssh_audit.judge(answer[1], answer[0], expectations.ssh.key_exchange)
    verdict.judge(judged.ok, measured=judged.measured, expected=name, evidence=judged.evidence)


@check("security.accounts", severity="critical", next_step=STRANGERS)
def test_accounts(node, expectations, verdict):
    """Keys open the accounts that are declared, and no others."""
    declared = [user.name for user in expectations.users]
    verdict.answers.append(judge_logins(expectations.user, declared, read_logins(node)))


@check("security.exposure", severity="critical", next_step=CLOSE, deadline_seconds=200)
def test_exposure(scanned, expectations, verdict):
    """All TCP ports, both families, and the usual UDP ports are as declared, no more, no less."""
    if isinstance(scanned, str):
        verdict.not_measured(scanned, expected="nmap sees exactly what is declared")
        return
    scans, chains = scanned
    ports = [port.model_dump(by_alias=True) for port in expectations.open_ports]
    world = list(exposure.ANYWHERE.values())
    rows = exposure.table(expectations.ssh_port, expectations.ssh_from or world, ports)
    found = scan.compare(rows, scans)
    said = [f"from {s.source}: all TCP ports of {s.address}" for s in scans]
    said += (
        [f"the {scan.TOP_UDP} usual UDP ports"] if scans[0].udp else ["UDP not scanned: not root"]
    )
    said += [] if len(scans) > 1 else ["IPv6 not scanned: no address or no route from here"]
    said += [f"declared, nobody listens yet: {', '.join(found.unserved)}"] if found.unserved else []
    said += [f"declared, but UDP is silent: {', '.join(found.unknown)}"] if found.unknown else []
    others = other_filters(chains)
    said += [f"others filter, too: {', '.join(others)}"] if others and found.problems else []
    count = sum(len(s.ports) for s in scans)
    verdict.judge(
        not found.problems,
        measured="; ".join(found.problems) or f"{count} ports answer, all of them declared",
        expected="equal to the declared table",
        evidence="; ".join(said),
    )


@check("security.lynis", severity="major", next_step=LYNIS, deadline_seconds=lynis.SECONDS + 20)
def test_lynis(lynis_report, verdict):
    """Lynis' hardening index is not below what it once was."""
    if isinstance(lynis_report, str):
        verdict.not_measured(lynis_report, expected="at least the floor of the system")
        return
    system, kind, report = lynis_report
    floor, index = lynis.floor(system, kind), int(report["hardening_index"])
    tests = sorted({*report["warning"], *report["suggestion"]})
    evidence = (
        f"Lynis {report['lynis_version']}; warnings: {', '.join(report['warning']) or 'none'}"
    )
    evidence += f"; suggestions: {', '.join(tests)}"
    if floor is None:
        verdict.not_measured(f"index {index}, but nobody has set a floor for {system} ({kind})")
        return
    verdict.judge(index >= floor, measured=str(index), expected=f">= {floor}", evidence=evidence)


@check("security.secrets", severity="critical", next_step=TAKE_OUT, deadline_seconds=120)
def test_secrets(leaks, verdict):
    """No secret can be read inside containers, images, units or process lists."""
    verdict.answers.append(judge(leaks))


@check("security.encryption_at_rest", severity="critical")
def test_encryption_at_rest(node, expectations, verdict):
    """What is declared to be encrypted at rest is; the rest is named."""
    if not expectations.volumes:
        verdict.not_measured("no encrypted volume is declared, so all disks and buckets are clear")
        return
    told = node.read(said=volumes.VERIFY)["said"]
    verdict.answers.append(volumes.judge(expectations.volumes, json.loads(told.output)))


@pytest.fixture
def stores(expectations):
    return expectations.object_stores


@check("security.bucket_encryption", severity="critical", deadline_seconds=60)
def test_bucket_encryption(node, stores, verdict):
    """Stores that must encrypt at rest say that they did; what is in clear is named."""
    if not stores:
        verdict.not_measured("no object store is declared")
        return
    from gpuferry.checking.object_store import StoreTrouble, encryption_at_rest, judge_encryption

    try:
        told = {store.name: encryption_at_rest(node, store) for store in stores}
    except StoreTrouble as trouble:
        verdict.judge(False, measured=str(trouble), expected="the store's own answer")
        return
    required = [store.name for store in stores if store.server_side_encryption]
    verdict.answers.append(judge_encryption(told, required))


@check("security.encryption_in_transit", severity="critical")
def test_encryption_in_transit(stores, verdict):
    """Object stores are only spoken to over TLS."""
    if not stores:
        verdict.not_measured("no object store is declared; all else goes over SSH")
        return
    plain = [store.endpoint for store in stores if not store.endpoint.startswith("https://")]
    verdict.judge(
        not plain,
        measured=f"without TLS: {', '.join(plain)}" if plain else f"{len(stores)} stores over TLS",
        expected="https",
        evidence="that the certificate is verified is object_store's own check",
    )
