"""The entry script."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gpuferry.paths import REPOSITORY


def test_a_package_of_that_name_where_the_user_stands_is_not_run(tmp_path: Path) -> None:
    other = tmp_path / "gpuferry"
    other.mkdir()
    for name in ("__init__", "__main__"):
        (other / f"{name}.py").write_text("print('another checkout')\n")
    # `lint` runs in the environment that the tests run in, so nothing is installed.
    argv = [str(REPOSITORY / "ferry"), "lint", "--help"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "another checkout" not in done.stdout
    assert "Usage: ./ferry lint" in done.stdout
