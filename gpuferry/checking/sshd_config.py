"""What sshd must do, compared with what `sshd -T` says it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rule:
    """One setting: what is accepted in words, and a function that returns what is wrong in it."""

    keyword: str
    accepted: str
    wrong_part: Callable[[str], str]
    optional: bool = False


def _is(keyword: str, *values: str, optional: bool = False) -> Rule:
    return Rule(keyword, " or ".join(values), lambda v: "" if v in values else v, optional)


def _at_most(keyword: str, limit: int) -> Rule:
    # 0 means "no limit" for these keywords, so it is not "at most" anything.
    def wrong_part(value: str) -> str:
        return "" if value.isdigit() and 1 <= int(value) <= limit else value

    return Rule(keyword, f"1 to {limit}", wrong_part)


def _without(keyword: str, *weak: str) -> Rule:
    def wrong_part(value: str) -> str:
        return ", ".join(name for name in value.split(",") if any(w in name for w in weak))

    return Rule(keyword, "none of these", wrong_part)


# Source: CIS Debian 12 and 13 benchmarks section 5.1, dev-sec ssh-baseline, ssh-audit's policies.
RULES: tuple[Rule, ...] = (
    _is("permitrootlogin", "no"),
    _is("passwordauthentication", "no"),
    _is("kbdinteractiveauthentication", "no"),
    _is("permitemptypasswords", "no"),
    _is("hostbasedauthentication", "no"),
    # Left out of builds without Kerberos.
    _is("gssapiauthentication", "no", optional=True),
    _is("pubkeyauthentication", "yes"),
    _is("permituserenvironment", "no"),
    _is("ignorerhosts", "yes"),
    _is("strictmodes", "yes"),
    _is("x11forwarding", "no"),
    _is("allowagentforwarding", "no"),
    _is("loglevel", "VERBOSE"),
    _is("gatewayports", "no"),
    _is("permittunnel", "no"),
    # CIS asks for 4; agents offer all their keys, and each of them counts as a try.
    _at_most("maxauthtries", 6),
    _at_most("logingracetime", 60),
    _without("ciphers", "cbc", "3des", "arcfour"),
    _without("macs", "md5", "hmac-sha1", "umac-64"),
    _without("kexalgorithms", "group1-", "group14-sha1", "exchange-sha1", "ecdh-sha2-nistp"),
)


def forwarding_rule(user: str, may_forward: Iterable[str]) -> Rule:
    """Local forwarding for those who are declared to need it, none for anybody else."""
    return _is("allowtcpforwarding", "local" if user in may_forward else "no")


def broken_lines(settings: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Lines of sshd's files that ask for something weaker than any rule accepts."""
    rules = {rule.keyword: rule for rule in (*RULES, _is("allowtcpforwarding", "no"))}
    return [
        s
        for s in settings
        if s["keyword"] in rules and rules[s["keyword"]].wrong_part(s["value"].lower())
    ]


def parse_effective(text: str) -> dict[str, str]:
    """Parse `sshd -T`; of a repeated keyword the first value counts (such as listenaddress)."""
    settings: dict[str, str] = {}
    for line in text.splitlines():
        keyword, _, value = line.strip().partition(" ")
        settings.setdefault(keyword.lower(), value)
    return settings


def deviations(settings: Mapping[str, str], rules: Iterable[Rule] = RULES) -> list[str]:
    """Return one text per rule that does not hold; a keyword that is not there does not hold."""
    found = []
    for rule in rules:
        value = settings.get(rule.keyword, "")
        wrong = rule.wrong_part(value) if value else "not told"
        if wrong and not (rule.optional and not value):
            found.append(f"{rule.keyword} {wrong} (want {rule.accepted})")
    return found
