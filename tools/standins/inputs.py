"""The inputs that each resource type takes, and what is wrong with given ones."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tools.standins.output import LOGGED
from tools.standins.wire import ARCHIVE, ASSET, SIGNATURE, Properties, conceal, has_unknown, reveal


@dataclass(frozen=True)
class Kind:
    """A kind of value: how to name it in an error, and how to recognise it."""

    name: str
    accepts: Callable[[Any], bool]


def _is_source(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if value.get(SIGNATURE) == ASSET:
        return "path" in value or "text" in value
    return value.get(SIGNATURE) == ARCHIVE and "path" in value


TEXT = Kind("a string", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
NUMBER = Kind("a number", lambda value: isinstance(value, int | float) and value is not True)
LIST = Kind("a list", lambda value: isinstance(value, list))
TEXTS = Kind(
    "a list of strings",
    lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
)
TEXT_MAP = Kind(
    "a map of strings",
    lambda value: isinstance(value, dict) and all(isinstance(item, str) for item in value.values()),
)
LOGGING = Kind(f"one of {', '.join(LOGGED)}", lambda value: value in LOGGED)
CONNECTION = Kind("a connection", lambda value: isinstance(value, dict))
SOURCE = Kind("a FileAsset, a StringAsset or a FileArchive", _is_source)


@dataclass(frozen=True)
class Shape:
    """The inputs of one type: known ones, required ones, and refused ones with the reason."""

    kinds: dict[str, Kind]
    required: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def problems(self, inputs: Properties, prefix: str = "") -> Iterator[str]:
        """Yield a sentence for each problem; never with a value, which may be a secret."""
        for name, value in inputs.items():
            path = prefix + name
            if name in self.refused:
                yield f"{path} is not supported by this stand-in: {self.refused[name]}"
            elif name not in self.kinds:
                yield f"{path} is not an input; the inputs are {', '.join(sorted(self.kinds))}"
            elif not has_unknown(value) and not self.kinds[name].accepts(value):
                yield f"{path} must be {self.kinds[name].name}"
            elif self.kinds[name] is CONNECTION and isinstance(value, dict):
                yield from CONNECTION_SHAPE.problems(value, f"{path}.")
        for name, reason in self.required.items():
            if name not in inputs:
                yield f"{prefix}{name} is missing{reason}"


_COMMAND = {
    "create": TEXT,
    "update": TEXT,
    "delete": TEXT,
    "triggers": LIST,
    "stdin": TEXT,
    "logging": LOGGING,
    "addPreviousOutputInEnv": FLAG,
}
_PROCESS = {"interpreter": TEXTS, "dir": TEXT, "environment": TEXT_MAP}
_NO_GLOBS = "let the command print the content, or read the files in the program"
_NO_PROCESS_GLOBS = {"assetPaths": _NO_GLOBS, "archivePaths": _NO_GLOBS}

CONNECTION_SHAPE = Shape(
    kinds={
        "host": TEXT,
        "port": NUMBER,
        "user": TEXT,
        "password": TEXT,
        "privateKey": TEXT,
        "privateKeyPassword": TEXT,
        "hostKey": TEXT,
        "dialErrorLimit": NUMBER,
        "perDialTimeout": NUMBER,
    },
    required={
        "host": "",
        # Stricter than the official plugin, which then accepts any server.
        "hostKey": ": the server's public host key is required, an unchecked server is refused",
    },
    refused={
        "proxy": "connect directly, or through a tunnel that you opened yourself",
        "agentSocketPath": "set SSH_AUTH_SOCK for pulumi instead",
    },
)
# What the official plugin fills in, so that both write the same state.
CONNECTION_DEFAULTS: Properties = {
    "user": "root",
    "port": 22,
    "dialErrorLimit": 10,
    "perDialTimeout": 15,
}

LOCAL_COMMAND = Shape(kinds={**_COMMAND, **_PROCESS}, refused=_NO_PROCESS_GLOBS)
LOCAL_RUN = Shape(
    kinds={
        "command": TEXT,
        "stdin": TEXT,
        "logging": LOGGING,
        "addPreviousOutputInEnv": FLAG,
        **_PROCESS,
    },
    required={"command": ""},
    refused=_NO_PROCESS_GLOBS,
)
REMOTE_COMMAND = Shape(
    kinds={**_COMMAND, "connection": CONNECTION},
    required={"connection": ""},
    refused={
        "environment": "servers drop it unless their AcceptEnv lists each name; use stdin instead"
    },
)
COPY_TO_REMOTE = Shape(
    kinds={"connection": CONNECTION, "triggers": LIST, "source": SOURCE, "remotePath": TEXT},
    required={"connection": "", "source": "", "remotePath": ""},
)


def complete(inputs: Properties) -> Properties:
    """Fill in the defaults of a connection and mark it secret, as the official plugin does."""
    if "connection" not in inputs:
        return inputs
    connection = inputs["connection"]
    plain = reveal(connection)
    if isinstance(plain, dict):
        connection = conceal({**CONNECTION_DEFAULTS, **plain})
    return {**inputs, "connection": conceal(connection)}
