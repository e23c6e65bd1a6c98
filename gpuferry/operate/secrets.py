"""secret set, list, rotate, remove: edits of the stack file, encrypted by the engine."""

from __future__ import annotations

import contextlib
import getpass
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from gpuferry.engine import config, find
from gpuferry.engine.project import Project
from gpuferry.engine.run import Pulumi
from gpuferry.errors import SpecError
from gpuferry.operate import deployment
from gpuferry.operate.console import print_json, print_table, say_on_stderr
from gpuferry.operate.drafts import stack_file_draft
from gpuferry.spec import Spec
from gpuferry.spec.fields import secret_name
from gpuferry.spec.file import load_spec

# Systemd's limit for one credential is 1 MiB; a file of keys is a few KiB.
MOST_BYTES = 64 * 1024


def read_value() -> str:
    """The value from stdin, or asked for without echo.

    Raises:
        SpecError: empty, no text, or too long; says nothing of the value.
    """
    if sys.stdin.isatty():
        text = getpass.getpass("Value (not shown): ")
    else:
        raw = sys.stdin.buffer.read(MOST_BYTES + 2)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            raise SpecError(
                "The value is no text (UTF-8). Encode it, for example with base64."
            ) from None
    return checked_value(text)


def checked_value(text: str) -> str:
    """A value that can be kept; pure.

    The newline that ends a single line is no part of a token. Several lines are a file and stay as
    they are: OpenSSH does not read a private key without its last newline.
    """
    single = text.removesuffix("\n").removesuffix("\r")
    text = text if "\n" in single else single
    if not text.strip():
        raise SpecError("The value is empty. Give it on stdin: ./ferry secret set NAME < FILE")
    if "\0" in text:
        raise SpecError("The value holds a zero byte. Encode it, for example with base64.")
    if len(text.encode()) > MOST_BYTES:
        raise SpecError(f"The value is longer than {MOST_BYTES // 1024} KiB; accepted: up to that.")
    return text


def set_(
    project: Project, name: str, servers: list[str] | None, uid: int | None, *, as_json: bool
) -> None:
    """Add a secret, or give it another value or other servers."""
    # Alerts may name it already.
    spec = load_spec(project.stack_file, secrets_may_come=True)
    _refuse(spec, name, servers)
    value = read_value()
    pulumi = _opened(project)
    with _draft(project, secrets_may_come=True) as draft:
        pulumi.set_secret(draft, f"secrets.{name}.value", value)
        pulumi.set_config(draft, f"secrets.{name}.changed", _now())
        if uid is not None:
            pulumi.set_config(draft, f"secrets.{name}.uid", str(uid))
        if servers is not None:
            if spec.secrets.get(name):
                pulumi.set_config(draft, f"secrets.{name}.servers", None)
            for index, server in enumerate(dict.fromkeys(servers)):
                pulumi.set_config(draft, f"secrets.{name}.servers[{index}]", server)
    _said(project, name, "kept, encrypted", as_json)


def rotate(project: Project, name: str, *, as_json: bool, take_over: bool) -> None:
    """Replace a value, then deploy."""
    spec = project.spec()
    _known(project, spec, name)
    value = read_value()
    pulumi = deployment.open_stack(project, spec.provider, take_over)
    pulumi.ensure_stack()
    with _draft(project) as draft:
        pulumi.set_secret(draft, f"secrets.{name}.value", value)
        pulumi.set_config(draft, f"secrets.{name}.changed", _now())
    say_on_stderr(
        f"{name}: replaced in {project.stack_file.name}; deploying. A container that mounted the "
        "old file keeps it until it is started again."
    )
    deployment.up(project, as_json=as_json, take_over=take_over)


def remove(project: Project, name: str, *, as_json: bool) -> None:
    """Take a secret out of the stack file."""
    spec = project.spec()
    _known(project, spec, name)
    pulumi = _opened(project)
    with _draft(project) as draft:
        # The last one takes the empty mapping with it.
        path = f"secrets.{name}" if len(spec.secrets) > 1 else "secrets"
        pulumi.set_config(draft, path, None)
    _said(project, name, "removed", as_json)


def show(project: Project, *, as_json: bool) -> None:
    """Names, never values."""
    spec = project.spec()
    rows = [
        {
            "name": name,
            "servers": secret.servers or [server.name for server in spec.servers],
            "uid": secret.uid,
            "changed": secret.changed,
            "path": f"/run/gpuferry/secrets/{name}",
        }
        for name, secret in sorted(spec.secrets.items())
    ]
    if as_json:
        print_json({"ok": True, "stack": project.stack, "secrets": rows})
        return
    columns = ["name", "servers", "uid", "changed", "path"]
    cells = [{**row, "servers": ", ".join(row["servers"])} for row in rows]  # type: ignore[arg-type]
    print_table("", columns, [[str(row[column]) for column in columns] for row in cells])


def _refuse(spec: Spec, name: str, servers: list[str] | None) -> None:
    """Before anybody is asked for a value."""
    try:
        secret_name(name)
    except ValueError as error:
        raise SpecError(f"NAME: {error}.") from None
    known = [server.name for server in spec.servers]
    for server in servers or []:
        if server not in known:
            raise SpecError(f"There is no server {server!r}; declared: {', '.join(known)}.")


def _known(project: Project, spec: Spec, name: str) -> None:
    if name not in spec.secrets:
        there = f"it declares {', '.join(sorted(spec.secrets))}" if spec.secrets else "it has none"
        # The name is not repeated: it may be the value, in the wrong place.
        raise SpecError(
            f"{project.stack_file.name} has no secret of that name; {there}. "
            f"See: ./ferry secret list --stack {project.stack}"
        )


def _opened(project: Project) -> Pulumi:
    pulumi = Pulumi(find.ensure(say_on_stderr), project)
    pulumi.ensure_stack()
    return pulumi


@contextlib.contextmanager
def _draft(project: Project, *, secrets_may_come: bool = False) -> Iterator[Path]:
    """A copy of the stack file that replaces it once it is whole and accepted.

    It carries the salt of a stack that is deployed already, so that the engine goes on with it.
    """
    with stack_file_draft(project) as draft:
        if salt := config.salt(project):
            with draft.open("a", encoding="utf-8") as file:
                file.write(yaml.safe_dump(salt))
        yield draft
        load_spec(draft, secrets_may_come=secrets_may_come)


def _said(project: Project, name: str, what: str, as_json: bool) -> None:
    if as_json:
        print_json({"ok": True, "stack": project.stack, "secret": name})
        return
    print(f"{name}: {what} in {project.stack_file.name}.")
    print(f"Next: ./ferry up --stack {project.stack}")


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
