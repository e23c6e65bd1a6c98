"""Pulumi's event stream becomes what a person follows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuferry.engine import events
from gpuferry.engine.run import _explain

URN = "urn:pulumi:local::gpuferry::gpuferry:index:GpuServer$command:local:Command::gpu-1-machine"
COMPONENT = "urn:pulumi:local::gpuferry::gpuferry:index:GpuServer::gpu-1"


def diagnostic(message: str, severity: str = "info", urn: str = URN) -> dict[str, Any]:
    return {"diagnosticEvent": {"urn": urn, "message": message, "severity": severity}}


def metadata(operation: str, urn: str = URN) -> dict[str, Any]:
    return {"metadata": {"op": operation, "urn": urn}}


@pytest.mark.parametrize(
    ("raw", "event"),
    [
        ({"resourcePreEvent": metadata("create")}, events.Started("gpu-1-machine", "create")),
        ({"resOutputsEvent": metadata("create")}, events.Finished("gpu-1-machine", "create")),
        (
            {"resOpFailedEvent": metadata("create")},
            events.Finished("gpu-1-machine", "create", True),
        ),
        ({"resourcePreEvent": metadata("create", COMPONENT)}, events.Started("", "create")),
        (diagnostic("booting\n"), events.Said("gpu-1-machine", "info", "booting")),
        (diagnostic("x", "debug"), None),
        (diagnostic("  "), None),
        (diagnostic("using pulumi-resource-command from $PATH", "warning"), None),
        (
            {"summaryEvent": {"resourceChanges": {"same": 2}, "durationSeconds": 3}},
            events.Summary({"same": 2}, 3),
        ),
        ({"cancelEvent": {}}, None),
        (
            {
                "policyEvent": {
                    "policyName": "gpu-cap",
                    "message": "Not more\nmax_gpus: 1",
                    "enforcementLevel": "mandatory",
                }
            },
            events.Said("policy gpu-cap", "error", "Not more: max_gpus: 1"),
        ),
        (
            {"policyEvent": {"policyName": "x", "message": "y", "enforcementLevel": "advisory"}},
            events.Said("policy x", "warning", "y"),
        ),
    ],
)
def test_one_event(raw: dict[str, Any], event: events.Event | None) -> None:
    assert events.parse(json.dumps(raw)) == event


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ("something plain\n", events.Said("", "info", "something plain")),
        ("warning: using pulumi-language-python from $PATH at /x\n", None),
        ("error: incorrect passphrase\n", events.Said("", "error", "incorrect passphrase")),
        ("\n", None),
    ],
)
def test_a_line_that_is_no_event(line: str, event: events.Event | None) -> None:
    assert events.parse(line) == event


@pytest.mark.parametrize(
    ("changes", "changed"),
    [({}, 0), ({"same": 3}, 0), ({"same": 3, "create": 2}, 2), ({"replace": 1, "update": 1}, 2)],
)
def test_changes_are_counted(changes: dict[str, int], changed: int) -> None:
    assert events.Summary(changes).changed == changed


def test_a_failed_step_is_told_by_its_own_last_words() -> None:
    said = (
        "exit status 1: running 'python3 -m gpuferry.steps machine create':\nfirst\nerror: No disk."
    )
    problems = [
        events.Said("gpu-1-machine", "error", said),
        events.Said("", "error", "update failed"),
    ]
    assert _explain(problems, 255, "up") == "gpu-1-machine: No disk."


def test_a_failure_without_a_word_names_the_operation() -> None:
    assert _explain([], 255, "up") == "pulumi up was interrupted or failed (exit code 255)."


def test_what_fails_before_the_stream_begins_is_told() -> None:
    said = events.parse("error: getting stack configuration: no such file")
    assert isinstance(said, events.Said)
    assert _explain([said], 255, "up") == "getting stack configuration: no such file"
