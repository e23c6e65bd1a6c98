"""A Pulumi project folder and one stack in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpuferry.errors import SpecError
from gpuferry.paths import REPOSITORY, local_name
from gpuferry.spec import Spec
from gpuferry.spec.file import load_spec

DEFAULT_STACK = "local"
# Stack names become parts of Docker names and folder names.
_STACK = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,28}[a-z0-9])?")

_COMMAND = re.compile(
    r"\./ferry (?>((?:driver|plan|secret|data) [a-z]+|image [a-z]+ [a-z]+|[a-z]+))\b(?! --stack)"
)
_STACKLESS = ("doctor", "lint", "test", "bench")


@dataclass(frozen=True)
class Project:
    """Where the stack files are, and which stack is meant."""

    directory: Path = REPOSITORY
    stack: str = DEFAULT_STACK

    def __post_init__(self) -> None:
        if not _STACK.fullmatch(self.stack):
            raise SpecError(
                f"{self.stack!r} is not a stack name; accepted: lower-case letters, digits and "
                "'-', 1 to 30 characters."
            )
        if not (self.directory / "Pulumi.yaml").is_file():
            raise SpecError(
                f"{self.directory} holds no Pulumi.yaml; name the project folder with --directory."
            )

    @property
    def stack_file(self) -> Path:
        """`Pulumi.<stack>.yaml`."""
        return self.directory / f"Pulumi.{self.stack}.yaml"

    @property
    def name(self) -> str:
        """The Pulumi project's name."""
        return str(self._document().get("name", "gpuferry"))

    @property
    def local_name(self) -> str:
        """What the stack's things on this machine are named after."""
        return local_name(self.name, self.stack)

    @property
    def backend(self) -> str:
        """URL of the state backend that Pulumi.yaml names, such as a team's bucket; else empty."""
        url = str((self._document().get("backend") or {}).get("url") or "")
        # Below this project, wherever the engine is started.
        return url.replace("file://.", f"file://{self.directory.resolve()}/.", 1)

    def spec(self) -> Spec:
        """The stack's configuration, checked."""
        return load_spec(self.stack_file)

    def on_stack(self, text: str) -> str:
        """The text with every `./ferry` command in it naming this stack, unless it is the default.

        Checks, roles and plans do not know which stack they work for, but whoever copies their
        commands does.
        """
        if self.stack == DEFAULT_STACK:
            return text

        def named(found: re.Match[str]) -> str:
            return found[0] if found[1] in _STACKLESS else f"{found[0]} --stack {self.stack}"

        return _COMMAND.sub(named, text)

    def _document(self) -> dict[str, Any]:
        try:
            text = (self.directory / "Pulumi.yaml").read_text(encoding="utf-8")
            document = yaml.safe_load(text)
        except (OSError, ValueError, yaml.YAMLError) as error:
            first = str(error).splitlines()[0]
            raise SpecError(f"{self.directory}/Pulumi.yaml cannot be read: {first}") from None
        return document if isinstance(document, dict) else {}
