"""What works with a run's private directory ends with the run."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from gpuferry.nodes.private_dir import private_directory


def test_a_helper_that_detached_itself_ends_with_the_run(tmp_path: Path) -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    with private_directory(tmp_path) as folder:
        helper = subprocess.Popen([*sleep, f"{folder}/x"], start_new_session=True)
        # A process has no command line for a moment while it becomes another program.
        deadline = time.monotonic() + 10
        while str(folder).encode() not in Path(f"/proc/{helper.pid}/cmdline").read_bytes():
            assert time.monotonic() < deadline, "waited for the helper's command line"
    assert helper.wait(timeout=10) == -9


def test_the_helper_of_a_live_run_is_left_alone(tmp_path: Path) -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    with (
        private_directory(tmp_path) as live,
        subprocess.Popen([*sleep, f"{live}/x"], start_new_session=True) as helper,
    ):
        with private_directory(tmp_path):
            pass
        assert helper.poll() is None
        helper.kill()
