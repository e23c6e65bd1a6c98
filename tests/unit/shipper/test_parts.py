"""The pure parts of the shipper: names, boundaries of entries, places, pauses, signatures."""

from __future__ import annotations

import datetime
import gzip
import json
from pathlib import Path

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from shipper import chunk, journal, keys, s3
from shipper.chunk import Builder, Made
from shipper.config import ConfigError, parse
from shipper.containers import moment_of
from shipper.upload import MOST_PAUSE_SECONDS, days, pause

LATE = 1_796_083_199_999_999  # 2026-11-30T23:59:59.999999Z


def binary(name: str, value: bytes) -> bytes:
    return name.encode() + b"\n" + len(value).to_bytes(8, "little") + value + b"\n"


PLAIN = b"__CURSOR=s=a;i=1;b=c\n__REALTIME_TIMESTAMP=1\nMESSAGE=a=b\nX=\n\n"
ODD = b"__CURSOR=s=a;i=2;b=c\n" + binary("MESSAGE", b"x\n\n__CURSOR=s=f;i=f;\n\n") + b"Y=1\n\n"


def test_a_chunks_name_tells_what_is_in_it() -> None:
    key = keys.chunk("gpu-1", "journal", LATE - 5, LATE, "s=1;i=2", sealed=True)
    assert key.startswith("gpuferry-logs/v1/gpu-1/2026-11-30/journal/")
    told = keys.parse(key)
    assert told == keys.Chunk(key, "gpu-1", "journal", LATE - 5, LATE, True)
    assert key == keys.chunk("gpu-1", "journal", LATE - 5, LATE, "s=1;i=2", sealed=True)
    assert key != keys.chunk("gpu-1", "journal", LATE - 5, LATE, "s=1;i=3", sealed=True)


def test_the_day_of_a_chunk_is_that_of_its_last_line() -> None:
    """So that a listing that begins at a day misses nothing of it."""
    assert "/2026-12-01/" in keys.chunk("a", "journal", LATE, LATE + 1, "", sealed=False)


@pytest.mark.parametrize(
    "key", ["", "gpuferry-logs/v1/a/2026-11-30/journal/x.gz", "gpuferry-rollups/v1/a/b/c.json"]
)
def test_other_names_are_no_chunks(key: str) -> None:
    assert keys.parse(key) is None


@pytest.mark.parametrize("data", [PLAIN, ODD, PLAIN + ODD + PLAIN, ODD + ODD])
def test_entries_end_where_they_end(data: bytes) -> None:
    assert b"".join(journal.entries(data)) == data
    assert all(journal.fields(entry)["__CURSOR"][:4] == b"s=a;" for entry in journal.entries(data))


@pytest.mark.parametrize("data", [PLAIN, ODD])
def test_no_part_of_an_entry_is_taken_for_one(data: bytes) -> None:
    assert [journal.entry_end(data[:size], 0) for size in range(len(data))] == [-1] * len(data)
    assert journal.entry_end(data, 0) == len(data)


def test_fields_are_read_as_they_are() -> None:
    assert journal.fields(ODD)["MESSAGE"] == b"x\n\n__CURSOR=s=f;i=f;\n\n"
    assert journal.fields(PLAIN)["MESSAGE"] == b"a=b"
    assert journal.fields(b"A=1\nA=2\n\n") == {"A": b"1\n2"}


@pytest.mark.parametrize(
    ("cursor", "first", "lines"),
    [
        ("s=a;i=10;b=1", "s=a;i=11;b=1", 0),
        ("s=a;i=10;b=1", "s=a;i=20;b=2", 15),
        ("s=a;i=20;b=1", "s=a;i=10;b=1", 0),
        ("s=a;i=10;b=1", "s=b;i=11;b=1", None),
        ("x", "s=b;i=11;b=1", None),
    ],
)
def test_missing_entries_are_counted_by_their_numbers(
    cursor: str, first: str, lines: int | None
) -> None:
    assert journal.missing(cursor, first) == lines


@pytest.mark.parametrize(
    ("line", "microseconds"),
    [
        (b'{"log":"x\\n","stream":"stdout","time":"2026-11-30T23:59:59.999999999Z"}', LATE),
        (b'{"log":"x\\n","stream":"stdout","time":"2026-11-30T23:59:59Z"}', LATE - 999_999),
        (b'{"log":"x\\n","time":"2026-11-30T23:59:59.5Z"}', LATE - 499_999),
        (b'{"log":"\\"time\\":\\"1\\"","time":"2026-11-30T23:59:59.999999Z"}', LATE),
        (b'{"log":"x\\n"}', 0),
        (b"", 0),
    ],
)
def test_the_time_of_a_containers_line(line: bytes, microseconds: int) -> None:
    assert moment_of(line) == microseconds


def test_a_chunk_is_one_gzip_file_with_its_header_first() -> None:
    builder = Builder()
    builder.add(b"one\ntwo\n", 2)
    made = Made("containers", builder, 1, 2, {}, {"c": [1, 8]}, [{"lines": 2}])
    body = made.body("gpu-1")
    head, _, raw = gzip.decompress(body).partition(b"\n")
    assert raw == b"one\ntwo\n"
    told = json.loads(head)
    assert (told["server"], told["lines"], told["bytes"]) == ("gpu-1", 2, 8)
    again = Builder()
    again.add(b"one\ntwo\n", 2)
    same = Made("containers", again, 1, 2, {}, {"c": [1, 8]}, [{"lines": 2}])
    assert same.body("gpu-1") == body, "the same lines are the same bytes"


def test_without_a_recipient_nothing_is_changed() -> None:
    assert chunk.seal(b"x", "") == b"x"


def test_pauses_grow_to_a_minute_and_are_spread() -> None:
    assert [pause(n, 1.0) for n in (1, 2, 3, 7, 50)] == [1, 2, 4, MOST_PAUSE_SECONDS, 60]
    assert [pause(n, 0.0) for n in (1, 2, 50)] == [0.5, 1, 30]


@pytest.mark.parametrize("method", ["PUT", "HEAD"])
def test_requests_are_signed_as_amazons_own_library_does(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.datetime(2026, 11, 30, 1, 2, 3, tzinfo=datetime.UTC)
    headers = {"content-md5": "x==", "x-amz-meta-gpuferry-sha256": "abc"}
    path = "/bucket/gpuferry-logs/v1/gpu-1/2026-11-30/journal/1-2-3.gz"
    ours = s3.sign(
        method, "store:7000", path, headers, "UNSIGNED-PAYLOAD", region="eu-1",
        access_key="AK", secret_key="SK", now=now,
    )  # fmt: skip
    request = AWSRequest(method=method, url=f"https://store:7000{path}", headers=headers)
    request.context["payload_signing_enabled"] = False
    request.context["timestamp"] = now.strftime("%Y%m%dT%H%M%SZ")
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: now, raising=False)
    signer = S3SigV4Auth(Credentials("AK", "SK"), "s3", "eu-1")
    request.headers["X-Amz-Date"] = request.context["timestamp"]
    request.headers["X-Amz-Content-SHA256"] = "UNSIGNED-PAYLOAD"
    text = signer.string_to_sign(request, signer.canonical_request(request))
    assert ours["authorization"].endswith(f"Signature={signer.signature(text, request)}")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"colour": "x"}, "'colour' is unknown; accepted: server, endpoint"),
        ({"server": ""}, "server is required, but missing"),
        ({"endpoint": "http://x"}, r"accepted: https://"),
        ({"spool_bytes": 0}, "spool_bytes is 0; accepted: a number above 0"),
        ({"delay_seconds": True}, "delay_seconds is True"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_one_sentence(
    change: dict[str, object], says: str
) -> None:
    good = {"server": "a", "endpoint": "https://x", "bucket": "b", "units": ["ssh.service"]}
    assert parse(good).units == ("ssh.service",)
    with pytest.raises(ConfigError, match=says):
        parse({**good, **change})


def test_an_authority_that_is_none_is_one_sentence() -> None:
    place = s3.Place("https://x", "b", "r", "no certificate", "/none")
    with pytest.raises(ConfigError, match="ca_pem holds no certificate"):
        s3.Store(place)


def test_drafts_are_no_days(tmp_path: Path) -> None:
    for name in ("2026-11-30.json", ".2026-11-30.json.draft", ".x.json", "notes.txt"):
        (tmp_path / name).touch()
    assert days(str(tmp_path)) == [("2026-11-30", str(tmp_path / "2026-11-30.json"))]
    assert days(str(tmp_path / "none")) == []
