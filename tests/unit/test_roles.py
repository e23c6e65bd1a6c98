"""Roles keep their promises on paper: variables, specs, what they own."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpuferry.desired import ALL_ROLES
from gpuferry.paths import REPOSITORY


def load(role: str, part: str) -> dict[str, object]:
    path: Path = REPOSITORY / "roles" / role / part
    return dict(yaml.safe_load(path.read_text()) or {})


@pytest.mark.parametrize("role", ALL_ROLES)
def test_defaults_and_argument_specs_have_the_same_keys(role: str) -> None:
    options = load(role, "meta/argument_specs.yml")["argument_specs"]["main"]["options"]  # type: ignore[index]
    assert set(load(role, "defaults/main.yml")) == set(options)


@pytest.mark.parametrize("role", ALL_ROLES)
def test_variables_carry_their_roles_name(role: str) -> None:
    assert all(name.startswith(f"{role}_") for name in load(role, "defaults/main.yml"))


@pytest.mark.parametrize("role", ALL_ROLES)
def test_every_role_has_checks(role: str) -> None:
    assert (REPOSITORY / "checks" / f"test_{role}.py").exists()
