"""What a stack declares about alerts: who watches, whom it calls, and what it calls an alert."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from gpuferry.spec.fields import SecretName, ServerName
from gpuferry.spec.strict import Strict

if TYPE_CHECKING:
    from gpuferry.spec.model import ServerSpec

# The token by which agents let Prometheus in; `up` makes it, so nobody else may take its name.
SCRAPE_TOKEN = "gpuferry-scrape-token"  # noqa: S105 -- a name
# As Prometheus reads them: the larger unit first, each once. Its sum is held in 64 bits of ns.
_DURATION = re.compile(
    r"(?=.)([0-9]{1,5}d)?([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?([0-9]{1,5}ms)?"
)


def _url(text: str) -> str:
    # Never repeated: it may hold a token.
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    del port
    if parts.scheme not in ("http", "https") or not host or any(c.isspace() for c in text):
        raise ValueError("that is no web address; accepted: http://… or https://… with a host")
    if parts.username or parts.password:
        raise ValueError(
            "that web address holds a name or a password; keep it with ./ferry secret set NAME, "
            "and write url_secret: NAME"
        )
    return text


def _host_and_port(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is no mail server; accepted: such as 'mail.example.org:587'")
    return text


def _duration(text: str) -> str:
    if not _DURATION.fullmatch(text):
        raise ValueError(
            f"{text!r} is no duration; accepted: numbers with d, h, m, s or ms, the larger first, "
            "such as 90s or 1h30m"
        )
    return text


def is_private(address: str) -> bool:
    """Whether an address is one of a private network (RFC 1918, RFC 4193) or loopback."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    private = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
    return found.is_loopback or any(
        found in network for network in map(ipaddress.ip_network, private)
    )


WebAddress = Annotated[str, AfterValidator(_url)]
Mail = Annotated[str, StringConstraints(pattern=r"^[^@\s,]+@[^@\s,]+$")]
Duration = Annotated[str, AfterValidator(_duration)]


class WebhookReceiver(Strict):
    """A program that takes Alertmanager's JSON."""

    url: WebAddress | None = Field(default=None, description="where to; may be read by everybody")
    url_secret: SecretName | None = Field(
        default=None, description="or the secret that holds the address, where it is one"
    )
    token_secret: SecretName | None = Field(
        default=None, description="secret with the bearer token, where one is needed"
    )

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        if (self.url is None) == (self.url_secret is None):
            raise ValueError("give exactly one of url and url_secret")
        if self.url and self.token_secret:
            parts = urlsplit(self.url)
            if parts.scheme == "http" and not is_private(parts.hostname or ""):
                raise ValueError(
                    "token_secret would cross the network in clear; use https, or a private address"
                )
        return self


class EmailReceiver(Strict):
    """Mail, always encrypted on its way to the mail server (STARTTLS)."""

    to: list[Mail] = Field(min_length=1, description="addresses")
    from_: Mail = Field(alias="from", description="the sender's address")
    smarthost: Annotated[str, AfterValidator(_host_and_port)] = Field(
        description="mail server with its port, such as mail.example.org:587"
    )
    username: str | None = Field(default=None, description="at the mail server, if it needs one")
    password_secret: SecretName | None = Field(default=None, description="secret with its password")

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.username is None) != (self.password_secret is None):
            raise ValueError("give both username and password_secret, or neither")
        return self


class TelegramReceiver(Strict):
    """A bot of Telegram."""

    chat_id: int = Field(description="number of the chat")
    token_secret: SecretName = Field(description="secret with the bot's token")


class SlackReceiver(Strict):
    """An incoming webhook of Slack."""

    url_secret: SecretName = Field(description="secret with the webhook's address")
    channel: str | None = Field(default=None, description="instead of the webhook's own")


class Receivers(Strict):
    """Who is told; each may be left out. Without any, alerts are only there to be looked at."""

    webhook: WebhookReceiver | None = None
    email: EmailReceiver | None = None
    telegram: TelegramReceiver | None = None
    slack: SlackReceiver | None = None


class AlertChange(Strict):
    """Another opinion about one alert."""

    for_: Duration | None = Field(
        default=None, alias="for", description="how long it must last, such as 10m"
    )
    keep_firing_for: Duration | None = Field(
        default=None, description="how long it must be over, such as 5m"
    )
    disabled: bool = Field(default=False, description="never")


class MonitoringSpec(Strict):
    """Alerts. The section being there, even as {}, turns them on."""

    server: ServerName | None = Field(
        default=None, description="where Prometheus and Alertmanager run; left out: the first one"
    )
    watch: list[ServerName] | None = Field(
        default=None, description="servers to watch; left out: all that declare GPUs"
    )
    receivers: Receivers = Field(default_factory=Receivers)
    dead_man: WebhookReceiver | None = Field(
        default=None,
        description="a service outside that calls when nothing comes any more; gets the alert "
        "Watchdog every minute",
    )
    alerts: dict[str, AlertChange] = Field(
        default_factory=dict, description="by name of the alert, see docs/monitoring.md"
    )
    retention_days: int = Field(default=15, ge=1, le=365, description="how long readings are kept")
    retention_gib: int = Field(
        default=2, ge=1, le=1024, description="and how much of the disk they may take"
    )


def secret_names(monitoring: MonitoringSpec) -> dict[str, str]:
    """Secrets that Alertmanager reads: the path of the key that names it, and the name."""
    found: dict[str, str] = {}
    receivers = {
        f"receivers.{name}": value for name, value in monitoring.receivers if value is not None
    }
    if monitoring.dead_man:
        receivers["dead_man"] = monitoring.dead_man
    for where, receiver in receivers.items():
        for key in ("url_secret", "token_secret", "password_secret"):
            if name := getattr(receiver, key, None):
                found[f"{where}.{key}"] = name
    return found


def refuse_misfits(
    monitoring: MonitoringSpec | None,
    servers: Sequence[ServerSpec],
    secrets: Mapping[str, Any],
    *,
    secrets_may_come: bool,
) -> None:
    """Refuse what does not fit the rest of the stack.

    Raises:
        ValueError: with the key's path and what would be accepted.
    """
    if monitoring is None:
        return
    known = {server.name: server for server in servers}
    if SCRAPE_TOKEN in secrets:
        raise ValueError(f"secrets.{SCRAPE_TOKEN}: that name is taken; choose another")
    for name in [monitoring.server, *(monitoring.watch or [])]:
        if name is not None and name not in known:
            key = "server" if name == monitoring.server else "watch"
            raise ValueError(
                f"monitoring.{key}: there is no server {name!r}; declared: {', '.join(known)}"
            )
    own = monitoring.server or servers[0].name
    _refuse_public(own, _watched(monitoring, known), known)
    _refuse_missing_secrets(monitoring, own, secrets, secrets_may_come)
    _refuse_unknown_alerts(monitoring)


def _watched(monitoring: MonitoringSpec, known: Mapping[str, ServerSpec]) -> list[str]:
    for name in monitoring.watch or []:
        if known[name].gpu is None:
            raise ValueError(f"monitoring.watch: {name} declares no gpu, so it has no agent")
    every = [server.name for server in known.values() if server.gpu]
    watched = every if monitoring.watch is None else monitoring.watch
    if not watched:
        raise ValueError(
            "monitoring: there is nothing to watch, since no server declares a gpu; leave it out"
            if not every
            else "monitoring.watch: names nobody; name servers, or leave it out to watch all"
        )
    return watched


def _refuse_missing_secrets(
    monitoring: MonitoringSpec, own: str, secrets: Mapping[str, Any], may_come: bool
) -> None:
    for where, name in secret_names(monitoring).items():
        if may_come and name not in secrets:
            continue
        if name not in secrets:
            raise ValueError(
                f"monitoring.{where}: there is no secret {name!r}; keep it with "
                f"./ferry secret set {name} --server {own}"
            )
        if not secrets[name].is_for(own):
            raise ValueError(
                f"monitoring.{where}: the secret {name!r} does not reach {own}, where Alertmanager "
                f"runs; add it to secrets.{name}.servers"
            )


def _refuse_public(own: str, watched: Sequence[str], known: Mapping[str, ServerSpec]) -> None:
    """Readings and their token cross private networks only, since they are not encrypted."""
    others = [name for name in watched if name != own]
    for name in dict.fromkeys([*others, *([own] if others else [])]):
        ssh = known[name].ssh
        if ssh and not is_private(ssh.address):
            here = [own] if own in watched else []
            raise ValueError(
                f"monitoring: {name} is reached at {ssh.address}, which is no private address, so "
                "readings and their token would cross the internet in clear; watch only the "
                f"server where Prometheus runs (watch: [{', '.join(here) or own}]), or give "
                "addresses of a private network"
            )


def _refuse_unknown_alerts(monitoring: MonitoringSpec) -> None:
    if not monitoring.alerts:
        return
    from gpuferry.monitoring import alert_names

    names = alert_names()
    for name in monitoring.alerts:
        if name not in names:
            raise ValueError(
                f"monitoring.alerts: {name!r} is no alert; accepted: {', '.join(names)}"
            )
    if monitoring.alerts.get("Watchdog", AlertChange()).disabled:
        raise ValueError(
            "monitoring.alerts: Watchdog cannot be disabled; leave dead_man out instead"
        )
