"""Facts of this machine that local servers inherit, keys, and the names of things."""

from __future__ import annotations

import datetime
import os
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography import x509

from gpuferry import keys
from gpuferry.converge import proof
from gpuferry.nodes.local import baked, host, network

DEB822 = """\
Types: deb
# a comment with URIs: http://wrong
URIs: http://mirror.example/debian/
Suites: bookworm bookworm-updates
Components: main

Types: deb deb-src
URIs: http://mirror.example/debian-security
Suites: bookworm-security
"""


@pytest.mark.parametrize(
    ("files", "debian", "security"),
    [
        ({}, None, None),
        (
            {"sources.list.d/debian.sources": DEB822},
            "http://mirror.example/debian",
            "http://mirror.example/debian-security",
        ),
        (
            {
                "sources.list": "# deb http://old/debian x main\n"
                "deb [signed-by=/k] http://m/debian bookworm main\n"
                "deb http://s/debian-security bookworm-security main\n"
            },
            "http://m/debian",
            "http://s/debian-security",
        ),
        ({"sources.list.d/a.list": "deb http://other.example/tool stable main\n"}, None, None),
        (
            {"sources.list.d/src.sources": "Types: deb-src\nURIs: http://m/debian\nSuites: x\n"},
            None,
            None,
        ),
    ],
)
def test_the_hosts_own_mirrors_are_found(
    tmp_path: Path, files: dict[str, str], debian: str | None, security: str | None
) -> None:
    for name, text in files.items():
        path = tmp_path / "etc/apt" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = host.package_sources(tmp_path)
    assert (found.debian, found.security) == (debian, security)


def test_a_hybrid_host_gives_the_unified_tree(tmp_path: Path) -> None:
    assert host.cgroup_arguments(tmp_path)[0] == "--cgroupns=private"
    (tmp_path / "sys/fs/cgroup/unified").mkdir(parents=True)
    assert host.cgroup_arguments(tmp_path)[0] == "--cgroupns=host"


def test_added_certificate_authorities_are_found(tmp_path: Path) -> None:
    assert host.extra_ca_certificates(tmp_path) == {}
    folder = tmp_path / host.CA_DIRECTORY
    folder.mkdir(parents=True)
    (folder / "own.crt").write_text("PEM")
    (folder / "README").write_text("no certificate")
    assert host.extra_ca_certificates(tmp_path) == {"own.crt": "PEM"}


def test_addresses_are_kept_by_name_and_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    first = network.reserve_address("s", "a")
    assert network.reserve_address("s", "b") != first
    assert network.reserve_address("s", "a") == first
    network.release_address("s", "a")
    network.release_address("s", "never-there")
    assert network.reserve_address("s", "c") == first


def test_openssh_reads_the_keys_we_make(tmp_path: Path) -> None:
    pair = keys.ssh_key_pair("note")
    path = tmp_path / "key"
    path.touch(mode=stat.S_IRUSR | stat.S_IWUSR)
    path.write_text(pair["private"])
    shown = subprocess.run(
        ["ssh-keygen", "-y", "-f", path], capture_output=True, text=True, check=True
    ).stdout
    assert shown.split()[:2] == pair["public"].split()[:2]
    assert pair["public"].endswith(" note")


def test_openssl_accepts_the_servers_certificate(tmp_path: Path) -> None:
    ca = keys.certificate_authority("s")
    pair = keys.server_certificate(ca["ca_pem"], ca["ca_key"], ["10.0.0.2", "fd00::2"])
    (tmp_path / "ca").write_text(ca["ca_pem"])
    (tmp_path / "cert").write_text(pair["cert_pem"])
    for address in ("10.0.0.2", "fd00::2"):
        check = [
            "openssl",
            "verify",
            "-x509_strict",
            "-CAfile",
            "ca",
            "-verify_ip",
            address,
            "cert",
        ]
        subprocess.run(check, cwd=tmp_path, check=True, capture_output=True)
    wrong = ["openssl", "verify", "-CAfile", "ca", "-verify_ip", "10.0.0.3", "cert"]
    assert subprocess.run(wrong, cwd=tmp_path, check=False, capture_output=True).returncode != 0
    days = x509.load_pem_x509_certificate(pair["cert_pem"].encode()).not_valid_after_utc
    assert days < datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=826)


def test_access_keys_differ_and_have_amazons_lengths() -> None:
    one, two = keys.access_key(), keys.access_key()
    assert one != two
    assert (len(one["access_key"]), len(one["secret_key"])) == (20, 40)


def _role(root: Path, text: str) -> None:
    path = root / "roles/base/tasks/main.yml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    (root / "roles/base/meta").mkdir(exist_ok=True)
    (root / "roles/base/meta/owns.yml").write_text("files: [/x]\n")


def test_a_proof_depends_on_the_role_its_variables_and_nothing_else(tmp_path: Path) -> None:
    _role(tmp_path, "one")
    before = proof.inputs_digest("base", {"base_a": 1, "docker_b": 1}, tmp_path)
    assert proof.inputs_digest("base", {"base_a": 1, "docker_b": 2}, tmp_path) == before
    assert proof.inputs_digest("base", {"base_a": 2, "docker_b": 1}, tmp_path) != before
    _role(tmp_path, "two")
    assert proof.inputs_digest("base", {"base_a": 1, "docker_b": 1}, tmp_path) != before


def test_every_role_says_what_it_owns_and_no_two_own_the_same_file() -> None:
    from gpuferry.desired import ALL_ROLES
    from gpuferry.paths import REPOSITORY

    assert {p.name for p in (REPOSITORY / "roles").iterdir()} == set(ALL_ROLES)
    owned = [(path, role) for role in ALL_ROLES for path in proof.owns(role).files]
    paths = [path for path, _ in owned]
    assert len(paths) == len(set(paths)), owned
    assert all(proof.owns(role).files or proof.owns(role).commands for role in ALL_ROLES)


def test_the_passphrase_is_made_once_and_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpuferry.engine import find

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "d"))
    find.prepare_state()
    path = tmp_path / "c/gpuferry/passphrase"
    first = path.read_text()
    find.prepare_state()
    assert path.read_text() == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["passphrase"]


def test_a_role_is_played_again_when_a_variable_that_it_reads_changes() -> None:
    before, after = ({"nvidia_driver_wish": {"cuda": {"runtime": r}}} for r in ([], ["12.4"]))
    for role in ("nvidia_driver", "nvidia_cuda", "fabric_manager", "container_toolkit"):
        assert proof.inputs_digest(role, before) != proof.inputs_digest(role, after), role
    assert proof.inputs_digest("docker", before) == proof.inputs_digest("docker", after)


def test_what_a_killed_bake_left_is_known_by_its_process() -> None:
    alive, dead = os.getpid(), 2**22 + 1  # beyond pid_max
    stacks = [f"bake-{alive}", f"bake-{dead}", "bake", "bake-me", f"x-bake-{dead}", "local"]
    assert baked.left_by_killed(stacks) == [f"bake-{dead}"]
