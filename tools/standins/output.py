"""What a command prints: kept for the outputs, shown line by line, cleared of secrets."""

import threading
from collections.abc import Callable, Iterable

from tools.standins.wire import Properties, conceal, reveal, secret_texts

STDOUT = "stdout"
STDERR = "stderr"

# The streams that each value of the `logging` input lets through to the engine's log.
LOGGED = {
    "stdout": {STDOUT},
    "stderr": {STDERR},
    "stdoutAndStderr": {STDOUT, STDERR},
    "none": set(),
}

REDACTED = "[secret]"

# A connection is secret as a whole, but an error may well name the host and the user.
CONNECTION_SECRETS = ("password", "privateKey", "privateKeyPassword")


class CommandFailed(Exception):
    """A command ended badly; the text is what the user reads."""


class Capture:
    """Collects both streams of one command and passes on the lines that may be logged."""

    def __init__(self, logging: str | None, log: Callable[[str], None]) -> None:
        """Start empty; `logging` is the input of that name, absent means both streams."""
        self._logged = LOGGED[logging or "stdoutAndStderr"]
        self._log = log
        self._lines: dict[str, list[str]] = {STDOUT: [], STDERR: []}
        self._shown: list[str] = []

    def follow(self, name: str, stream: Iterable[bytes]) -> threading.Thread:
        """Read a stream to its end in a thread of its own, which is returned."""
        thread = threading.Thread(target=self._read, args=(name, stream))
        thread.start()
        return thread

    def _read(self, name: str, stream: Iterable[bytes]) -> None:
        for raw in stream:
            line = raw.decode(errors="replace")
            self._lines[name].append(line)
            if name in self._logged:
                self._shown.append(line)
                self._log(line.removesuffix("\n"))

    def outputs(self) -> Properties:
        """Return the outputs `stdout` and `stderr`, each without its last newline."""
        return {name: "".join(lines).removesuffix("\n") for name, lines in self._lines.items()}

    def failure(self, reason: str, command: str, inputs: Properties) -> CommandFailed:
        """Describe a failed command: reason, command, and the output that may be logged.

        The official plugin repeats the whole output; here a stream that `logging` keeps out of
        the log stays out of the error too, and secret inputs are blanked.
        """
        text = f"{reason}: running {command!r}:\n{''.join(self._shown)}"
        return CommandFailed(redact(text, inputs))


def redact(text: str, inputs: Properties) -> str:
    """Blank every secret input in a text, also where only one of its lines is quoted."""
    connection = reveal(inputs.get("connection", {}))
    credentials = [conceal(connection[name]) for name in CONNECTION_SECRETS if name in connection]
    others = [value for name, value in inputs.items() if name != "connection"]
    pieces: set[str] = set()
    for secret in secret_texts([*credentials, *others]):
        pieces.update((secret, repr(secret)[1:-1], *secret.splitlines()))
    for piece in sorted(pieces, key=len, reverse=True):
        if piece.strip():
            text = text.replace(piece, REDACTED)
    return text
