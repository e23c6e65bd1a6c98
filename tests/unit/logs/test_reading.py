"""Lines come back as they were, in order, of the asked time and origin."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpuferry.errors import SpecError, StepFailed
from gpuferry.logs.archive import Archive
from gpuferry.logs.lines import Line, Wanted, lines
from gpuferry.logs.moments import moment, written
from gpuferry.operate.logs import as_object, as_text, asked, nothing, read, shipped_to
from shipper import keys
from shipper.chunk import Builder, Made

NOW = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
NOON = int(NOW.timestamp() * 1e6)


def journal_entry(time: int, message: bytes, **fields: str) -> bytes:
    told = "".join(f"{name}={value}\n" for name, value in fields.items()).encode()
    size = len(message).to_bytes(8, "little")
    return f"__CURSOR=s=a;i={time:x};\n__REALTIME_TIMESTAMP={time}\n".encode() + told + (
        b"MESSAGE\n" + size + message + b"\n\n" if b"\n" in message
        else b"MESSAGE=" + message + b"\n\n"
    )  # fmt: skip


def journal_chunk(*entries: bytes, first: int = NOON, last: int = NOON) -> Made:
    builder = Builder()
    builder.add(b"".join(entries), len(entries))
    return Made("journal", builder, first, last, f"{first}", "end", [{"lines": len(entries)}])


def docker_line(second: int, text: str, stream: str = "stdout") -> bytes:
    time = f"2026-11-30T12:00:{second:02d}Z"
    told = {"log": text, "stream": stream, "time": time}
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def containers_chunk(**raw: list[bytes]) -> Made:
    builder = Builder()
    segments = []
    for name, own in raw.items():
        builder.add(b"".join(own), len(own))
        segments.append({"container": name, "id": name, "lines": len(own)})
    return Made("containers", builder, NOON, NOON + 60_000_000, "c", {}, segments)


class Bucket:
    """As far as reading asks a client of boto3."""

    def __init__(self, *chunks: Made, server: str = "gpu-1") -> None:
        self.objects = {c.key(server, sealed=False): c.body(server) for c in chunks}
        self.got: list[str] = []

    def get_paginator(self, _: str) -> Bucket:
        return self

    def paginate(self, **asked: Any) -> Iterator[dict[str, Any]]:
        after = asked.get("StartAfter", "")
        named = sorted(k for k in self.objects if k.startswith(asked["Prefix"]) and k > after)
        if "Delimiter" in asked:
            depth = asked["Prefix"].count("/") + 1
            prefixes = {"/".join(k.split("/")[:depth]) + "/" for k in named}
            yield {"CommonPrefixes": [{"Prefix": p} for p in sorted(prefixes)]}
            return
        for name in named:
            yield {"Contents": [{"Key": name}]}

    def get_object(self, **asked: str) -> dict[str, Any]:
        self.got.append(asked["Key"])
        return {"Body": io.BytesIO(self.objects[asked["Key"]])}


def archive(bucket: Bucket) -> Archive:
    return Archive({"bucket": "logs", "identity": ""}, bucket)


def test_the_journals_lines_come_back() -> None:
    chunk = journal_chunk(
        journal_entry(NOON, b"a\n\nb", _SYSTEMD_UNIT="x.service", _PID="7", PRIORITY="4"),
        journal_entry(
            NOON + 1, b"started", UNIT="x.service", SYSLOG_IDENTIFIER="systemd", _UID="0"
        ),
        journal_entry(NOON + 2, b"\xff"),
    )
    assert lines(chunk.body("s"), "k") == [
        Line(NOON, "a\n\nb", unit="x.service", pid="7", priority=4),
        Line(NOON + 1, "started", about="x.service", identifier="systemd"),
        Line(NOON + 2, "\ufffd"),
    ]


def test_containers_lines_come_back_by_time_and_whole() -> None:
    """Docker cuts at 16 KiB; the parts of one stream belong together."""
    chunk = containers_chunk(
        one=[docker_line(1, "a"), docker_line(1, "err\n", "stderr"), docker_line(2, "b\n")],
        two=[docker_line(1, "x\n"), docker_line(3, "without an end")],
    )
    assert [(line.container, line.message) for line in lines(chunk.body("s"), "k")] == [
        ("one", "err"), ("two", "x"), ("one", "ab"), ("two", "without an end"),
    ]  # fmt: skip


@pytest.mark.parametrize("priority", ["²", "6\n3", "9" * 5000, "", "8"])
def test_what_a_user_writes_into_a_field_breaks_no_chunk(priority: str) -> None:
    size = len(priority.encode()).to_bytes(8, "little")
    odd = b"PRIORITY\n" + size + priority.encode() + b"\n"
    entry = journal_entry(NOON, b"x").removesuffix(b"\n") + odd + b"\n"
    assert lines(journal_chunk(entry).body("s"), "k") == [Line(NOON, "x")]


def test_only_root_speaks_about_a_unit_or_for_a_container() -> None:
    told = {"UNIT": "ssh.service", "CONTAINER_NAME": "trainer", "_SYSTEMD_UNIT": "user.service"}
    (forged,) = lines(journal_chunk(journal_entry(NOON, b"x", _UID="1000", **told)).body("s"), "k")
    assert (forged.about, forged.container, forged.unit) == ("", "", "user.service")


def test_a_torn_line_of_a_container_is_told_as_it_is_and_breaks_no_chunk() -> None:
    """Docker on a full disk, or a power cut: the next line follows half of one, or zeros."""
    torn = b'{"log":"begun' + docker_line(2, "glued\n")
    odd = [b"\x00\x00\xff\n", b"[]\n", b'{"log":7}\n', b'{"stream":"stdout"}\n']
    chunk = containers_chunk(job=[b"{half\n", docker_line(1, "a\n"), torn, *odd])
    found = lines(chunk.body("s"), "k")
    assert [(line.time - NOON) // 1_000_000 for line in found] == [1, 1, 2, 2, 2, 2, 2]
    assert [line.message for line in found[:3]] == ["{half", "a", torn.decode().rstrip("\n")]
    assert [line.message for line in found[3:]] == ["\0\0\ufffd", "[]", '{"log":7}',
                                                    '{"stream":"stdout"}']  # fmt: skip
    key = chunk.key("gpu-1", sealed=False)
    assert lines(containers_chunk(job=[b"{\n"]).body("s"), key)[0].time == NOON


@pytest.mark.parametrize("cut", [0, 10, -9])
def test_a_broken_chunk_is_named(cut: int) -> None:
    body = journal_chunk(journal_entry(NOON, b"x")).body("s")
    with pytest.raises(StepFailed, match="the-key is broken"):
        lines(body[:cut], "the-key")


@pytest.mark.parametrize(
    ("wanted", "messages"),
    [
        (Wanted(), ["0", "1", "2", "3"]),
        (Wanted(since=NOON + 1), ["1", "2", "3"]),
        (Wanted(until=NOON + 2), ["0", "1"]),
        (Wanted(unit="a"), ["0", "2"]),
        (Wanted(unit="a.service"), ["0", "2"]),
        (Wanted(unit="b"), ["1"]),
        (Wanted(container="job"), ["3"]),
        (Wanted(container="a"), []),
    ],
)
def test_lines_are_chosen(wanted: Wanted, messages: list[str]) -> None:
    made = [
        Line(NOON, "0", unit="a.service"),
        Line(NOON + 1, "1", unit="b.service"),
        Line(NOON + 2, "2", unit="init.scope", about="a.service"),
        Line(NOON + 3, "3", container="job"),
    ]
    assert [line.message for line in made if wanted.has(line)] == messages


def test_sources_are_merged_and_only_the_asked_chunks_are_fetched() -> None:
    minute = 60_000_000
    old = journal_chunk(journal_entry(NOON - minute, b"old"), first=NOON - minute,
                        last=NOON - minute)  # fmt: skip
    new = [
        journal_chunk(journal_entry(NOON + n * 2_000_000, f"j{n}".encode()),
                      first=NOON + n * 2_000_000, last=NOON + n * 2_000_000)
        for n in range(10)
    ]  # fmt: skip
    bucket = Bucket(
        old, *new, containers_chunk(job=[docker_line(3, "c3\n"), docker_line(9, "c9\n")])
    )
    found = [line.message for line in read(archive(bucket), "gpu-1", Wanted(since=NOON))]
    assert found == ["j0", "j1", "c3", "j2", "j3", "j4", "c9", "j5", "j6", "j7", "j8", "j9"]
    assert old.key("gpu-1", sealed=False) not in bucket.got


def test_a_line_before_midnight_is_found_in_a_chunk_that_ends_after_it() -> None:
    midnight = NOON + 12 * 3600 * 1_000_000
    chunk = journal_chunk(journal_entry(midnight - 5, b"before"), journal_entry(midnight, b"after"),
                          first=midnight - 5, last=midnight)  # fmt: skip
    bucket = Bucket(chunk)
    assert keys.day(midnight) == "2026-12-01"
    asked = Wanted(since=midnight - 10, until=midnight)
    assert [line.message for line in read(archive(bucket), "gpu-1", asked)] == ["before"]


def test_an_unknown_server_is_told_which_there_are() -> None:
    bucket = Bucket(journal_chunk(journal_entry(NOON, b"x")))
    with pytest.raises(
        SpecError, match=r"no logs of 'gpu-2'.*those of: gpu-1\. Did you mean gpu-1"
    ):
        list(read(archive(bucket), "gpu-2", Wanted()))
    assert list(read(archive(bucket), "gpu-1", Wanted(since=NOON + 1))) == []


class Shared(Bucket):
    """Whose first chunk goes while it is removed; the second one is not to be removed."""

    def paginate(self, **asked: Any) -> Iterator[dict[str, Any]]:
        yield self.list_object_versions(**asked)

    def list_object_versions(self, **asked: str) -> dict[str, Any]:
        named = sorted(k for k in self.objects if k.startswith(asked["Prefix"]))
        return {"Versions": [{"Key": key, "VersionId": "1"} for key in named]}

    def delete_object(self, **asked: str) -> None:
        if f"{1:016d}-" in asked["Key"]:
            del self.objects[asked["Key"]]
        raise ClientError({"Error": {"Code": "InvalidArgument", "Message": "x"}}, "DeleteObject")


def test_two_may_prune_at_once_and_what_cannot_be_removed_is_still_an_error() -> None:
    def old(*moments: int) -> Archive:
        made = (journal_chunk(journal_entry(n, b"x"), first=n, last=n) for n in moments)
        return archive(Shared(*made))

    assert old(1).prune(NOON) == 1
    with pytest.raises(StepFailed, match="InvalidArgument"):
        old(1, 2).prune(NOON)


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("2h", NOON - 2 * 3600 * 1_000_000),
        ("90s", NOON - 90_000_000),
        ("1d", NOON - 86400 * 1_000_000),
        ("2026-11-30T12:00", NOON),
        ("2026-11-30T13:00+01:00", NOON),
        ("2026-11-30", NOON - 12 * 3600 * 1_000_000),
    ],
)
def test_moments_as_people_write_them(text: str, microseconds: int) -> None:
    assert moment(text, "--since", NOW) == microseconds


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2 h", "-1h", "99999999999d", "2026-13-01", "0001-01-01T00:00+14:00",
     "9999-12-31T23:00-12:00"],
)  # fmt: skip
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"--since: .* accepted: 30m, 2h"):
        moment(text, "--since", NOW)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"unit": ""}, "--unit is empty"),
        ({"container": " "}, "--container is empty"),
        ({"since": ""}, "--since: '' is no moment"),
        ({"until": ""}, "--until: '' is no moment"),
        ({"unit": "a", "container": "b"}, "--unit or --container, not both"),
        ({"since": "1h", "until": "2h"}, "--until 2h is not after --since 1h"),
    ],
)
def test_what_can_have_no_line_is_refused(options: dict[str, str], said: str) -> None:
    told = {"since": None, "until": None, "unit": None, "container": None, **options}
    with pytest.raises(SpecError, match=said):
        asked(told["since"], told["until"], told["unit"], told["container"], NOW)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_line_moves_the_terminal_or_looks_like_another(monkeypatch: pytest.MonkeyPatch) -> None:
    forged = "a\n2026-11-30T12:00:00.000005Z sshd[1]: Accepted\r\n"
    line = Line(NOON, f"\x1b[2J{forged}", identifier="\x1b]0;x\x07", pid="7")
    indented = "\n" + " " * 28 + "2026-11-30T12:00:00.000005Z sshd[1]: Accepted"
    assert as_text(line).endswith(f": \x1b[2Ja{indented}")
    monkeypatch.setattr("sys.stdout", Terminal())
    expected = f"2026-11-30T12:00:00.000000Z \\x1b]0;x\\x07[7]: \\x1b[2Ja{indented}"
    assert as_text(line) == expected


def test_a_line_for_people() -> None:
    line = Line(NOON + 5, "hello", identifier="sshd", pid="7")
    assert as_text(line) == "2026-11-30T12:00:00.000005Z sshd[7]: hello"
    told = json.loads(as_object(Line(NOON, "", container="job", priority=0)))
    assert told == {
        "time": "2026-11-30T12:00:00.000000Z", "message": "", "container": "job", "priority": 0,
    }  # fmt: skip
    assert written(NOON + 1_000_000) == "2026-11-30T12:00:01.000000Z"


def test_a_unit_or_container_without_lines_is_told_with_those_that_have_some() -> None:
    bucket = Bucket(
        journal_chunk(journal_entry(NOON, b"up", _SYSTEMD_UNIT="docker.service")),
        containers_chunk(trainer=[docker_line(0, "step 1")]),
    )
    for wanted, told in (
        (Wanted(unit="dcker"), "no lines of the unit 'dcker' in that time; it has: docker.service"),
        (Wanted(container="trainr"), "the container 'trainr' in that time; it has: trainer"),
        (Wanted(since=NOON + 99_000_000, unit="docker"), "gpu-1 has no lines of that time"),
    ):
        seen: set[str] = set()
        assert list(read(archive(bucket), "gpu-1", wanted, seen)) == []
        assert told in nothing("gpu-1", wanted, seen)


class State:
    """The documents that a deployment keeps, also one that failed half-way."""

    def __init__(self, **records: list[dict[str, Any]]) -> None:
        self.found = records

    def records(self, suffix: str) -> list[dict[str, Any]]:
        return self.found.get(suffix.strip(":-").replace("-", "_"), [])


STORE = {"endpoint": "https://s3", "bucket": "b", "region": "r", "ca_pem": "pem"}
KEYS = {"access_key": "a", "secret_key": "s"}


@pytest.mark.parametrize("recipient", ["", "age1xyz"])
def test_logs_are_found_where_the_servers_ship_them_without_the_stacks_outputs(
    recipient: str,
) -> None:
    ships = {"log_shipping_store": STORE, "log_shipping_credentials": KEYS,
             "log_shipping_recipient": recipient}  # fmt: skip
    silent = {"log_shipping_store": {}, "log_shipping_credentials": {}}
    state = State(
        inventory=[{"variables": silent}, {"variables": ships}],
        stack_logs_data_key=[{"identity": "AGE-SECRET-KEY", "recipient": "age1xyz"}],
    )
    opened = {**STORE, **KEYS, "name": "b", "identity": "AGE-SECRET-KEY" if recipient else ""}
    assert shipped_to(state.records) == opened
    assert shipped_to(State(inventory=[{"variables": silent}]).records) == {}
