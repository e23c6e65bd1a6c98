"""The one error tree.

Every error a user can cause or meet is a :class:`FerryError`: one or two sentences that name the
thing, the accepted values and the next command. Anything else that reaches the top is a defect.

Exit codes: 0 fine, 1 a check failed, 2 wrong use or environment, 3 drift.
"""

from __future__ import annotations


class FerryError(Exception):
    """Base of all expected errors; shown without a traceback."""

    exit_code = 2


class SpecError(FerryError):
    """The stack's configuration is wrong; the message starts with the key's path."""


class PrerequisiteMissing(FerryError):
    """This machine lacks something, or it is in the wrong state."""


class ServerUnreachable(FerryError):
    """A server did not answer, or answered with another host key, within the stated deadline."""


class StackLocked(FerryError):
    """Another run holds the stack."""


class StepFailed(FerryError):
    """A deployment, a play or a provider step failed."""

    exit_code = 1


class Interrupted(FerryError):
    """The person stopped the run; what exists stays, and the next run continues."""

    exit_code = 130


class CheckFailed(FerryError):
    """At least one verdict is `fail`, or nothing could be judged at all."""

    exit_code = 1


class DriftFound(FerryError):
    """The server differs from what was declared."""

    exit_code = 3
