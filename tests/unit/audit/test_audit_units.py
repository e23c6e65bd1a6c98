"""Numbers are read as people write them, and what has two readings is refused."""

from __future__ import annotations

import pytest

from gpuferry.audit.read import units

GIB, GB = 2**30, 10**9


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("24 GiB", 24 * GIB), ("24 GB", 24 * GB), ("24G", 24 * GIB), ("24g", 24 * GIB),
        ("24gb", 24 * GB), ("24 gib", 24 * GIB), ("1.5 TB", 1.5e12), ("1.5T", 1.5 * 1024**4),
        ("512 MiB", 512 * 2**20), ("81559MiB", 81559 * 2**20), ("1,5 TB", 1.5e12),
        ("1.234,5 GB", 1234.5 * GB), ("1,234.5 GB", 1234.5 * GB), ("1 500 GB", 1500 * GB),
        ("1e3 MB", GB), ("0 GB", 0), ("100 B", 100), ("3 bytes", 3), ("0,250 GB", 0.25 * GB),
    ],
)  # fmt: skip
def test_a_size_is_read_with_its_own_unit(text: str, value: float) -> None:
    assert units.size(text).value == pytest.approx(value)


def test_a_single_letter_is_noted_and_a_full_unit_is_not() -> None:
    assert "24 GiB" in units.size("24G").note
    assert units.size("24 GiB").note == ""
    assert units.size("24 GB").note == ""


def test_a_point_that_may_part_thousands_is_noted() -> None:
    assert units.size("1.500 GB").value == 1.5e9
    assert units.size("1.500 GB").note == "1.500 GB is read as 1.5 GB, not 1500"
    assert "not 1500" in units.size("1.500 GiB").note
    assert units.size("1.5 GB").note == units.size("0.250 GB").note == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("24", "no unit"), ("24 Gb", "bits"), ("1,500 GB", "1500 or as 1.500"), ("GB", "no number"),
        ("24 GHz", "no unit of size"), ("25 Gbit/s", "rate"), ("nan GB", "no number"), ("", "no"),
        ("inf GB", "no number"), ("24-32 GB", "no unit of size"), ("1e999 GB", "not finite"),
        ("~24 GB", "no number"), ("24 iB", "no unit of size"), ("24 GB GB", "no unit of size"),
    ],
)  # fmt: skip
def test_what_is_unclear_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        units.size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("4h", 14400), ("90 min", 5400), ("1h30m", 5400), ("2 d", 172800), ("1.5h", 5400),
     ("250 ms", 0.25), ("1 week", 604800), ("45s", 45), ("1 h 15 min", 4500)],
)  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    assert units.duration(text).value == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["4", "4 M", "4 years", "h", "1:30", "4hh", ""])
def test_unclear_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|unit|number"):
        units.duration(text)


@pytest.mark.parametrize(
    ("text", "bytes_s"),
    [("25 Gbit/s", 3.125e9), ("25GbE", 3.125e9), ("25 Gbps", 3.125e9), ("3 GB/s", 3e9),
     ("100 Mbit/s", 1.25e7), ("1 GiB/s", GIB)],
)  # fmt: skip
def test_rates_keep_bits_and_bytes_apart(text: str, bytes_s: float) -> None:
    assert units.rate(text).value == pytest.approx(bytes_s)


@pytest.mark.parametrize("text", ["25G", "25", "25 GB", "10 giga"])
def test_a_rate_that_leaves_bits_open_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"bits or bytes"):
        units.rate(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("7B", 7e9), ("8.03b", 8.03e9), ("350M", 3.5e8), ("1.3e9", 1.3e9), ("12000", 12000),
     ("2 trillion", 2e12), ("1T", 1e12)],
)  # fmt: skip
def test_counts(text: str, value: float) -> None:
    assert units.count(text).value == value
