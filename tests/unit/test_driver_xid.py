"""Faults in the kernel's log are classified by NVIDIA's catalogue; nothing unknown is fine."""

from __future__ import annotations

import pytest

from gpuferry.driver.rules import table
from gpuferry.driver.xid import classify, worst

X = "NVRM: Xid (PCI:0000:04:00): "


@pytest.mark.parametrize(
    ("line", "code", "action"),
    [
        (X + "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", 79, "reboot"),
        (X + "63, Row remapping event", 63, "ignore"),
        (X + "64, Row remapping failure", 64, "reset_gpu"),
        (X + "13, pid=4242, name=python3, Graphics Exception: ESR", 13, "restart_app"),
        (X + "31, pid=4242, name=python3, Ch 00000010, MMU Fault", 31, "restart_app"),
        (X + "43, pid=4242, name=python3, Ch 00000010", 43, "ignore"),
        (X + "45, pid=4242, name=python3, Ch 00000010", 45, "workflow"),
        (X + "48, pid='<unknown>', name=<unknown>, DBE (double bit error)", 48, "workflow"),
        (X + "54, Auxiliary power", 54, "inspect"),
        (X + "62, 0000(0000) 00000000 00000000", 62, "reset_gpu"),
        (X + "74, NVLink: fatal error detected on link 6", 74, "workflow"),
        (X + "92, High single-bit ECC error rate", 92, "ignore"),
        (X + "94, pid=42, name=python3, Contained: CE User Channel", 94, "restart_app"),
        (X + "95, pid=42, name=python3, Uncontained", 95, "reset_gpu"),
        (X + "119, pid=42, name=nvidia-smi, Timeout waiting for RPC from GSP", 119, "reset_gpu"),
        (X + "120, GSP Error", 120, "reset_gpu"),
        (X + "140, ECC Unrecovered", 140, "reset_gpu"),
        (X + "149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)", 149, "reset_gpu"),
        (X + "145, RLW_CTRL Nonfatal XC0 i0 Link 00 (0x00000003)", 145, "workflow"),
        (
            X + "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
            154,
            "reset_gpu",
        ),
        (
            X + "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
            154,
            "reboot",
        ),
        (X + "154, GPU recovery action changed from 0x1 (GPU Reset) to 0x0 (None)", 154, "ignore"),
        (X + "154, GPU recovery action changed from 0x0 (None) to 0x9 (Sing)", 154, "unknown"),
        (X + "999, something new", 999, "unknown"),
        (X + "5, unused in the catalogue", 5, "unknown"),
        ("NVRM: Xid (0000:04:00): 31, Ch 00000001", 31, "restart_app"),
        ("NVRM: GPU 0000:04:00.0: GPU has fallen off the bus.", 79, "reboot"),
    ],
)
def test_a_line_asks_for_what_the_catalogue_says(line: str, code: int, action: str) -> None:
    (event,) = classify([line])
    assert (event.code, event.action, event.pci) == (code, action, "0000:04:00")
    assert event.line == line
    if action == "unknown":
        assert event.severity == "major"


@pytest.mark.parametrize(
    "prefix",
    ["", "[  12.345678] ", "4,1234,5678901,-;", "Nov 30 10:00:00 gpu-1 kernel: ", "<4>[1.0] "],
)
def test_every_way_in_which_the_log_is_shown_is_read(prefix: str) -> None:
    (event,) = classify([prefix + X + "31, pid=4242, name=python3, MMU Fault\n"])
    assert (event.code, event.pid, event.process) == (31, 4242, "python3")


def test_a_lost_gpu_is_one_event_however_it_is_told() -> None:
    lines = [
        "NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:18:00): 79, pid=7, name=python3, GPU has fallen off the bus.",
        "NVRM: The NVIDIA GPU 0000:18:00.0",
        "NVRM: (PCI ID: 10de:2901) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    ]
    for order in (lines, lines[2:] + lines[:2]):
        (event,) = classify(order)
        assert (event.code, event.pci, event.count) == (79, "0000:18:00", 1)


def test_a_gpu_that_is_lost_again_is_counted() -> None:
    lines = [
        X + "79, pid=7, name=python3, GPU has fallen off the bus.",
        "NVRM: GPU 0000:04:00.0: GPU has fallen off the bus.",
    ]
    (event,) = classify(lines * 2)
    assert event.count == 2


def test_an_older_fault_is_not_hidden_by_the_cleanup_that_follows() -> None:
    cleanup = [X + f"45, pid={n}, name=python3, Ch {n:08x}" for n in range(10)]
    events = classify([X + "62, halt", *cleanup])
    assert events[0].code == 62
    assert {event.action for event in events[1:]} == {"ignore"}
    found = worst(events)
    assert found is not None
    assert found.code == 62


def test_a_cleanup_on_another_gpu_stands_for_itself() -> None:
    events = classify([X + "62, halt", "NVRM: Xid (PCI:0000:05:00): 45, pid=1, name=a, Ch 1"])
    assert [event.action for event in events] == ["reset_gpu", "workflow"]


def test_a_double_bit_error_with_a_remapping_needs_the_reset() -> None:
    events = classify([X + "48, DBE", X + "63, Row remapping event"])
    assert [event.action for event in events] == ["reset_gpu", "ignore"]


def test_repeated_lines_are_counted() -> None:
    (event,) = classify([X + "63, Row remapping event"] * 5)
    assert event.count == 5


def test_nvswitch_errors_are_seen() -> None:
    switch = "nvidia-nvswitch0: SXid (PCI:0000:06:00.0): "
    lines = [switch + "20034, Fatal, Link 30 LTSSM Fault Up", switch + "12028, Non-fatal, Link 3"]
    fatal, other = classify(lines)
    assert (fatal.kind, fatal.code, fatal.action) == ("sxid", 20034, "workflow")
    assert other.action == "ignore"


@pytest.mark.parametrize(
    "line", ["", "eth0: link up", "NVRM: loading NVIDIA UNIX Open Kernel Module", "Xid: 79"]
)
def test_other_lines_are_no_faults(line: str) -> None:
    assert classify([line]) == []


def test_an_unknown_code_weighs_more_than_one_that_may_be_ignored() -> None:
    found = worst(classify([X + "63, a", X + "999, b", X + "31, c"]))
    assert found is not None
    assert found.code == 999


def test_every_row_has_a_known_source_and_action() -> None:
    rules = table("xid")
    rows = [*rules["codes"].values(), *rules["recovery"].values()]
    assert len(rules["codes"]) > 100
    for row in rows:
        assert row["source"] in rules["sources"]
