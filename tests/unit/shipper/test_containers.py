"""Docker's files are followed through rotation, emptying, removal and restarts."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from shipper.chunk import Made
from shipper.config import Config
from shipper.containers import Containers
from shipper.run import Shipper

ID = "c" * 64


class Docker:
    """Writes as the driver json-file does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "containers" / ID
        self.folder.mkdir(parents=True)
        (self.folder / "config.v2.json").write_text('{"Name": "/job"}')
        self.base = self.folder / f"{ID}-json.log"
        self.count = 0

    def log(self, lines: int) -> None:
        with self.base.open("a") as file:
            for _ in range(lines):
                self.count += 1
                time = f"2026-11-30T00:00:{self.count % 60:02d}.5Z"
                file.write(f'{{"log":"{self.count}\\n","stream":"stdout","time":"{time}"}}\n')

    def rotate(self, most: int = 3) -> None:
        for number in range(most - 1, 0, -1):
            older = Path(f"{self.base}.{number}")
            newer = Path(f"{self.base}.{number - 1}") if number > 1 else self.base
            if newer.exists():
                newer.replace(older)


@pytest.fixture
def docker(tmp_path: Path) -> Docker:
    return Docker(tmp_path)


def reader(tmp_path: Path, positions: dict[str, list[int]] | None = None) -> Containers:
    made = Containers(str(tmp_path), positions)
    made.scan()
    return made


def read_once(tmp_path: Path) -> Made:
    """What a reader takes that is gone then."""
    first = reader(tmp_path)
    made = first.take()
    assert made is not None
    first.close()
    return made


def numbers(made: Made | None) -> list[int]:
    if made is None:
        return []
    raw = gzip.decompress(made.body("x")).splitlines()[1:]
    return [int(line.split(b'"')[3].removesuffix(b"\\n")) for line in raw]


def test_only_new_whole_lines_are_taken(tmp_path: Path, docker: Docker) -> None:
    docker.log(3)
    with docker.base.open("a") as file:
        file.write('{"log":"half')
    containers = reader(tmp_path)
    made = containers.take()
    assert made is not None
    assert numbers(made) == [1, 2, 3]
    assert made.segments == [{"container": "job", "id": ID[:12], "lines": 3}]
    assert containers.take() is None
    containers.close()


def test_a_rotation_is_followed(tmp_path: Path, docker: Docker) -> None:
    docker.log(3)
    containers = reader(tmp_path)
    assert numbers(containers.take()) == [1, 2, 3]
    docker.log(2)
    docker.rotate()
    docker.log(2)
    docker.rotate()
    docker.log(1)
    assert numbers(containers.take()) == [4, 5, 6, 7, 8]
    assert containers.gaps() == []
    containers.close()


def test_what_was_rotated_away_unread_is_a_gap(tmp_path: Path, docker: Docker) -> None:
    docker.log(3)
    containers = reader(tmp_path)
    assert numbers(containers.take()) == [1, 2, 3]
    docker.log(1)
    for _ in range(4):
        docker.rotate()
        docker.log(2)
    # The file that is held open is still read to its end.
    assert numbers(containers.take()) == [4, 7, 8, 9, 10, 11, 12]
    assert containers.gaps() == ["job"]
    assert containers.gaps() == []
    containers.close()


def test_an_emptied_file_is_a_gap_and_goes_on(tmp_path: Path, docker: Docker) -> None:
    docker.log(3)
    containers = reader(tmp_path)
    containers.take()
    docker.base.write_text("")
    docker.log(1)
    assert numbers(containers.take()) == [4]
    assert containers.gaps() == ["job"]
    containers.close()


def test_the_last_words_of_a_removed_container_are_read(tmp_path: Path, docker: Docker) -> None:
    docker.log(1)
    containers = reader(tmp_path)
    docker.log(2)
    for path in docker.folder.iterdir():
        path.unlink()
    docker.folder.rmdir()
    assert numbers(containers.take()) == [1, 2, 3]
    assert containers.take() is None
    assert containers.positions() == {}
    assert containers.gaps() == []


def test_a_restart_goes_on_in_the_rotated_file(tmp_path: Path, docker: Docker) -> None:
    docker.log(3)
    made = read_once(tmp_path)
    docker.log(1)
    docker.rotate()
    docker.log(1)
    again = reader(tmp_path, made.end)
    assert numbers(again.take()) == [4, 5]
    assert again.gaps() == []
    again.close()


def test_a_container_that_went_while_nobody_looked_is_a_gap(tmp_path: Path) -> None:
    (tmp_path / "containers").mkdir()
    assert reader(tmp_path, {ID: [1, 10]}).gaps() == [ID[:12]]


def test_who_fills_a_chunk_does_not_keep_the_others_waiting(
    tmp_path: Path, docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shipper.containers.MOST_RAW_BYTES", 1)
    other = docker.folder.parent / ("d" * 64)
    other.mkdir()
    line = '{"log":"x\\n","stream":"stdout","time":"2026-11-30T00:00:00Z"}\n'
    (other / f"{other.name}-json.log").write_text(line)
    docker.log(1)
    containers = reader(tmp_path)
    seen = []
    for _ in range(6):
        # Both have something all the time.
        docker.log(1)
        with (other / f"{other.name}-json.log").open("a") as file:
            file.write(line)
        made = containers.take()
        assert made is not None
        seen += [segment["id"] for segment in made.segments]
    assert sorted(seen) == [ID[:12]] * 3 + ["d" * 12] * 3
    containers.close()


def test_a_disk_that_comes_after_the_start_is_no_gap(tmp_path: Path, docker: Docker) -> None:
    docker.log(2)
    made = read_once(tmp_path)
    away = (tmp_path / "containers").rename(tmp_path / "away")
    again = reader(tmp_path, made.end)
    assert again.take() is None
    away.rename(tmp_path / "containers")
    docker.log(1)
    again.scan()
    assert (numbers(again.take()), again.gaps()) == ([3], [])
    again.close()


def test_a_container_that_was_read_to_its_end_is_not_missed_by_the_next_start(
    tmp_path: Path, docker: Docker
) -> None:
    """Its last position is in the state, and no later lines of others replaced it."""

    def shipper() -> Shipper:
        return Shipper(Config("s", "https://127.0.0.1:9", "b", state_folder=str(tmp_path / "state"),
                              docker_folder=str(tmp_path)))  # fmt: skip

    (tmp_path / "state").mkdir()
    docker.log(3)
    first = shipper()
    first.containers.scan()
    assert first._take_containers(None)
    for path in docker.folder.iterdir():
        path.unlink()
    docker.folder.rmdir()
    assert first._take_containers(None)
    first._note_ended()
    # Whether its lines are still in the spool, or verified meanwhile.
    for _ in range(2):
        again = shipper()
        again.containers.scan()
        assert again.containers.gaps() == []
        again._note_ended()
        assert again.state.ended == [ID]
        if entry := again.spool.oldest():
            again.state.shipped(entry, 1)
            again.spool.remove(entry)
    # And forgotten itself when the positions do not name it any more.
    again.state.positions.clear()
    again._note_ended()
    assert again.state.ended == []


def test_another_driver_is_named(tmp_path: Path, docker: Docker) -> None:
    (docker.folder / "hostconfig.json").write_text('{"LogConfig": {"Type": "local"}}')
    containers = reader(tmp_path)
    assert containers.others == {"job": "local"}


def test_a_server_without_docker_is_fine(tmp_path: Path) -> None:
    assert reader(tmp_path / "none").take() is None
