"""audit: a table of workloads into the servers to rent, shown, reported, applied."""

from __future__ import annotations

import difflib
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from gpuferry.audit.choose.plan import Plan, explain, make_plan
from gpuferry.audit.offers.load import Offers, example_text, hypothetical, load_offers
from gpuferry.audit.read.columns import COLUMNS
from gpuferry.audit.read.inventory import InventoryError, read_inventory
from gpuferry.audit.read.workload import Workload
from gpuferry.audit.report import terminal
from gpuferry.audit.report.document import document
from gpuferry.engine.project import Project
from gpuferry.errors import SpecError
from gpuferry.operate.console import confirm, print_json, print_table, say_on_stderr, stdout_console
from gpuferry.operate.drafts import require_folder, require_new, write_whole

EXAMPLE = Path(__file__).resolve().parent.parent / "audit/read/example.yaml"
# Above this a person should be told that it goes on.
MANY = 500


def init(table: Path, offers: Path | None) -> None:
    """Write the example table, and the example offers where a file is named.

    Raises:
        SpecError: a file is there already.
    """
    wanted = [(table, EXAMPLE.read_text(encoding="utf-8"))]
    if offers is not None:
        wanted.append((offers, example_text()))
    for path, _ in wanted:
        if path.suffix.lower() not in (".yaml", ".yml"):
            raise SpecError(f"{path}: the example is YAML; name it .yaml (CSV and XLSX are read).")
        require_new(path)
    for path, text in wanted:
        write_whole(path, text)
        say_on_stderr(f"wrote {path}")
    say_on_stderr(f"next: put your workloads into it, then {_next('check', table, offers)}")


def _next(command: str, table: Path, offers: Path | None) -> str:
    """The command to type next, with the files of this one."""
    words = ["./ferry", "audit", command, str(table)]
    return shlex.join([*words, "--offers", str(offers)] if offers is not None else words)


def check(table: Path, offers: Path | None, *, as_json: bool) -> int:
    """Read a table (and offers) and say every mistake; 0 when there is none, else 2."""
    problems = []
    workloads: list[Workload] = []
    try:
        workloads = read_inventory(table)
    except InventoryError as error:
        problems += [(table, problem) for problem in error.problems]
    if offers is not None:
        try:
            load_offers(offers)
        except InventoryError as error:
            problems += [(offers, problem) for problem in error.problems]
    if as_json:
        rows = [{"file": str(path), **vars(problem)} for path, problem in problems]
        print_json({"ok": not problems, "workloads": len(workloads), "problems": rows})
    elif problems:
        for path, problem in problems:
            print(f"{path}: {problem}")
        say_on_stderr(f"{len(problems)} mistake{'s' if len(problems) != 1 else ''}")
    else:
        for w in workloads:
            for note in w.notes:
                print(f"{w.id}: {note}")
        print(f"{len(workloads)} workload{'s' if len(workloads) != 1 else ''}, no mistakes")
        say_on_stderr(f"next: {_next('plan', table, offers)}")
    return 2 if problems else 0


def columns(*, as_json: bool) -> None:
    """List the columns of the table."""
    from gpuferry.audit.read.cells import accepted

    if as_json:
        print_json([{**vars(c), "accepted": accepted(c)} for c in COLUMNS.values()])
        return
    rows = [[c.group, c.name, c.help, accepted(c)] for c in COLUMNS.values()]
    print_table("", ["", "column", "what", "accepted"], rows)


def gpus(name: str | None, *, as_json: bool) -> int:
    """List the catalogue, or find one GPU by its name; 1 when it is not known."""
    from gpuferry.audit.catalogue.load import catalogue
    from gpuferry.audit.catalogue.match import lookup

    found = catalogue()
    if name is not None:
        match = lookup(name)
        found = match.candidates
        if match.gpu is None:
            say_on_stderr(f"{name!r} {match.why}: {match.accepted}")
    if as_json:
        print_json([{**vars(gpu), "visible_mib": gpu.visible_mib} for gpu in found])
    elif found:
        rows = [
            [
                g.name, g.compute_capability, f"{g.vram_gb:g}", f"{g.visible_mib / 1024:.1f}",
                f"{g.mem_bw_gbs:g}", f"{g.bf16_tflops:g}" if g.bf16_tflops else "none",
                f"{g.fp8_tflops:g}" if g.fp8_tflops else "none", "full" if g.full_fp64 else "slow",
                "yes" if g.ecc else "no", g.interconnect, f"{g.tdp_w:g}", g.source,
            ]
            for g in found
        ]  # fmt: skip
        names = ["GPU", "cc", "GB", "GiB seen", "GB/s", "BF16", "FP8", "FP64", "ECC", "link", "W",
                 "source"]  # fmt: skip
        print_table("", names, rows)
    return 0 if len(found) == 1 or name is None else 1


def planned(table: Path, offers: Path | None) -> Plan:
    """Read everything and decide."""
    workloads = read_inventory(table)
    if len(workloads) > MANY:
        say_on_stderr(f"deciding about {len(workloads)} workloads")
    return make_plan(workloads, _offers(offers))


def _offers(path: Path | None) -> Offers:
    return load_offers(path) if path is not None else hypothetical()


def plan(table: Path, offers: Path | None, html: Path | None, *, as_json: bool) -> int:
    """Show the plan; 1 when a workload got no server."""
    if html is not None:
        require_folder(html)
    result = planned(table, offers)
    if html is not None:
        from gpuferry.audit.report.page import page

        say_on_stderr(f"writing {html}")
        write_whole(html, page(result, f"Audit of {table.name}"))
    if as_json:
        print_json(document(result))
    else:
        print_table("", terminal.COLUMNS, terminal.rows(result))
        print_table("\nservers to rent", terminal.SERVER_COLUMNS, terminal.server_rows(result))
        for remark in terminal.remarks(result):
            stdout_console().print(f"- {remark}", markup=False)
        some = result.decisions[0].workload.id
        say_on_stderr(f"reasons for one: {_next('show', table, offers)} {shlex.quote(some)}")
        if result.servers:
            say_on_stderr(f"next: {_next('apply', table, offers)} --stack NAME --dry-run")
    return 0 if all(d.chosen for d in result.decisions) else 1


def show(table: Path, offers: Path | None, name: str, *, as_json: bool) -> int:
    """Everything about one workload: terms, reasons, every GPU."""
    workloads = read_inventory(table)
    known = [w for w in workloads if w.id == name]
    if not known:
        near = difflib.get_close_matches(name, [w.id for w in workloads], n=3)
        there = ", ".join(w.id for w in workloads[:12])
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {there}."
        raise SpecError(f"{table}: there is no workload {name!r}; {hint}")
    result = make_plan(known, _offers(offers))
    decision = explain(result.decisions[0], result.fleet)
    if as_json:
        print_json(document(result))
    else:
        from gpuferry.audit.report.one import sections

        for title, names, rows in sections(decision, result.offers.currency):
            print_table(f"\n{title}", names, rows)
    return 0 if decision.chosen else 1


def apply(
    project: Project, table: Path, offers: Path | None, *,
    provider: str, ssh_from: list[str], rehearsal: bool, yes: bool, dry_run: bool,
) -> None:  # fmt: skip
    """Write the servers into the stack file, after showing what changes.

    Raises:
        SpecError: the result would not be a valid stack file; nothing is changed then.
    """
    from gpuferry.audit.apply.stackfile import edit
    from gpuferry.audit.apply.wishes import wants_bucket, wishes
    from gpuferry.spec.file import load_spec, read_config

    result = planned(table, offers)
    path = project.stack_file.resolve()
    old, ends = _read_stack_file(path)
    if old.strip():
        provider = str(read_config(path).get("gpuferry:provider", "local"))
    entries = wishes(result, provider, rehearsal=rehearsal)
    try:
        new, kept = edit(
            old, entries, provider=provider, bucket=wants_bucket(result), ssh_from=ssh_from
        )
    except SpecError as error:
        raise SpecError(f"{path.name}: {error}") from None
    _say_what_differs(result, [wish.note for wish in entries if wish.note], kept)
    if new == old:
        say_on_stderr(f"{path.name}: nothing to change")
        return
    draft = path.with_name(f"Pulumi.{project.stack}.yaml.{os.getpid()}")
    try:
        draft.write_text(new, encoding="utf-8", newline=ends)
        try:
            load_spec(draft)
        except SpecError as error:
            text = str(error).removeprefix(f"{draft.name}: ")
            hint = ""
            if ".ssh: required" in text:
                hint = " Write name and ssh block of each server first, as in "
                hint += "docs/bring-your-own-server.md; apply adds the rest."
            raise SpecError(
                f"{path.name} would not be valid, so it was not changed: {text}{hint}"
            ) from None
        _show_diff(old, new, path.name)
        if dry_run:
            return
        confirm(f"{path.name} will be changed as shown.", yes)
        if _read_stack_file(path)[0] != old:
            raise SpecError(f"{path.name} was changed by somebody else meanwhile; run this again.")
        if old:
            draft.chmod(path.stat().st_mode)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    say_on_stderr(f"wrote {path.name}; next: ./ferry preview --stack {project.stack}")


def _say_what_differs(result: Plan, notes: list[str], kept: list[str]) -> None:
    missing = [d.workload.id for d in result.decisions if d.chosen is None]
    lines = [*notes, *(f"kept: {line}" for line in kept)]
    if missing:
        lines.append(f"without a server, and so not written: {', '.join(missing)}")
    for line in lines:
        say_on_stderr(line)


def _read_stack_file(path: Path) -> tuple[str, str]:
    """The text (empty: no such file) and how its lines end.

    Raises:
        SpecError: it cannot be read, or is not meant to be written.
    """
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        return "", "\n"
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SpecError(f"{path.name}: cannot be read ({why}).") from None
    if not path.stat().st_mode & 0o222 or not os.access(path, os.W_OK):
        raise SpecError(f"{path.name} is read-only; `chmod u+w {path.name}` allows changes.")
    return text.replace("\r\n", "\n"), "\r\n" if b"\r\n" in data else "\n"


def _show_diff(old: str, new: str, name: str) -> None:
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"{name} (now)", f"{name} (after)", lineterm=""
    )
    for line in lines:
        print(line)


def measure(
    name: str, kind: str, *, ssh: str | None, seconds: float, pid: int | None, data: Path | None,
    out: Path | None, every: float, ssh_config: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Measure a machine or a job and write a row."""
    from gpuferry.audit.measure.row import row_text
    from gpuferry.audit.measure.run import measure as run

    row_text(name, kind, {})  # a wrong kind is said before two hours of measuring
    if out is not None:
        require_new(out)
    if data is not None and ssh is None and not data.is_dir():
        raise SpecError(f"--data {data}: there is no such folder.")
    found: dict[str, Any] = run(
        ssh=ssh,
        seconds=seconds,
        pid=pid,
        data=data,
        every=every,
        say=say_on_stderr,
        ssh_config=ssh_config,
    )
    text = row_text(name, kind, found)
    if as_json:
        print_json({"ok": True, "measured": found, "row": text})
    elif out is None:
        print(text, end="")
    if out is not None:
        try:
            write_whole(out, text)
        except SpecError:
            print(text, end="", file=sys.stderr)  # hours of measuring are not lost with the disk
            raise
        say_on_stderr(f"wrote {out}")
    return 130 if found.get("interrupted") else 0
