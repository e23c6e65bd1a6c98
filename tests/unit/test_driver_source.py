"""Package sources that a plan adds, without breaking apt for the whole server."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuferry.driver import Facts, Plan, gather
from gpuferry.driver.packages import Package
from gpuferry.driver.source import apt_source

APT = gather.gatherer().apt
Host = gather.gatherer().Host
KEYRING = "/usr/share/keyrings/debian-archive-keyring.pgp"


def seen(tmp_path: Path, files: dict[str, str]) -> dict[str, object]:
    for name, text in files.items():
        path = tmp_path / "etc/apt" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return dict(APT(Host(str(tmp_path), lambda argv, seconds: None, None), "trixie"))


@pytest.mark.parametrize(
    ("files", "archive"),
    [
        (
            {"sources.list": "deb http://deb.example/debian trixie main\n"},
            {"uri": "http://deb.example/debian", "suite": "trixie", "signed_by": ""},
        ),
        (
            {
                "sources.list.d/a.list": "deb https://pkgs.example/stable/debian trixie main2\n",
                "sources.list.d/debian.sources": "Types: deb\nURIs: mirror+file:///etc/apt/m.list\n"
                f"Suites: trixie trixie-updates\nComponents: main\nSigned-By: {KEYRING}\n",
            },
            {"uri": "mirror+file:///etc/apt/m.list", "suite": "trixie", "signed_by": KEYRING},
        ),
        (
            {
                "sources.list.d/debian.sources": "Types: deb\nURIs: http://deb.example/debian\n"
                "Suites: trixie\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY-----\n"
            },
            {"uri": "http://deb.example/debian", "suite": "trixie", "signed_by": "inline"},
        ),
        ({}, {}),
    ],
)
def test_the_archive_is_the_source_of_the_releases_main(
    tmp_path: Path, files: dict[str, str], archive: dict[str, str]
) -> None:
    assert seen(tmp_path, files)["archive"] == archive


def test_a_source_with_a_key_beside_the_same_without_is_no_conflict(tmp_path: Path) -> None:
    files = {
        "sources.list": "deb http://deb.example/debian trixie main\n",
        "sources.list.d/x.list": f"deb [signed-by={KEYRING}] http://deb.example/debian trixie x",
    }
    assert seen(tmp_path, files)["conflicts"] == []
    files["sources.list.d/y.list"] = "deb [signed-by=/other.gpg] http://deb.example/debian trixie x"
    assert seen(tmp_path, files)["conflicts"] != []


@pytest.mark.parametrize(
    ("archive", "problem"),
    [
        ({"uri": "http://deb.example/debian", "suite": "trixie", "signed_by": KEYRING}, False),
        ({"uri": "http://deb.example/debian", "suite": "trixie", "signed_by": "inline"}, True),
        ({}, True),
    ],
)
def test_components_that_cannot_be_added_are_a_problem(
    archive: dict[str, str], problem: bool
) -> None:
    facts = Facts.model_validate(
        {
            "os": {"id": "debian", "version_id": "13", "codename": "trixie"},
            "apt": {"components": ["main"], "archive": archive},
        }
    )
    plan = Plan(action="install", packages=[Package(name="nvidia-smi")])
    found = apt_source(facts, plan)
    assert found["components"] == ["contrib", "non-free", "non-free-firmware"]
    assert bool(found["problem"]) is problem
