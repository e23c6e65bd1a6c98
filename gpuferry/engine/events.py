"""Pulumi's event stream (`--json`), reduced to what a person follows."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Started:
    """A resource is being worked on."""

    name: str
    operation: str


@dataclass(frozen=True)
class Finished:
    """A resource is done."""

    name: str
    operation: str
    failed: bool = False


@dataclass(frozen=True)
class Said:
    """A resource, or the engine (`name` empty), said a line."""

    name: str
    severity: str
    text: str


@dataclass(frozen=True)
class Summary:
    """The end of an operation: how many resources of each kind of change."""

    changes: dict[str, int] = field(default_factory=dict)
    seconds: int = 0

    @property
    def changed(self) -> int:
        """Resources that were not left as they were."""
        return sum(count for kind, count in self.changes.items() if kind not in ("same", "read"))


# What a policy pack says goes by the name of its rule.
POLICY = "policy "
Event = Started | Finished | Said | Summary

# Said at every start by an engine that finds a plugin on PATH; `ferry doctor` tells which.
_NOISE = ("using pulumi-language-", "using pulumi-resource-", "Resource monitor has terminated")


def parse(line: str) -> Event | None:
    """One line of the stream, or None when it says nothing to a person."""
    try:
        event: dict[str, Any] = json.loads(line)
    except ValueError:
        return _plain_text(line.strip())
    if summary := event.get("summaryEvent"):
        return Summary(
            {str(k): int(v) for k, v in (summary.get("resourceChanges") or {}).items()},
            int(summary.get("durationSeconds") or 0),
        )
    if said := event.get("diagnosticEvent"):
        return _said(said)
    if said := event.get("policyEvent"):
        return _ruled(said)
    for key, failed in (("resOutputsEvent", False), ("resOpFailedEvent", True)):
        if metadata := event.get(key, {}).get("metadata"):
            return Finished(_name(metadata["urn"]), metadata["op"], failed)
    if metadata := event.get("resourcePreEvent", {}).get("metadata"):
        return Started(_name(metadata["urn"]), metadata["op"])
    return None


def _plain_text(text: str) -> Said | None:
    """A line outside the stream; what fails before the stream begins is told in one."""
    if not text or _is_noise(text):
        return None
    wrong = text.startswith("error: ")
    return Said("", "error" if wrong else "info", text.removeprefix("error: "))


def _said(said: dict[str, Any]) -> Said | None:
    text = str(said.get("message", "")).strip()
    severity = str(said.get("severity", "info"))
    if severity == "debug" or not text or _is_noise(text):
        return None
    return Said(_name(said.get("urn", "")), severity, text)


def _ruled(said: dict[str, Any]) -> Said:
    """A violation, as the policy pack told it: the rule in words, then what breaks it."""
    severity = "error" if said.get("enforcementLevel") == "mandatory" else "warning"
    text = ": ".join(line for line in str(said.get("message", "")).splitlines() if line.strip())
    return Said(f"{POLICY}{said.get('policyName', '')}", severity, text)


def _is_noise(text: str) -> bool:
    return any(noise in text for noise in _NOISE)


def _name(urn: str) -> str:
    """The resource's name; empty for the stack itself and for components."""
    kind = urn.rsplit("::", 2)[-2] if urn.count("::") >= 3 else ""
    return urn.rsplit("::", 1)[-1] if "command:" in kind else ""
