"""Every way in which a check can end is a verdict; silence is a failure."""

import sys
import textwrap
import time

import pytest

from gpuferry.checking.expectations import Expectations
from gpuferry.checking.job import Job, Target
from gpuferry.checking.worker import judge

HEADER = """\
import time
import pytest
from gpuferry.checking.mark import check
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Judge this machine with check files given as text; returns verdicts by id."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run_files(select=None, roles=("base",), **files):
        for name, body in files.items():
            monkeypatch.delitem(sys.modules, f"test_{name}", raising=False)
            (tmp_path / f"test_{name}.py").write_text(HEADER + textwrap.dedent(body))
        job = Job(
            target=Target(name="gpu-1", address="127.0.0.1", port=22, user="root", host_key=""),
            expectations=Expectations(hostname="gpu-1", user="root", roles=list(roles)),
            checks_directory=tmp_path,
            ssh_config=None,
            key_path=None,
            select=select,
        )
        verdicts = []
        assert judge(job, verdicts.append)
        return {verdict.id: verdict for verdict in verdicts}

    return run_files


def a_check(body, arguments="verdict", options=""):
    return f"""\
    @check("base.it", next_step="ask {{server}}"{options})
    def test_it({arguments}):
        \"\"\"The promise.\"\"\"
        {body}
    """


@pytest.mark.parametrize(
    ("body", "status", "measured", "evidence"),
    [
        ("verdict.judge(True, measured='1', expected='1')", "pass", "1", ""),
        ("verdict.judge(False, measured='2', expected='1', evidence='e')", "fail", "2", "e"),
        ("verdict.not_measured('no store')", "not_measured", "no store", ""),
        ("pass", "fail", "the check gave 0 verdicts instead of 1", "test_it"),
        ("[verdict.not_measured('a')] * 2 and verdict.not_measured('b')", "fail", "2 verdicts", ""),
        ("raise KeyError('lost')", "fail", "the check broke off", "KeyError: 'lost'"),
        ("assert 1 == 2, 'differs'", "fail", "the check broke off", "AssertionError: differs"),
        ("pytest.skip('not today')", "fail", "the check broke off", "Skipped: not today"),
        (
            "verdict.judge(True, measured='1', expected='1'); 1 / 0",
            "fail",
            "broke off",
            "ZeroDivision",
        ),
        ("raise SystemExit(0)", "fail", "the check broke off", "SystemExit"),
    ],
)
def test_each_ending_of_a_check_is_one_verdict(run, body, status, measured, evidence):
    verdicts = run(base=a_check(body))
    assert list(verdicts) == ["base.it"]
    verdict = verdicts["base.it"]
    assert verdict.status == status
    assert measured in verdict.measured
    assert evidence in verdict.evidence


def test_a_failing_check_says_what_to_do_next(run):
    verdict = run(base=a_check("raise KeyError"))["base.it"]
    assert (verdict.next_step, verdict.expected) == ("ask gpu-1", "The promise.")


def test_a_check_that_only_reads_gives_no_verdict_and_fails(run):
    assert run(base=a_check("host.run('true')", "host"))["base.it"].status == "fail"


@pytest.mark.parametrize(
    "body", ["host.run('sleep 30')", "time.sleep(30)", "node.read(a='sleep 30')"]
)
def test_a_hanging_check_fails_at_its_deadline(run, body):
    started = time.monotonic()
    verdict = run(base=a_check(body, "host, node, verdict", ", deadline_seconds=1"))["base.it"]
    assert time.monotonic() - started < 5
    assert (verdict.status, verdict.measured) == ("fail", "did not answer within 1 s")


def test_a_hanging_fixture_fails_its_checks_too(run):
    fixture = """\
    @pytest.fixture(scope="module")
    def slow(host):
        return host.run("sleep 30")
    """
    checks = textwrap.dedent(fixture) + textwrap.dedent(
        a_check("pass", "slow, verdict", ", deadline_seconds=1")
    )
    assert run(base=checks)["base.it"].measured == "did not answer within 1 s"


def test_readings_come_back_by_name_with_exit_code_and_error(run):
    body = "r = node.read(good='echo hi', bad='echo no >&2; exit 3'); "
    body += "verdict.judge(True, measured=r['good'].text + r['bad'].trouble, expected='')"
    assert run(base=a_check(body, "node, verdict"))["base.it"].measured == "hiexit code 3: no"


@pytest.mark.parametrize(
    ("files", "evidence"),
    [
        ({"base": ""}, "checks there: none"),
        ({"docker": a_check("pass")}, "roles of this server: base"),
    ],
)
def test_nothing_to_check_is_a_failure(run, files, evidence):
    verdict = run(**files)["checks.collected"]
    assert (verdict.status, verdict.measured) == ("fail", "0 checks")
    assert evidence in verdict.evidence


def test_a_selection_that_matches_nothing_names_what_there_is(run):
    verdict = run(select=["disk"], base=a_check("pass"))["checks.collected"]
    assert "selected: disk" in verdict.evidence
    assert "base.it" in verdict.evidence


@pytest.mark.parametrize("select", ["base", "base.it"])
def test_checks_are_selected_by_id_or_concern(run, select):
    assert list(run(select=[select], base=a_check("verdict.not_measured('x')"))) == ["base.it"]


@pytest.mark.parametrize(("applies", "given"), [("True", ["base.it"]), ("False", [])])
def test_a_check_that_does_not_apply_is_left_out(run, applies, given):
    option = f", applies=lambda expectations: expectations.hostname == 'gpu-1' and {applies}"
    verdicts = run(base=a_check("verdict.not_measured('x')", options=option))
    assert [name for name in verdicts if name != "checks.collected"] == given
    assert ("checks.collected" in verdicts) is not bool(given)


def test_a_judgement_may_weigh_more_or_less_than_its_check(run):
    body = "verdict.take(Judgement('fail', '1', '0', severity='minor', next_step='wait for it'))"
    header = "from gpuferry.checking.gpu.judgement import Judgement\n"
    verdict = run(base=header + textwrap.dedent(a_check(body)))["base.it"]
    assert (verdict.severity, verdict.next_step) == ("minor", "wait for it")


@pytest.mark.parametrize(
    ("body", "step"),
    [
        ("verdict.judge(False, measured='2', expected='1')", "ask gpu-1"),
        ("verdict.judge(True, measured='1', expected='1')", ""),
        ("verdict.not_measured('there is none')", ""),
        ("pass", "report it"),
    ],
)
def test_the_cure_of_a_failure_is_no_advice_for_anything_else(run, body, step):
    given = run(base=a_check(body))["base.it"].next_step
    assert step in given
    assert bool(given) is bool(step)


def test_a_file_that_cannot_be_loaded_fails_and_stops_no_other(run):
    verdicts = run(
        roles=["base", "docker"], docker="import nowhere", base=a_check("verdict.not_measured('x')")
    )
    assert "nowhere" in verdicts["checks.collected"].evidence
    assert verdicts["base.it"].status == "not_measured"


@pytest.mark.parametrize(
    "extra", ["def test_plain(): pass", '@check("base.it")\ndef test_twin(): pass']
)
def test_functions_without_an_identity_of_their_own_are_refused(run, extra):
    body = textwrap.dedent(a_check("verdict.not_measured('x')")) + extra
    assert run(base=body)["checks.collected"].status == "fail"
