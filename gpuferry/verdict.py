"""The one form in which everything that judges answers."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict

Status = Literal["pass", "fail", "not_measured", "refused"]
Severity = Literal["info", "minor", "major", "critical"]

# Texts come from servers: escape sequences could rewrite a terminal, and XML forbids most of these.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_Text = Annotated[
    str, AfterValidator(lambda text: _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text))
]


class Verdict(BaseModel):
    """One judgement about one thing on one server.

    `measured` and `expected` are short texts for people; units belong in them. `not_measured` means
    that nothing could be measured: it is never good news and never counts as a pass.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    server: str
    status: Status
    measured: _Text
    expected: _Text
    severity: Severity = "major"
    evidence: _Text = ""
    next_step: _Text = ""


def worst_exit_code(verdicts: Iterable[Verdict]) -> int:
    """0 when at least one verdict is `pass` and none is `fail` or `refused`, else 1.

    Nothing but `not_measured` is no success: nobody knows anything then.
    """
    seen = [v.status for v in verdicts]
    return 0 if "pass" in seen and not {"fail", "refused"} & set(seen) else 1


def to_junit(verdicts: Iterable[Verdict], suite: str = "gpuferry") -> str:
    """Render verdicts as a JUnit document; `not_measured` becomes `skipped`."""
    seen = list(verdicts)
    count = {s: sum(v.status == s for v in seen) for s in ("fail", "refused", "not_measured")}
    root = ET.Element(
        "testsuite",
        name=suite,
        tests=str(len(seen)),
        failures=str(count["fail"] + count["refused"]),
        skipped=str(count["not_measured"]),
    )
    for verdict in seen:
        case = ET.SubElement(root, "testcase", classname=verdict.server, name=verdict.id)
        text = f"measured: {verdict.measured}\nexpected: {verdict.expected}\n{verdict.evidence}"
        if verdict.status in ("fail", "refused"):
            failure = ET.SubElement(
                case, "failure", message=verdict.measured, type=verdict.severity
            )
            failure.text = f"{text}\nnext step: {verdict.next_step}"
        elif verdict.status == "not_measured":
            ET.SubElement(case, "skipped", message=verdict.measured)
    return ET.tostring(root, encoding="unicode")
