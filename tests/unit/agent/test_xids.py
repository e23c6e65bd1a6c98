"""Faults of the kernel's log: each told once, through restarts, rotations and both ways."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agent.kernel_log import KernelLog
from agent.xid_book import XidBook
from agent.xid_lines import Line, Parser, address
from gpuferry.driver.rules import table

X = "NVRM: Xid (PCI:0000:04:00): "
LOST = "NVRM: GPU 0000:04:00.0: GPU has fallen off the bus."
FALLEN = X + "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
PAIR = (
    "NVRM: The NVIDIA GPU 0000:04:00.0",
    "NVRM: (PCI ID: 10de:2330) has fallen off the bus and is not responding to commands.",
)
BOOT = "boot-1"


def book(kept: dict[str, object] | None = None, boot: str = BOOT) -> XidBook:
    return XidBook(table("xid"), boot, kept or {})


def fill(into: XidBook, *lines: str, start: float = 100.0, step: float = 1.0) -> XidBook:
    parser = Parser()
    for number, text in enumerate(lines):
        if line := parser.parse(text):
            into.add(line, start + number * step, 1e9 + number)
    return into


# The orders of NVSentinel#195.
@pytest.mark.parametrize(
    "lines",
    [(FALLEN,), (LOST,), PAIR, (LOST, FALLEN), (FALLEN, LOST), (*PAIR, FALLEN, LOST)],
)
def test_a_gpu_is_lost_once_however_it_is_said(lines: tuple[str, ...]) -> None:
    found = fill(book(), *lines).of("0000:04:00", 110)
    assert [(x.code, x.action) for x in found] == [(79, "reboot")]


def test_an_event_and_its_line_are_one_incident_with_the_lines_words() -> None:
    b = book()
    assert b.add(Line("xid", 94, "0000:04:00", "", ""), 50.2, 1e9)
    parsed = Parser().parse(X + "94, pid=4242, name=python3, Contained: memory error")
    assert parsed is not None
    assert not b.add(parsed, 50.1, 1e9)
    (event,) = b.of("0000:04:00", 60)
    assert (event.pid, event.action) == (4242, "restart_app")
    assert b.counts == {"0000:04:00 94": 1}


def test_xid_154_says_what_is_to_be_done_in_its_line() -> None:
    b = book()
    b.add(Line("xid", 154, "0000:04:00", "", ""), 50, 1e9)
    text = X + "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    parsed = Parser().parse(text)
    assert parsed is not None
    b.add(parsed, 50, 1e9)
    assert [x.action for x in b.of("0000:04:00", 60)] == ["reboot"]


def test_a_root_is_not_hidden_by_its_cleanup() -> None:
    """DCGM#235: 62, then ten 45."""
    b = fill(book(), X + "62, 0000", *[X + f"45, pid={n}, name=x, Ch 1" for n in range(10)])
    events = b.of("0000:04:00", 120)
    assert [(x.code, x.action) for x in events] == [(62, "reset_gpu"), (45, "ignore")]


def test_the_same_fault_every_ten_seconds_is_one_incident_and_later_another() -> None:
    b = fill(book(), *[X + "31, pid=1, name=x, MMU"] * 30, step=10)
    assert b.counts == {"0000:04:00 31": 1}
    fill(b, X + "31, pid=1, name=x, MMU", start=1000)
    assert b.counts == {"0000:04:00 31": 2}


def test_a_storm_is_told_for_as_long_as_it_lasts() -> None:
    b = fill(book(), *[X + "62, 0000"] * 40, step=30)
    (event,) = b.of("0000:04:00", 1300)
    assert (event.age_seconds, event.quiet_seconds) == (1200, 30)
    assert b.clocks["0000:04:00 62"] == b.entries[0].clock + 39


def test_an_unknown_code_is_told_with_its_line() -> None:
    (event,) = fill(book(), X + "999, something new").of("0000:04:00", 110)
    assert (event.action, event.line) == ("unknown", X + "999, something new")


def test_an_nvswitch_error_is_no_xid_of_a_gpu() -> None:
    b = fill(book(), "nvidia-nvswitch0: SXid (PCI:0000:04:00.0): 79, Fatal, Link 3")
    assert b.of("0000:04:00", 110) == ()
    assert b.counts == {"0000:04:00 sxid": 1}


def test_a_restart_keeps_incidents_of_this_boot_and_the_counts_of_all() -> None:
    kept = json.loads(json.dumps(fill(book(), FALLEN).plain()))
    assert [x.code for x in book(kept).of("0000:04:00", 110)] == [79]
    after = book(kept, boot="boot-2")
    assert after.of("0000:04:00", 110) == ()
    assert after.counts == {"0000:04:00 79": 1}


def test_old_incidents_go_and_a_storm_is_bounded() -> None:
    b = fill(book(), *[f"NVRM: Xid (PCI:0000:{n:02x}:{m:02x}): 31, x"
                       for n in range(100) for m in range(32)])  # fmt: skip
    b.tidy(3400)
    assert len(b.entries) == 1000
    b.tidy(10_000)
    assert b.entries == []


@pytest.mark.parametrize(
    "written", ["0000:04:00", "00000000:04:00.0", "0000:04:00.0", "04:00.0", "04:00"]
)
def test_a_device_has_one_address(written: str) -> None:
    assert address(written) == "0000:04:00"


# The log itself.


def record(text: str, sequence: int = 0, seconds: float = 5.0) -> str:
    return f"3,{sequence},{int(seconds * 1e6)},-;{text}\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "kmsg"
    path.write_text(record("one") + record("two"))
    return path


def texts(reader: KernelLog) -> list[str]:
    return [r.text for r in reader.read()]


def test_lines_are_read_once_also_by_the_next_agent(log: Path) -> None:
    reader = KernelLog(str(log), BOOT, None)
    assert texts(reader) == ["one", "two"]
    assert texts(reader) == []
    with log.open("a") as handle:
        handle.write(record("three"))
    kept = json.loads(json.dumps(reader.cursor))
    after = KernelLog(str(log), BOOT, kept)
    assert texts(after) == ["three"]
    assert texts(KernelLog(str(log), BOOT, after.cursor)) == []


def test_another_boot_begins_again(log: Path) -> None:
    reader = KernelLog(str(log), BOOT, None)
    reader.read()
    assert texts(KernelLog(str(log), "boot-2", reader.cursor)) == ["one", "two"]


def test_a_half_written_line_waits(log: Path) -> None:
    reader = KernelLog(str(log), BOOT, None)
    reader.read()
    whole = record("three")
    with log.open("a") as handle:
        handle.write(whole[:10])
        handle.flush()
        assert texts(reader) == []
        handle.write(whole[10:])
    assert texts(reader) == ["three"]


def test_a_file_that_was_replaced_or_cut_is_read_from_its_start(log: Path) -> None:
    reader = KernelLog(str(log), BOOT, None)
    reader.read()
    log.write_text(record("new"))
    assert texts(reader) == ["new"]
    log.rename(log.with_name("kmsg.1"))
    log.write_text(record("newer"))
    assert texts(reader) == ["newer"]


def test_a_log_that_is_not_there_yet_is_no_fault(tmp_path: Path) -> None:
    reader = KernelLog(str(tmp_path / "none"), BOOT, None)
    assert texts(reader) == []
    (tmp_path / "none").write_text(record("one"))
    assert texts(reader) == ["one"]


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="/dev/kmsg cannot be read here")
def test_the_real_kernel_log_is_read_once_also_by_the_next_agent() -> None:
    reader = KernelLog("/dev/kmsg", BOOT, None)
    first = reader.read()
    if not first:
        pytest.skip("this machine's kernel log is empty or closed to us")
    assert first[0].seconds <= first[-1].seconds
    after = KernelLog("/dev/kmsg", BOOT, json.loads(json.dumps(reader.cursor)))
    assert len(after.read()) < len(first) / 2, "only what came in the meantime"
    reader.close()
    after.close()


def test_one_xid_among_ten_thousand_lines_is_found(tmp_path: Path) -> None:
    """NVSentinel#1417"""
    path = tmp_path / "kmsg"
    path.write_text("".join(record(f"usb {n}", n) for n in range(10_000)) + record(FALLEN))
    reader, parser = KernelLog(str(path), BOOT, None), Parser()
    found = [line for _ in range(5) for r in reader.read() if (line := parser.parse(r.text))]
    assert [line.code for line in found] == [79]
