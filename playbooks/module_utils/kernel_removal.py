"""Let a rollback remove the running kernel, which linux-base asks about and refuses by default.

Standard library only, Python 3.9 or newer. `linux-check-removal` of linux-base 4.12 asks nothing
where DEBIAN_FRONTEND is `noninteractive`. Where it asks, it first resets the answer to the
template's default, so that an answer given before has no effect (tried): the default is changed,
and the answer as well for versions that do not reset it.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile

QUESTION = "linux-base/removing-running-kernel"
TEMPLATES = "/var/lib/dpkg/info/linux-base.templates"


def removes_running(absent, release):
    """Whether the package of the running kernel is among those that go."""
    return bool({f"linux-image-{release}", f"linux-image-unsigned-{release}"} & set(absent))


def with_default(text, default):
    """The templates with another default for the one question."""
    stanza = rf"(^Template: {re.escape(QUESTION)}$(?:\n\S.*|\n .*)*?\nDefault: )\w+$"
    return re.sub(stanza, rf"\g<1>{default}", text, flags=re.M)


@contextlib.contextmanager
def allowed(templates=TEMPLATES):
    """Answer the question with yes for as long as this lasts; nothing where nobody asks."""
    if not os.path.exists(templates):
        yield
        return
    with open(templates, encoding="utf-8") as handle:
        text = handle.read()
    with tempfile.NamedTemporaryFile("w", suffix=".templates", encoding="utf-8") as changed:
        changed.write(with_default(text, "false"))
        changed.flush()
        debconf(f"X_LOADTEMPLATEFILE {changed.name} linux-base", f"SET {QUESTION} false")
    try:
        yield
    finally:
        forbid(templates)


def forbid(templates=TEMPLATES):
    """As the package has it."""
    if os.path.exists(templates):
        debconf(f"X_LOADTEMPLATEFILE {templates} linux-base", f"RESET {QUESTION}")


def debconf(*commands):
    """Without debconf nobody asks, either."""
    with contextlib.suppress(OSError):
        subprocess.run(
            ["debconf-communicate", "linux-base"],
            input="".join(f"{command}\n" for command in commands),
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )
