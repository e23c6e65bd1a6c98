"""What is read of processes, the server, progress and disks: from made files below a root."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest

from agent import disks
from agent.host import Host, rates
from agent.processes import Process, Processes, Reading, judge, parse, tree
from agent.progress import ProgressFiles, Track, follow, of_job, plain, restored, trusted
from agent.samples import Progress

# Of whoever runs the tests.
OWN = str(os.getpid())


def stat(pid: int, parent: int, state: str = "S", ticks: int = 0, name: str = "python") -> str:
    zeros = " ".join(["0"] * 9)
    return f"{pid} ({name}) {state} {parent} {zeros[:-2]} 0 {ticks} 0 0 0 20 0 1 0 77 0 0"


def proc(root: Path, pid: int, text: str, read_bytes: int | None = None) -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (root / "proc/1").mkdir(exist_ok=True)
    (folder / "stat").write_text(text)
    if read_bytes is not None:
        (folder / "io").write_text(f"rchar: 9\nread_bytes: {read_bytes}\nwrite_bytes: 0\n")


def test_a_name_with_spaces_and_parentheses_is_no_trouble() -> None:
    """GCM unpacks line.split() into two."""
    found = parse(stat(7, 3, "D", 55, "a (b) c) d").encode())
    assert found == Process(pid=7, parent=3, state="D", ticks=55, start=77)


def test_this_process_is_read_as_it_is() -> None:
    found = parse(Path("/proc/self/stat").read_bytes())
    assert (found.pid, found.parent) == (os.getpid(), os.getppid())
    assert found.start > 0


def test_the_work_of_a_tree(tmp_path: Path) -> None:
    proc(tmp_path, 10, stat(10, 1), 100)
    proc(tmp_path, 11, stat(11, 10), 0)
    proc(tmp_path, 12, stat(12, 11, "D"), 0)
    proc(tmp_path, 99, stat(99, 1, "R"))
    reader = Processes(tmp_path)
    first = reader.work({"a": [10, 4000], "b": []})
    assert first["a"].cores is None, "nothing is known from one look"
    assert (first["a"].pids, first["a"].absent) == ((10,), (4000,))
    assert first["b"].pids == ()
    proc(tmp_path, 12, stat(12, 11, "D", 50), 8000)
    (tmp_path / "proc/12/wchan").write_text("io_schedule")
    work = reader.work({"a": [10]})["a"]
    assert work.workers == 2
    assert work.waiting == 0.5
    assert work.waits == ("pid 12 in io_schedule",)
    assert work.cores is not None
    assert work.cores > 0
    assert work.read_bytes is not None
    assert work.read_bytes > 0


def test_reads_that_may_not_be_seen_are_not_zero(tmp_path: Path) -> None:
    proc(tmp_path, 10, stat(10, 1))
    reader = Processes(tmp_path)
    reader.work({"a": [10]})
    assert reader.work({"a": [10]})["a"].read_bytes is None


def test_where_others_are_hidden_nothing_is_known_of_them(tmp_path: Path) -> None:
    """/proc with hidepid: the job would look gone, and its memory leaked."""
    proc(tmp_path, 10, stat(10, 1))
    (tmp_path / "proc/1").rmdir()
    assert Processes(tmp_path).work({"a": [10, 11]}) == {}


def test_a_zombie_is_no_living_process(tmp_path: Path) -> None:
    proc(tmp_path, 10, stat(10, 1, "Z"))
    work = Processes(tmp_path).work({"a": [10]})["a"]
    assert (work.pids, work.zombies) == ((), (10,))


def test_a_process_that_ends_between_list_and_look(tmp_path: Path) -> None:
    for pid in (1, 10):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
    assert Processes(tmp_path).work({"a": [10]})["a"].absent == (10,)


def test_a_reused_number_does_not_inherit_processor_time() -> None:
    old = Reading(0.0, {5: Process(5, 1, "R", 900, start=1)}, {})
    new = Reading(1.0, {5: Process(5, 1, "R", 950, start=2)}, {})
    assert judge(old, new, [5]).cores is None


def test_a_loop_of_parents_ends() -> None:
    processes = {n: Process(n, 3 - n, "S", 0, 0) for n in (1, 2)}
    assert tree(processes, [1]) == [1, 2]


def test_a_server_that_tells_everything(tmp_path: Path) -> None:
    (tmp_path / "proc/pressure").mkdir(parents=True)
    (tmp_path / "proc/net").mkdir()
    (tmp_path / "sys/block/sda").mkdir(parents=True)
    (tmp_path / "sys/class/net/eth0").mkdir(parents=True)
    (tmp_path / "sys/class/net/eth0/speed").write_text("10000\n")

    def write(step: int) -> None:
        (tmp_path / "proc/stat").write_text(f"cpu {step} 0 0 {3 * step} {step} 0 0 0 0 0\n")
        for kind in ("cpu", "io", "memory"):
            (tmp_path / f"proc/pressure/{kind}").write_text(
                f"some avg10=0.00 avg60=0.00 avg300=0.00 total={step * 1000}\nfull total=9\n"
            )
        (tmp_path / "proc/meminfo").write_text("MemTotal: 1000 kB\nMemAvailable: 250 kB\n")
        (tmp_path / "proc/vmstat").write_text(f"pgfault 7\npgmajfault {step}\n")
        (tmp_path / "proc/diskstats").write_text(
            f"8 0 sda 1 0 {step} 0 1 0 {step} 0 0 0 0\n8 1 sda1 1 0 {step} 0 1 0 0 0 0 0 0\n"
            f"253 0 dm-0 1 0 {step} 0 1 0 0 0 0 0 0\n"
        )
        head = "Inter-|\n face |\n"
        (tmp_path / "proc/net/dev").write_text(
            head + f"  lo: {9 * step} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
            f"eth0: {step} 0 0 0 0 0 0 0 {2 * step} 0 0 0 0 0 0 0\n"
        )

    host = Host(tmp_path)
    write(0)
    before = host.read()
    write(100)
    now = host.read()
    point = rates(before, now)
    seconds = now.at - before.at
    assert point.cpu_idle == 0.6
    assert point.cpu_iowait == 0.2
    assert point.psi_io == 1.0, "never more than all of the time"
    assert point.memory_available == 0.25
    assert point.disk_bytes == pytest.approx(200 * 512 / seconds)
    assert point.received_bytes == pytest.approx(100 / seconds)
    assert point.sent_bytes == pytest.approx(200 / seconds)
    assert point.link_bytes == 1.25e9
    assert point.major_faults == pytest.approx(100 / seconds)


def test_a_server_that_tells_nothing_is_not_idle(tmp_path: Path) -> None:
    host = Host(tmp_path)
    point = rates(host.read(), host.read())
    told = (point.cpu_idle, point.psi_io, point.memory_available, point.disk_bytes,
            point.received_bytes, point.major_faults)  # fmt: skip
    assert told == (None,) * 6


def test_progress_has_an_age_and_a_longest_interval(tmp_path: Path) -> None:
    track = follow(None, "1", 100, changed_before=30)
    assert track.changed == 70
    for value, at in (("2", 110), ("2", 115), ("3", 130), ("4", 135)):
        track = follow(track, value, at)
    assert (track.changed, track.longest) == (135, 20)


def test_a_jobs_own_file_speaks_for_it_and_others_for_all(tmp_path: Path) -> None:
    files = ProgressFiles(str(tmp_path), [])
    (tmp_path / OWN).write_text("7")
    (tmp_path / "train").write_text("1")
    (tmp_path / "link").symlink_to("/etc/shadow")
    os.mkfifo(tmp_path / "pipe")
    wall = (tmp_path / OWN).stat().st_mtime
    files.look(1000.0, wall)
    (tmp_path / "train").write_text("2")
    files.look(1010.0, wall)
    assert set(files.tracks) == {str(tmp_path / OWN), str(tmp_path / "train")}
    mine = of_job(files.tracks, [os.getpid()], 1010, str(tmp_path), None)
    assert mine is not None
    assert mine.age_seconds == pytest.approx(10, abs=0.1)
    assert of_job(files.tracks, [43], 1010, str(tmp_path), None) == Progress(0.0, 0.0)
    assert of_job({}, [os.getpid()], 1010, str(tmp_path), None) is None


@pytest.mark.parametrize(
    ("name", "owner", "speaks"),
    [("42", 0, True), ("42", 1000, True), ("42", 1001, False), ("train", 1001, True),
     ("43", 1000, False)],
)  # fmt: skip
def test_only_its_user_and_root_speak_for_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, owner: int, speaks: bool
) -> None:
    status = tmp_path.stat()

    def stat_of(path: str) -> os.stat_result:
        if path != "/proc/42":
            raise FileNotFoundError(path)
        return os.stat_result([*status[:4], 1000, *status[5:]])

    with monkeypatch.context() as patch:
        patch.setattr("agent.progress.os.stat", stat_of)
        assert trusted(name, owner) is speaks


def test_what_was_seen_of_steps_outlives_a_restart(tmp_path: Path) -> None:
    """Else steps of ten minutes are called hung after five."""
    track = Track("7", changed=900.0, longest=600.0, changes=3)
    kept = json.loads(json.dumps(plain({f"{tmp_path}/train": track})))
    files = ProgressFiles(str(tmp_path), [], restored(kept))
    (tmp_path / "train").write_text("7")
    files.look(1200.0, 1e9)
    assert of_job(files.tracks, [], 1200, str(tmp_path), None) == Progress(300.0, 600.0)


def test_what_an_earlier_job_left_says_nothing_of_a_later_one(tmp_path: Path) -> None:
    files = ProgressFiles(str(tmp_path), [])
    (tmp_path / OWN).write_text("9000")
    (tmp_path / "train").write_text("9000")
    files.look(1000.0, (tmp_path / "train").stat().st_mtime + 600)
    for pid in (os.getpid(), 43):
        # Its own number was used again.
        assert of_job(files.tracks, [pid], 1000, str(tmp_path), started=900) is None
        found = of_job(files.tracks, [pid], 1000, str(tmp_path), started=300)
        assert found is not None
        assert found.age_seconds == pytest.approx(600)


def test_a_hundred_files_of_old_jobs_do_not_hide_the_newest(tmp_path: Path) -> None:
    for pid in range(100, 200):
        (tmp_path / str(pid)).write_text("1")
        # Half of them pretend to be of a later century.
        os.utime(tmp_path / str(pid), (1e9, 1e9 if pid % 2 else 4e9))
    time.sleep(0.02)
    (tmp_path / "99").write_text("1")
    files = ProgressFiles(str(tmp_path), [])
    files.look(1000.0, 1e9)
    assert len(files.tracks) == 64
    assert f"{tmp_path}/99" in files.tracks


def test_a_declared_file_shows_progress_by_its_age(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("x")
    files = ProgressFiles("/none", [str(tmp_path / "*.log")])
    files.look(500.0, log.stat().st_mtime + 60)
    found = of_job(files.tracks, [], 500, "/none", None)
    assert found is not None
    assert found.age_seconds == pytest.approx(60)


def test_a_mount_that_hangs_has_one_waiter_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """node_exporter#244 and what followed."""
    release, asked = threading.Event(), []

    def statvfs(path: str) -> os.statvfs_result:
        asked.append(path)
        if path == "/stuck":
            release.wait(30)
        return os.statvfs_result((4096, 4096, 100, 50, 25, 10, 5, 4, 0, 255))

    monkeypatch.setattr(disks.os, "statvfs", statvfs)
    monkeypatch.setattr(disks.os.path, "ismount", lambda path: True)
    monkeypatch.setattr(disks, "_PATIENCE_SECONDS", 0.05)
    found = disks.Disks(["/", "/stuck"])
    try:
        for _ in range(3):
            found.ask()
            for thread in [t for m, t in found._threads.items() if m == "/"]:
                thread.join(5)
        assert asked.count("/stuck") == 1
        assert asked.count("/") == 3
        release.wait(0.1)
        assert found.stuck() == {"/stuck"}
        assert found.spaces["/"] == disks.Space(409600, 102400, 0.4)
        assert "/stuck" not in found.spaces
    finally:
        release.set()


def test_what_is_no_mount_is_not_the_root_disk_once_more(tmp_path: Path) -> None:
    found = disks.Disks([str(tmp_path)])
    found.ask()
    found._threads[str(tmp_path)].join(5)
    assert found.spaces == {}


def test_this_process_began_on_the_clock_that_the_agent_counts_by() -> None:
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    started = Processes().work({"a": [os.getpid()]})["a"].started
    assert started is not None
    assert now - 3600 < started <= now
