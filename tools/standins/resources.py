"""The life of each resource type: what happens on create, update and delete."""

from dataclasses import dataclass
from typing import Any, Protocol

from tools.standins import inputs as shapes
from tools.standins import local
from tools.standins.inputs import Shape
from tools.standins.job import Job
from tools.standins.wire import UNKNOWN, Properties, reveal

COMMAND_OUTPUTS = ("stdout", "stderr")


class Runner(Protocol):
    """Runs one command with the inputs of its resource and the outputs of its last run."""

    def __call__(
        self, command: str, inputs: Properties, previous: Properties, job: Job
    ) -> Properties:
        """Return the outputs."""


class Resource(Protocol):
    """One resource type. Inputs and state carry secret marks; an operation returns the state."""

    @property
    def shape(self) -> Shape:
        """The inputs it takes."""

    @property
    def id_prefix(self) -> bool:
        """Whether its ids begin with the resource's name."""

    def preview(self, inputs: Properties) -> Properties:
        """Return the state as far as it is known before anything is done."""

    def create(self, inputs: Properties, job: Job) -> Properties:
        """Make it."""

    def update(self, old: Properties, inputs: Properties, job: Job) -> Properties:
        """Change it from its old state."""

    def delete(self, state: Properties, job: Job) -> None:
        """Remove it."""


@dataclass(frozen=True)
class Command:
    """A command per event; stdout and stderr of the last create or update are the outputs."""

    shape: Shape
    run: Runner
    id_prefix: bool = True

    def preview(self, inputs: Properties) -> Properties:
        """Nothing can be known of what a command will print."""
        return {**inputs, **dict.fromkeys(COMMAND_OUTPUTS, UNKNOWN)}

    def create(self, inputs: Properties, job: Job) -> Properties:
        """Run `create`, if there is one."""
        empty = dict.fromkeys(COMMAND_OUTPUTS, "")
        return self._state(inputs.get("create"), inputs, empty, job)

    def update(self, old: Properties, inputs: Properties, job: Job) -> Properties:
        """Run `update`, or else `create` again."""
        previous = {name: reveal(old.get(name, "")) for name in COMMAND_OUTPUTS}
        return self._state(inputs.get("update", inputs.get("create")), inputs, previous, job)

    def delete(self, state: Properties, job: Job) -> None:
        """Run `delete`, if there is one, with the inputs that the state holds."""
        inputs = {name: value for name, value in state.items() if name not in COMMAND_OUTPUTS}
        previous = {name: reveal(state.get(name, "")) for name in COMMAND_OUTPUTS}
        self._state(state.get("delete"), inputs, previous, job)

    def _state(
        self, command: Any, inputs: Properties, previous: Properties, job: Job
    ) -> Properties:
        """Run a command (none: keep the previous outputs) and return the new state."""
        if command is None:
            return {**inputs, **previous}
        return {**inputs, **self.run(reveal(command), inputs, previous, job)}


@dataclass(frozen=True)
class CopyToRemote:
    """A file, text or directory on another machine; deleting the resource leaves it there."""

    shape: Shape = shapes.COPY_TO_REMOTE
    id_prefix: bool = False

    def preview(self, inputs: Properties) -> Properties:
        """Its state is its inputs."""
        return inputs

    def create(self, inputs: Properties, job: Job) -> Properties:
        """Copy."""
        from tools.standins.transfer import copy

        copy(inputs, job)
        return inputs

    def update(self, old: Properties, inputs: Properties, job: Job) -> Properties:
        """Copy again when content or target changed, not for another connection."""
        before, after = reveal(old), reveal(inputs)
        same_content = before["source"].get("hash") == after["source"].get("hash")
        if same_content and before["remotePath"] == after["remotePath"]:
            return inputs
        return self.create(inputs, job)

    def delete(self, state: Properties, job: Job) -> None:
        """Leave the copy, as the official plugin does."""


def run_remote(command: str, inputs: Properties, previous: Properties, job: Job) -> Properties:
    """Run on another machine; imports paramiko only now, which most programs never need."""
    from tools.standins import remote

    return remote.run(command, inputs, previous, job)


RESOURCES: dict[str, Resource] = {
    "command:local:Command": Command(shapes.LOCAL_COMMAND, local.run),
    "command:remote:Command": Command(shapes.REMOTE_COMMAND, run_remote),
    "command:remote:CopyToRemote": CopyToRemote(),
}
