"""The role base: name, system state, time, trust, people, locale."""

import pytest

from gpuferry.checking.accounts import account_problems, read_accounts
from gpuferry.checking.clock import LARGEST_OFFSET_SECONDS, offset
from gpuferry.checking.mark import check
from gpuferry.checking.system_state import SHOW_FAILED, judge_state
from gpuferry.checking.trust import untrusted

# NVIDIA's display controllers; a container sees its host's, which are not its own.
GPUS = """
root=/var/lib/gpusim/root
if ! test -d $root; then systemd-detect-virt -qc && exit; root=; fi
cd $root/sys/bus/pci/devices && grep -l ^0x10de */vendor | while read -r found; do
    grep -l ^0x03 "${found%vendor}class"
done
"""
LOOK_AT_UNITS = (
    "look at `systemctl status UNIT` with ./ferry ssh {server}; once mended, `sudo systemctl "
    "reset-failed UNIT`, then check again"
)


@pytest.fixture(scope="module")
def readings(node):
    return node.read(
        hostname="hostname",
        # --wait: a server that is still booting is given the check's deadline to finish.
        state="systemctl is-system-running --wait",
        failed=SHOW_FAILED,
        synchronised="timedatectl show --property=NTPSynchronized",
        timezone="readlink /etc/localtime",
        locale="cat /etc/default/locale",
        gpus=GPUS,
    )


@check("base.hostname", severity="minor")
def test_hostname(readings, expectations, verdict):
    """The server goes by its declared name."""
    name = readings["hostname"].text
    verdict.judge(name == expectations.hostname, measured=name, expected=expectations.hostname)


@check("base.system_state", next_step=LOOK_AT_UNITS, deadline_seconds=60)
def test_system_state(readings, verdict):
    """systemd has started everything: running"""
    good, measured, evidence = judge_state(readings["state"], readings["failed"])
    verdict.judge(good, measured=measured, expected="running", evidence=evidence)


@check("base.time_sync")
def test_time_sync(node, readings, expectations, verdict):
    """The clock is right and is kept right."""
    found = offset(node)
    measured, expected = str(found), f"at most {LARGEST_OFFSET_SECONDS:.0f} s"
    if found.close is None:
        verdict.not_measured(f"the server answers too slowly to tell: {measured}")
        return
    close = bool(found.close)
    if expectations.kind == "container":
        evidence = "a container shares its host's clock and keeps no time of its own"
        verdict.judge(close, measured=measured, expected=expected, evidence=evidence)
        return
    synchronised = readings["synchronised"].properties.get("NTPSynchronized", "unknown")
    verdict.judge(
        close and synchronised == "yes",
        measured=f"{measured}, synchronised: {synchronised}",
        expected=f"{expected}, synchronised: yes",
    )


@check("base.extra_ca_trusted")
def test_extra_ca_trusted(node, expectations, verdict):
    """The declared certificate authorities are in the trust store."""
    declared = {ca.name: ca.pem for ca in expectations.extra_ca_certificates}
    declared |= {f"object store {s.name}": s.ca_pem for s in expectations.object_stores if s.ca_pem}
    if not declared:
        verdict.not_measured("no certificate authority is declared")
        return
    missing = untrusted(node, declared)
    verdict.judge(
        not missing,
        measured=f"not trusted: {', '.join(missing)}" if missing else "all trusted",
        expected=f"trusted: {', '.join(declared)}",
    )


@check("base.users")
def test_users(node, expectations, verdict):
    """Declared people have an account, exactly their keys and no more rights than declared."""
    if not expectations.users:
        verdict.not_measured("no user is declared")
        return
    accounts = read_accounts(node, expectations.users)
    problems = account_problems(expectations.users, accounts)
    names = ", ".join(user.name for user in expectations.users)
    verdict.judge(not problems, measured="; ".join(problems) or "as declared", expected=names)


@check("base.locale_and_timezone", severity="minor")
def test_locale_and_timezone(readings, expectations, verdict):
    """Logs and programs do not depend on where the server stands."""
    zone = readings["timezone"].text.removeprefix("/usr/share/zoneinfo/") or "no time zone"
    measured = f"{zone}, {readings['locale'].text or 'no locale'}"
    expected = f"{expectations.timezone}, LANG=C.UTF-8"
    verdict.judge(measured == expected, measured=measured, expected=expected)


@check("base.gpus_declared")
def test_gpus_declared(readings, expectations, verdict):
    """A GPU that nobody declared gets no driver, and no check of its own."""
    found = len(readings["gpus"].output.split())
    declared = expectations.gpu.count if expectations.gpu else 0
    if found and not declared:
        verdict.not_measured(
            f"{found} NVIDIA GPU(s) on PCI, none declared: nothing is installed or checked for "
            "them; declare servers[].gpu, then run: ./ferry up"
        )
        return
    verdict.judge(
        True, measured=f"{found} on PCI, {declared} declared", expected="none that is undeclared"
    )
