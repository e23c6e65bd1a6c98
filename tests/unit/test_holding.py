"""What apt moved is held by the same run, with real apt and dpkg in a root of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import ansible.module_utils
import pytest

from gpuferry.paths import REPOSITORY

# As Ansible finds them on a server.
ansible.module_utils.__path__.append(str(REPOSITORY / "playbooks/module_utils"))
sys.path.insert(0, str(REPOSITORY / "playbooks/library"))
import debian_packages  # noqa: E402

pytestmark = pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("apt-get"), reason="needs apt and to be root"
)
NAMES = ["libnvidia-a", "nvidia-b", "other-c"]


class Root:
    """A dpkg database and a folder of packages; scripts are run without chroot."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for name in ("etc/apt/apt.conf.d", "var/lib/dpkg/info", "var/lib/apt/lists/partial",
                     "var/cache/apt/archives/partial", "var/log/apt"):  # fmt: skip
            (path / name).mkdir(parents=True)
        (path / "var/lib/dpkg/status").touch()

    def package(self, name: str, version: str, postinst: str = "") -> str:
        tree = self.path / "build" / f"{name}-{version}"
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "DEBIAN/control").write_text(
            f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: a <a@b.c>\n"
            "Description: a test\n"
        )
        if postinst:
            script = tree / "DEBIAN/postinst"
            script.write_text(f"#!/bin/sh\n{postinst}\n")
            script.chmod(0o755)
        target = self.path / f"{name}_{version}_all.deb"
        subprocess.run(["dpkg-deb", "-b", tree, target], check=True, capture_output=True)
        return str(target)

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "DPKG_ADMINDIR": str(self.path / "var/lib/dpkg")}
        return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)

    def install(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        options = [
            f"Dir={self.path}", f"Dir::State::status={self.path}/var/lib/dpkg/status",
            f"DPkg::Options::=--root={self.path}", "DPkg::Options::=--force-script-chrootless",
            "APT::Sandbox::User=root",
        ]  # fmt: skip
        flags = [word for option in options for word in ("-o", option)]
        return self.run("apt-get", "-y", *flags, "install", *arguments)

    def held(self) -> set[str]:
        rows = self.run("dpkg", "--get-selections").stdout.splitlines()
        return {row.split()[0] for row in rows if row.split()[1] == "hold"}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    done = made.install(*(made.package(name, "1") for name in NAMES))
    assert done.returncode == 0, done.stdout + done.stderr
    made.run("sh", "-c", "printf 'libnvidia-a hold\\nnvidia-b hold\\n' | dpkg --set-selections")
    assert made.held() == {"libnvidia-a", "nvidia-b"}
    return made


@pytest.mark.parametrize("postinst", ["", "exit 3"], ids=["that succeeds", "that fails"])
def test_members_are_held_after_a_run(root: Root, postinst: str) -> None:
    wanted = {
        "name": [f"{name}=2" for name in NAMES], "absent": ["nvidia-gone"], "users": [],
        "families": ["^nvidia-", "^libnvidia-"], "refresh": False, "guard": None,
        "lists_valid_seconds": float("inf"), "moves_frozen": True,
    }  # fmt: skip
    moved = [root.package(name, "2", postinst if name == "nvidia-b" else "") for name in NAMES]
    (step,) = debian_packages.steps_for(moved, wanted)
    without = [word for word in step if not word.startswith("DPkg::Post-Invoke")]
    assert len(without) == len(step) - 1

    done = root.install(*step[1:])
    assert done.returncode == (100 if postinst else 0), done.stdout + done.stderr
    assert root.held() == {"libnvidia-a", "nvidia-b"}
    assert "nvidia-gone" not in root.run("dpkg", "--get-selections").stdout
