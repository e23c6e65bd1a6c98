"""The role base: name, system state, time, trust, people, locale."""

import hashlib
import ssl
import time

import pytest

from gpuferry.checking.accounts import account_problems
from gpuferry.checking.mark import check

LOOK_AT_UNITS = "look at `systemctl status UNIT` with ./ferry ssh {server}, then check again"
LARGEST_OFFSET_SECONDS = 2.0  # TLS and signed S3 requests break at minutes; logs mislead at seconds

TRUSTED = """
import hashlib, ssl
context = ssl.create_default_context(cafile="/etc/ssl/certs/ca-certificates.crt")
answer = [hashlib.sha256(der).hexdigest() for der in context.get_ca_certs(binary_form=True)]
"""
ACCOUNTS = """
import os, pwd, subprocess
answer = {}
for name in payload:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        continue
    path = os.path.join(entry.pw_dir, ".ssh/authorized_keys")
    keys = open(path).read().splitlines() if os.path.exists(path) else []
    rights = subprocess.run(["sudo", "-n", "-l", "-U", name], capture_output=True, text=True).stdout
    answer[name] = {"full_name": entry.pw_gecos.split(",")[0], "keys": keys, "rights": rights}
"""


@pytest.fixture(scope="module")
def readings(node):
    return node.read(
        hostname="hostname",
        # --wait: a server that is still booting is given the check's deadline to finish.
        state="systemctl is-system-running --wait",
        failed="systemctl list-units --failed --plain --no-legend",
        synchronised="timedatectl show --property=NTPSynchronized",
        timezone="readlink -f /etc/localtime",
        locale="cat /etc/default/locale",
    )


@check("base.hostname", severity="minor")
def test_hostname(readings, expectations, verdict):
    """The server goes by its declared name."""
    name = readings["hostname"].text
    verdict.judge(name == expectations.hostname, measured=name, expected=expectations.hostname)


@check("base.system_state", next_step=LOOK_AT_UNITS, deadline_seconds=60)
def test_system_state(readings, verdict):
    """systemd has started everything: running"""
    state = readings["state"].output.strip() or readings["state"].trouble
    units = ", ".join(line.split()[0] for line in readings["failed"].output.splitlines())
    evidence = f"failed units: {units or 'none'}"
    verdict.judge(state == "running", measured=state, expected="running", evidence=evidence)


@check("base.time_sync")
def test_time_sync(node, readings, expectations, verdict):
    """The clock is right and is kept right."""
    before = time.time()
    told = float(node.read(now="date +%s.%N")["now"].text)
    offset = told - (before + time.time()) / 2
    close = abs(offset) <= LARGEST_OFFSET_SECONDS
    measured, expected = f"{offset:+.2f} s from here", f"at most {LARGEST_OFFSET_SECONDS:.0f} s"
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
    trusted = node.python(TRUSTED, None)
    missing = [name for name, pem in declared.items() if _sha256(pem) not in trusted]
    verdict.judge(
        not missing,
        measured=f"not trusted: {', '.join(missing)}" if missing else "all trusted",
        expected=f"trusted: {', '.join(declared)}",
    )


def _sha256(pem):
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.strip())).hexdigest()


@check("base.users")
def test_users(node, expectations, verdict):
    """Declared people have an account, exactly their keys and no more rights than declared."""
    if not expectations.users:
        verdict.not_measured("no user is declared")
        return
    accounts = node.python(ACCOUNTS, [user.name for user in expectations.users])
    problems = account_problems(expectations.users, accounts)
    names = ", ".join(user.name for user in expectations.users)
    verdict.judge(not problems, measured="; ".join(problems) or "as declared", expected=names)


@check("base.locale_and_timezone", severity="minor")
def test_locale_and_timezone(readings, expectations, verdict):
    """Logs and programs do not depend on where the server stands."""
    zone = readings["timezone"].text.removeprefix("/usr/share/zoneinfo/")
    locale = readings["locale"].text or "no locale"
    expected = (expectations.timezone, "LANG=C.UTF-8")
    verdict.judge(
        (_canonical(zone), locale) == (_canonical(expected[0]), expected[1]),
        measured=f"{zone or 'no time zone'}, {locale}",
        expected=", ".join(expected),
    )


def _canonical(zone):
    return "UTC" if zone in ("Etc/UTC", "Etc/UCT", "UTC", "Etc/Zulu") else zone
