"""dev-sec's controls for an SSH server, judged by what sshd says of itself and by its files. Pure.

The controls are data (`ssh_controls.yaml`); where dev-sec demands one exact list of algorithms,
ssh-audit's hardened policy is taken in its place, which is newer: what counts here is that none is
weak.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_DATA = Path(__file__).with_suffix(".yaml")
_WEAK = {
    "ciphers": ("cbc", "3des", "arcfour", "blowfish"),
    "macs": ("md5", "hmac-sha1", "umac-64", "ripemd"),
    "kex": ("group1-", "group14-sha1", "exchange-sha1", "ecdh-sha2-nistp"),
}
_OURS = ("/etc/ssh/ssh_host_ed25519_key", "/etc/ssh/gpuferry_host_rsa_4096_key")


@dataclass(frozen=True)
class Known:
    """What the controls are judged by; `settings` are those of somebody who may not forward."""

    settings: Mapping[str, str]
    host_keys: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    wanted_port: str = "22"
    folder: str = ""
    main_file: str = ""
    smallest_modulus: int = 0
    rsa_bits: int = 0
    command_lines: tuple[str, ...] = ()
    banner: str = ""


@dataclass(frozen=True)
class Outcome:
    """One control: whether it holds, or the reason why it is waived."""

    id: str
    title: str
    holds: bool
    said: str
    waiver: str = ""


@cache
def controls() -> list[dict[str, Any]]:
    """The controls, in dev-sec's order."""
    return list(yaml.safe_load(_DATA.read_text(encoding="utf-8")))


def judge(known: Known) -> list[Outcome]:
    """Every control once; a waived one that holds all the same counts as held."""
    found = []
    for control in controls():
        wrong = _wrong(control, known)
        waiver = control.get("waiver", "") if wrong else ""
        found.append(Outcome(control["id"], control["title"], not wrong, wrong, waiver))
    return found


def summary(outcomes: list[Outcome]) -> str:
    """`44/49, 4 waived, 1 failed`."""
    held = sum(o.holds for o in outcomes)
    waived = sum(bool(o.waiver) for o in outcomes)
    failed = len(outcomes) - held - waived
    return f"{held}/{len(outcomes)}, {waived} waived" + (f", {failed} failed" if failed else "")


def _wrong(control: Mapping[str, Any], known: Known) -> str:
    """What is wrong in words, empty when the control holds."""
    if "absent" in control:
        value = known.settings.get(control["absent"], "")
        return f"{control['absent']} {value}" if value else ""
    if "special" in control:
        return _SPECIAL[control["special"]](known)
    value = known.settings.get(control["keyword"], "not told")
    return "" if value in control["accepted"] else f"{control['keyword']} {value}"


def _algorithms(keyword: str, weak: str) -> Callable[[Known], str]:
    def wrong(known: Known) -> str:
        value = known.settings.get(keyword, "")
        bad = [name for name in value.split(",") if any(part in name for part in _WEAK[weak])]
        return ", ".join(bad) if value else f"{keyword} not told"

    return wrong


def _moduli(known: Known) -> str:
    small = 0 < known.smallest_modulus < 2047
    return f"a group of {known.smallest_modulus + 1} bits" if small else ""


def _host_keys(known: Known) -> str:
    others = [path for path in known.host_keys if path not in _OURS]
    return f"serves {', '.join(others or known.host_keys or ('none',))}" if (
        others or _OURS[0] not in known.host_keys
    ) else ""  # fmt: skip


def _command_line(known: Known) -> str:
    overruled = [c for c in known.command_lines if " -o" in c]
    return "; ".join(overruled) or ("" if known.command_lines else "no sshd runs")


def _rsa(known: Known) -> str:
    return f"{known.rsa_bits} bits" if 0 < known.rsa_bits < 4096 else ""


_SPECIAL: dict[str, Callable[[Known], str]] = {
    "ciphers": _algorithms("ciphers", "ciphers"),
    "kex": _algorithms("kexalgorithms", "kex"),
    "macs": _algorithms("macs", "macs"),
    "folder": lambda k: "" if k.folder == "0 0 755" else f"/etc/ssh is {k.folder}",
    "main_file": lambda k: "" if k.main_file == "0 0 600" else f"sshd_config is {k.main_file}",
    "port": lambda k: "" if k.ports == (k.wanted_port,) else f"port {', '.join(k.ports)}",
    "present": lambda k: "" if k.settings.get("listenaddress") else "no listen address",
    "host_keys": _host_keys,
    "forwarding": lambda k: (
        ""
        if k.settings.get("allowtcpforwarding") == "no"
        else f"allowtcpforwarding {k.settings.get('allowtcpforwarding', 'not told')}"
    ),
    "banner_version": lambda k: "" if k.banner and "deb" not in k.banner.lower() else k.banner,
    "moduli": _moduli,
    "command_line": _command_line,
    "rsa_size": _rsa,
}
