"""Run Pulumi on a project: deploy, preview, destroy, read outputs."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from gpuferry.engine import config, events, locks
from gpuferry.engine.find import Engine, environment, prepare_state, without_sidecars
from gpuferry.engine.project import Project
from gpuferry.errors import Interrupted, PrerequisiteMissing, StackLocked, StepFailed
from gpuferry.paths import POLICY_CONFIG, REPOSITORY
from gpuferry.spec.load import NAMESPACE

OnEvent = Callable[[events.Event], None]
# From the end of a name to the documents under such names.
Records = Callable[[str], list[dict[str, Any]]]
_PACK = REPOSITORY / "policy"
_PR_SET_PDEATHSIG = 1


class Pulumi:
    """The engine on one stack."""

    def __init__(self, engine: Engine, project: Project, *, backend: str | None = None) -> None:
        self.engine = engine
        self.project = project
        self._interrupted = False
        prepare_state()
        self._environment = {**os.environ, **environment(engine, project)}
        if backend is not None:
            self._environment["PULUMI_BACKEND_URL"] = without_sidecars(backend)

    def release_stale_lock(self, take_over: bool = False) -> list[str]:
        """Clear what killed runs left; refuse while another run is alive."""
        url = self._environment.get("PULUMI_BACKEND_URL", "")
        if not url.startswith("file://"):
            # Locks in a bucket are seen by the engine alone, which refuses where there is one.
            return self._cancel() if take_over and self.exists() else []
        state = Path(url.removeprefix("file://").split("?")[0]).expanduser()
        return locks.clear_or_refuse(state, self.project.name, self.project.stack, take_over)

    def _cancel(self) -> list[str]:
        """Remove whatever locks there are on the stack."""
        self._text(*self._stack("cancel"), "--yes")
        return ["taking the stack over: no lock is left on it"]

    def ensure_stack(self) -> None:
        """Create the stack where it is missing."""
        if self.exists():
            return
        # In a folder of its own: Pulumi would write the stack's salt into the user's file.
        with tempfile.TemporaryDirectory(prefix="gpuferry-init-") as folder:
            program = {"name": self.project.name, "runtime": "python"}
            (Path(folder) / "Pulumi.yaml").write_text(yaml.safe_dump(program))
            self._text("stack", "init", self.project.stack, "--cwd", folder)

    def exists(self) -> bool:
        """Whether the stack is known to the backend."""
        listed = json.loads(self._text("stack", "ls", "--json"))
        return any(entry["name"].rsplit("/", 1)[-1] == self.project.stack for entry in listed)

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs, secrets decrypted; empty when nothing is deployed."""
        command = self._stack("stack", "output")
        return dict(json.loads(self._text(*command, "--json", "--show-secrets")))

    def records(self, suffix: str) -> list[dict[str, Any]]:
        """Documents that the program keeps in the state under names with this suffix, decrypted.

        They are there also when a deployment failed half-way, unlike outputs.
        """
        return self.all_records()(suffix)

    def all_records(self) -> Records:
        """The state read once: `records` for as many suffixes as are asked of what is returned."""
        command = self._stack("stack", "export", "--show-secrets")
        deployment = json.loads(self._text(*command)).get("deployment") or {}
        kept = [
            resource
            for resource in deployment.get("resources") or []
            if resource["type"] == "command:local:Command" and not resource.get("delete")
        ]
        return lambda suffix: [
            json.loads(_plaintext(resource["outputs"]["stdout"]))
            for resource in kept
            if resource["urn"].endswith(suffix)
        ]

    def state(self) -> dict[str, Any]:
        """The stack's state, secrets encrypted."""
        return dict(json.loads(self._text(*self._stack("stack", "export"))))

    def set_config(self, file: Path, path: str, value: str | None) -> None:
        """Set one value of a stack file, or remove it with None; comments are kept."""
        key = f"{NAMESPACE}:{path}"
        options = ("--path", "--config-file", str(file))
        if value is None:
            self._text(*self._stack("config", "rm", *options), "--", key)
        else:
            # Pulumi guesses from names and values what may be a secret, and then refuses to go on.
            plain = (*options, "--plaintext")
            self._text(*self._stack("config", "set", *plain), "--", key, value)

    def set_secret(self, file: Path, path: str, value: str) -> None:
        """Set one value of a stack file, encrypted. It goes by stdin, never as an argument."""
        options = ("--path", "--config-file", str(file), "--secret")
        # The engine takes one newline off the end.
        command = self._stack("config", "set", *options)
        self._text(*command, "--", f"{NAMESPACE}:{path}", stdin=f"{value}\n")

    def remove_stack(self) -> None:
        """Forget a stack that has no resources."""
        self._text(*self._stack("stack", "rm"), "--yes", "--preserve-config")
        config.forget(self.project)

    def forget_pending(self, on_event: OnEvent) -> None:
        """Drop the records of creates that a killed run never finished.

        Every create here is idempotent, so the next `up` finds and adopts what is really there.
        """
        self._stream(["refresh", "--yes", "--skip-preview", "--clear-pending-creates"], on_event)

    def up(self, on_event: OnEvent, *, replace: list[str] | None = None) -> events.Summary:
        """Deploy. Raises StepFailed with the engine's own reasons."""
        wanted = [part for urn in replace or [] for part in ("--replace", urn)]
        return self._stream(["up", "--yes", "--skip-preview", *wanted, *_pack()], on_event)

    def preview(self, on_event: OnEvent) -> events.Summary:
        """Say what a deployment would change; touches nothing."""
        return self._stream(["preview", *_pack()], on_event)

    def destroy(self, on_event: OnEvent) -> events.Summary:
        """Remove everything the stack made."""
        return self._stream(["destroy", "--yes", "--skip-preview"], on_event)

    def unprotect(self, urns: Iterable[str]) -> None:
        """Take Pulumi's own protection away, so that these can be removed."""
        for urn in urns:
            self._text(*self._stack("state", "unprotect", urn), "--yes")

    def _stack(self, *command: str) -> tuple[str, ...]:
        return (*command, "--stack", self.project.stack)

    def _text(self, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            [str(self.engine.path), "--non-interactive", *arguments],
            cwd=self.project.directory,
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            reason = _reason(done.stderr)
            if "incorrect passphrase" in reason:
                raise PrerequisiteMissing(self._other_passphrase())
            raise PrerequisiteMissing(f"pulumi {' '.join(arguments[:2])} failed: {reason}")
        return done.stdout

    def _other_passphrase(self) -> str:
        source = self._environment.get("PULUMI_CONFIG_PASSPHRASE_FILE", "PULUMI_CONFIG_PASSPHRASE")
        return (
            f"{self.project.stack_file.name} was encrypted with another passphrase than the one in "
            f"{source}. Set PULUMI_CONFIG_PASSPHRASE to the right one; if the stack is new, remove "
            "the file's secrets and its line `encryptionsalt`, and set the secrets again."
        )

    def _stream(self, arguments: list[str], on_event: OnEvent) -> events.Summary:
        command = [str(self.engine.path), *self._stack(*arguments), "--non-interactive", "--json"]
        command += ["--config-file", str(config.prepare(self.project))]
        summary = events.Summary()
        problems: list[events.Said] = []
        holder: str | None = None
        with self._started(command) as process:
            assert process.stdout is not None
            for line in process.stdout:
                event = events.parse(line)
                if isinstance(event, events.Summary):
                    summary = event
                elif isinstance(event, events.Said):
                    holder = holder or locks.holder(event.text)
                    if event.severity == "error":
                        problems.append(event)
                if event is not None:
                    on_event(event)
            code = process.wait()
        if code != 0 and self._interrupted:
            raise Interrupted(
                "Interrupted. What exists stays as it is; run the same command again to continue."
            )
        if code != 0 and holder:
            raise StackLocked(
                f"The stack {self.project.stack} is in use: {holder}. Wait until that run ends; "
                "if you know that it is over, repeat with --take-over-lock."
            )
        if code != 0 and any("incorrect passphrase" in problem.text for problem in problems):
            raise PrerequisiteMissing(self._other_passphrase())
        if code != 0:
            raise StepFailed(_explain(problems, code, arguments[0]))
        return summary

    @contextlib.contextmanager
    def _started(self, command: list[str]) -> Iterator[subprocess.Popen[str]]:
        """Start Pulumi so that Ctrl-C reaches it once, from us, and it never outlives us."""
        process = subprocess.Popen(
            command,
            cwd=self.project.directory,
            env={**self._environment, "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )

        def forward(*_: object) -> None:
            self._interrupted = True
            process.send_signal(signal.SIGINT)

        before = {n: signal.signal(n, forward) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield process
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _pack() -> list[str]:
    """The project's policy pack, where a team has configured it."""
    file = os.environ.get(POLICY_CONFIG)
    if not file:
        return []
    # Absolute, since the engine works in the project's folder.
    return ["--policy-pack", str(_PACK), "--policy-pack-config", str(Path(file).resolve())]


def _end_with_parent() -> None:
    # If ferry itself is killed, Pulumi gets what Ctrl-C would have sent, and cleans up.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def _reason(stderr: str) -> str:
    lines = [line for line in stderr.strip().splitlines() if line]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or lines or ["no reason given"])[0]


def _plaintext(value: Any) -> str:
    """A string output, unwrapped where it was a secret."""
    return str(json.loads(value["plaintext"])) if isinstance(value, dict) else str(value)


def _plain(problem: events.Said) -> str:
    """A step's own error without the progress that Pulumi puts before it."""
    text = problem.text.rsplit("\nerror: ", 1)[-1]
    return f"{problem.name}: {text}" if problem.name else text


def _explain(problems: list[events.Said], code: int, operation: str) -> str:
    wanted = [p for p in problems if p.name] or [p for p in problems if p.text != "update failed"]
    texts = list(dict.fromkeys(_plain(problem) for problem in wanted))
    if not texts:
        return f"pulumi {operation} was interrupted or failed (exit code {code})."
    return "\n".join(texts)
