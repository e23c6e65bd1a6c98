"""Keys of encrypted logs, by age: servers have the public one, the stack's state the other."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable

from gpuferry.errors import StepFailed
from gpuferry.prepare import packages

_PAIR = re.compile(r"^# public key: (age1\S+)$.*^(AGE-SECRET-KEY-1\S+)$", re.MULTILINE | re.DOTALL)
_SECONDS = 60


def key_pair(say: Callable[[str], None]) -> dict[str, str]:
    """A new pair: `identity` opens what was encrypted for `recipient`.

    Raises:
        PrerequisiteMissing: age is not here and cannot be installed.
        StepFailed: age-keygen made none.
    """
    packages.install_missing(say, ("age",))
    made = subprocess.run(
        ["age-keygen"], capture_output=True, text=True, check=False, timeout=_SECONDS
    )
    found = _PAIR.search(made.stdout)
    if made.returncode != 0 or found is None:
        raise StepFailed(f"age-keygen made no key (exit code {made.returncode}).")
    return {"identity": found[2], "recipient": found[1]}


def unseal(data: bytes, identity: str, what: str) -> bytes:
    """Decrypt; the identity is a file in memory that only age gets.

    Raises:
        StepFailed: it was encrypted for another key, or is not what age wrote.
    """
    descriptor = os.memfd_create("identity")
    try:
        os.write(descriptor, f"{identity}\n".encode())
        done = subprocess.run(
            ["age", "--decrypt", "--identity", f"/proc/self/fd/{descriptor}"],
            input=data,
            capture_output=True,
            check=False,
            pass_fds=(descriptor,),
            timeout=_SECONDS,
        )
    finally:
        os.close(descriptor)
    if done.returncode == 0:
        return done.stdout
    words = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
    if "no identity matched" in words[0]:
        raise StepFailed(
            f"{what} was encrypted for another key than this stack's. If the stack is new, take "
            "the key of the old one: docs/logs.md says how."
        )
    raise StepFailed(f"{what} cannot be opened: {words[0]}")
