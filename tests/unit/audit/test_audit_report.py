"""The report is one file that needs nothing else; tests/browser draws it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpuferry.audit.report import terminal
from gpuferry.audit.report.document import document
from gpuferry.audit.report.page import page
from gpuferry.engine.project import Project
from gpuferry.operate import auditing
from tests.bench import audit_examples
from tests.support.audit import decided, planned, row


@pytest.fixture(scope="module")
def report() -> str:
    return page(audit_examples.plan("llm-finetune"), "Audit")


def test_nothing_is_loaded_from_elsewhere(report: str) -> None:
    text = re.sub(r"<script>.*?</script>", "", report, flags=re.S)
    assert not re.search(r"<(link|script|img|iframe)[^>]*(src|href)=", text)
    assert "default-src 'none'" in text
    assert "@import" not in text
    assert "url(" not in text


def test_every_term_with_its_formula_and_basis_is_there(report: str) -> None:
    for part in ("F1", "F2", "F3", "F4", "F5", "F10", "F11", "8.03e9", "KV cache",
                 "Cheaper for an hour",
                 "assistant-service", "declared 2026-11-20", "does not fit"):  # fmt: skip
        assert part in report, part


def test_texts_of_the_table_cannot_become_markup() -> None:
    name = "</script><script>alert(1)</script><b>"
    w = row(id=name, kind="sim", basis="measured", peak_vram="9 GiB", owner="<i>x</i>")
    html = page(planned([w], {"gpu": "L4", "id": "<u>"}), "<title>")
    assert "<script>alert" not in html
    assert "<i>x" not in html
    assert "<u>" not in html
    figures = re.search(r'id="figures">(.*?)</script>', html, re.S)
    assert figures is not None
    assert json.loads(figures.group(1))


def test_a_report_without_any_offer_that_fits_can_be_written() -> None:
    html = page(planned([row(kind="etl")], {"gpu": "L4"}), "Audit")
    assert "no offer fits" in html
    assert "nothing says how much GPU memory" in html


def test_every_workload_has_one_verdict() -> None:
    fits = row(id="fits", kind="sim", basis="measured", peak_vram="9 GiB")
    tight = row(id="tight", kind="sim", basis="measured", peak_vram="20 GiB")
    none = row(id="none", kind="sim", basis="measured", peak_vram="90 GiB")
    verdicts = document(planned([fits, tight, none], {"gpu": "L4"}))["verdicts"]
    assert [v["status"] for v in verdicts] == ["pass", "not_measured", "refused"]
    assert all(v["next_step"] for v in verdicts[1:])
    assert json.loads(json.dumps(verdicts)) == verdicts


def test_a_tight_choice_says_what_decides() -> None:
    decision = decided(row(params="1B", kind="infer", context=1024, concurrency=1), {"gpu": "T4"},
                       {"gpu": "RTX A4000"})  # fmt: skip
    assert decision.status == "tight"
    assert "below the floor" in " ".join(decision.notes)


@pytest.mark.parametrize("name", audit_examples.EXAMPLES)
def test_a_worked_example_comes_to_what_the_page_says(name: str) -> None:
    text = (audit_examples.FOLDER.parents[1] / "audit.md").read_text()
    assert audit_examples.block(name) in text


def test_the_example_of_init_can_be_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, offers, html = (tmp_path / n for n in ("w.yaml", "o.yaml", "r.html"))
    auditing.init(table, offers)
    assert auditing.check(table, offers, as_json=False) == 0
    assert auditing.plan(table, offers, html, as_json=True) == 0
    answer = json.loads(capsys.readouterr().out.partition("mistakes\n")[2])
    assert len(answer["workloads"]) == 5
    assert answer["ok"]
    assert html.stat().st_size > 1_000_000
    (tmp_path / "Pulumi.yaml").write_text("name: gpuferry\nruntime: python\n")
    project = Project(tmp_path, "rehearsal")
    auditing.apply(project, table, offers, provider="local", ssh_from=[], rehearsal=True, yes=True,
                   dry_run=False)  # fmt: skip
    assert "A40 cannot be simulated here, L40S stands in" in capsys.readouterr().err
    assert len(project.spec().servers) == 4
    assert auditing.show(table, offers, "wing-flow", as_json=False) == 0
    shown = capsys.readouterr().out
    assert "40,000,000" in shown
    assert "every GPU of the catalogue" in shown


def test_the_plan_shows_the_need_of_the_layout_that_is_rented() -> None:
    w = row(params="70.6B", method="lora", lora_rank=16, batch=1, seq=2048, recompute="full")
    plan = planned([w], {"gpu": "A100 SXM 80GB", "gpus": 4})
    (line,) = terminal.rows(plan)
    chosen = plan.decisions[0].chosen
    assert chosen is not None
    assert line[1] == f"{chosen.need.said}, estimated"
    assert chosen.need.mid < chosen.offer.visible_bytes
    assert line[4] == "not known"


def test_every_step_names_the_next_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, offers = tmp_path / "my table.yaml", tmp_path / "offers.yaml"
    auditing.init(table, offers)
    assert f"./ferry audit check '{table}' --offers {offers}" in capsys.readouterr().err
    auditing.check(table, offers, as_json=False)
    assert f"./ferry audit plan '{table}' --offers {offers}" in capsys.readouterr().err
    auditing.plan(table, offers, None, as_json=False)
    err = capsys.readouterr().err
    assert f"./ferry audit show '{table}' --offers {offers} support-bot" in err
    assert f"./ferry audit apply '{table}' --offers {offers} --stack NAME --dry-run" in err


def test_a_mistake_names_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, offers = tmp_path / "t.csv", tmp_path / "o.csv"
    table.write_text("id,kind\na,trian\n")
    offers.write_text("id,provider,gpu,gpus,price\nx,P,L4,many,\n")
    assert auditing.check(table, offers, as_json=False) == 2
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{table}: line 2 (a), column kind: 'trian'")
    assert second.startswith(f"{offers}: line 2 (x), column gpus: 'many'")
