"""Which checks there are, without running any."""

from __future__ import annotations

import ast
import difflib
from pathlib import Path

from gpuferry.errors import SpecError


def known_checks(folder: Path) -> list[str]:
    """The ids of all checks below a folder, for whatever server."""
    found = []
    for path in sorted(folder.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                first = node.args[0] if node.args else None
                if node.func.id == "check" and isinstance(first, ast.Constant):
                    found.append(str(first.value))
    return sorted(found)


def refuse_unknown(select: list[str], known: list[str]) -> None:
    """Refuse what is neither a check's id nor a concern.

    Raises:
        SpecError: names what comes near.
    """
    concerns = sorted({identity.split(".")[0] for identity in known})
    for name in select:
        if name in known or name in concerns:
            continue
        concern = name.split(".")[0]
        near = difflib.get_close_matches(name, [*known, *concerns], n=3)
        near = near or [identity for identity in known if identity.startswith(f"{concern}.")]
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Concerns: {', '.join(concerns)}."
        raise SpecError(f"--only {name}: there is no such check. {hint}")
