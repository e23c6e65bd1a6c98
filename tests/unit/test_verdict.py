"""Verdicts decide the exit code and can be read by people and by machines."""

import io
import json
import xml.etree.ElementTree as ET

import pytest
from rich.console import Console

from gpuferry.checking.render import as_json, as_table, summary_line
from gpuferry.verdict import Verdict, to_junit, worst_exit_code


def a_verdict(status, **fields):
    values = {"id": "docker.daemon", "server": "gpu-1", "measured": "x", "expected": "y"}
    return Verdict(status=status, **{**values, **fields})


@pytest.mark.parametrize(
    ("statuses", "exit_code"),
    [
        ([], 1),
        (["pass"], 0),
        (["pass", "not_measured"], 0),
        (["pass", "fail"], 1),
        (["pass", "refused"], 1),
    ],
)
def test_exit_code_is_zero_only_when_something_was_judged_and_nothing_failed(statuses, exit_code):
    verdicts = [a_verdict(status) for status in statuses]
    assert worst_exit_code(verdicts) == exit_code
    assert json.loads(as_json(verdicts))["ok"] is (exit_code == 0)


def test_junit_counts_failures_and_shows_what_is_not_measured_as_skipped():
    verdicts = [a_verdict(s) for s in ("pass", "fail", "refused", "not_measured")]
    suite = ET.fromstring(to_junit(verdicts))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "2", "1")
    assert len(suite.findall("testcase/failure")) == 2


def test_junit_of_nothing_is_a_suite_with_no_tests():
    assert ET.fromstring(to_junit([])).get("tests") == "0"


def test_junit_survives_characters_that_xml_forbids():
    suite = ET.fromstring(to_junit([a_verdict("fail", measured="\x1b[31mred\x00 <&>")]))
    assert "red" in suite.find("testcase/failure").get("message")


def test_table_fits_100_columns_and_reads_without_colour():
    verdicts = [
        a_verdict("pass"),
        a_verdict("fail", measured="[not markup] " + "x" * 500, next_step="run: ./ferry converge"),
        a_verdict("not_measured"),
    ]
    console = Console(width=100, color_system=None, record=True, file=io.StringIO())
    console.print(as_table(verdicts))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 100
    assert {"FAILED", "ok", "not"} <= {line.split()[0] for line in text.splitlines() if line}
    assert "[not markup]" in text
    assert text.count("next step: run: ./ferry converge") == 1
    assert "1 failed, 1 ok, 1 not measured on 1 server" in text


def test_no_verdicts_are_called_a_failure():
    assert "failure" in summary_line([])
