"""Run the survey on a server, and judge what it found."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from gpuferry.checking.node import Node
from gpuferry.checking.recorder import Answer

SECONDS = 100
EXPECTED = "no secret in containers, images, units, arguments or environments"
_HERE = Path(__file__).parent
_PROGRAM = """
import types
modules = {}
for name, source in payload["sources"].items():
    modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), modules[name].__dict__)
answer = modules["survey"].survey(payload, modules["match"])
"""


def look(node: Node, seconds: int = SECONDS) -> dict[str, Any]:
    """What the survey says: `findings` (place, what), `looked` (counts), `missed` (sentences)."""
    sources = {n: (_HERE / f"{n}.py").read_text(encoding="utf-8") for n in ("match", "survey")}
    payload = {"sources": sources, "seconds": seconds - 20}
    return dict(node.python(_PROGRAM, payload, seconds))


def judge(found: dict[str, Any]) -> Answer:
    """Pure: a finding fails; where something could not be looked at, nothing is promised."""
    looked = ", ".join(f"{count} {kind}" for kind, count in found["looked"].items())
    evidence = [f"looked at {looked}", *found["missed"]]
    status: Literal["pass", "fail", "not_measured"] = "pass"
    measured = "none found"
    if found["findings"]:
        status = "fail"
        places = [f"{finding['place']}: {finding['what']}" for finding in found["findings"]]
        measured = f"{len(places)} found: {places[0]}"
        evidence += places
    elif found["missed"]:
        status, measured = "not_measured", f"none found, but {found['missed'][0]}"
    return Answer(status, measured, EXPECTED, "; ".join(evidence))
