"""Data handed to Ansible stays data."""

from __future__ import annotations

from typing import Any

import pytest

from gpuferry.converge.play import literal


@pytest.mark.parametrize(
    ("value", "handed"),
    [
        ("plain", "plain"),
        ("{single} }}", "{single} }}"),
        ("{{ x }}", {"__ansible_unsafe": "{{ x }}"}),
        ("{% x %}", {"__ansible_unsafe": "{% x %}"}),
        ("{# x", {"__ansible_unsafe": "{# x"}),
        (
            {"log-opts": {"tag": "{{.Name}}"}, "n": [1, True, None, "{{"]},
            {
                "log-opts": {"tag": {"__ansible_unsafe": "{{.Name}}"}},
                "n": [1, True, None, {"__ansible_unsafe": "{{"}],
            },
        ),
    ],
)
def test_what_looks_like_a_template_is_marked_as_none(value: Any, handed: Any) -> None:
    assert literal(value) == handed
