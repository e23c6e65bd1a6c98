"""Run a policy pack in a process of its own, and pass on what it prints."""

import queue
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import IO, Any

from tools.standins.cancel import Cancellation, Cancelled, stop_group
from tools.standins.protocol import language_pb2

CHUNK_BYTES = 65536


def run_pack(
    python: str, engine: str, request: Any, context: Any, cancellation: Cancellation
) -> Iterator[language_pb2.RunPluginResponse]:
    """Yield the pack's output (its port first), then its exit code.

    `pulumi.policy` is the SDK's own entry to a pack; the pack itself (`pulumi_policy`) serves the
    engine, and ends when the engine hangs up or cancels.
    """
    command = [python, "-u", "-P", "-m", "pulumi.policy", engine, request.info.program_directory]
    process = subprocess.Popen(
        command,
        cwd=request.pwd or None,
        env=dict(variable.split("=", 1) for variable in request.env if "=" in variable) or None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )

    def stop() -> None:
        stop_group(process, signal.SIGINT)

    if not context.add_callback(stop):
        stop()  # the engine has hung up already
    said: queue.Queue[language_pb2.RunPluginResponse | None] = queue.Queue()
    assert process.stdout is not None
    assert process.stderr is not None
    for name, stream in (("stdout", process.stdout), ("stderr", process.stderr)):
        threading.Thread(target=_pass_on, args=(name, stream, said), daemon=True).start()
    try:
        with cancellation.watch(stop):
            for _ in range(2):
                while (response := said.get()) is not None:
                    yield response
            yield language_pb2.RunPluginResponse(exitcode=process.wait())
    except Cancelled:
        return


def _pass_on(name: str, stream: IO[bytes], said: "queue.Queue[Any]") -> None:
    with stream:
        while chunk := stream.read1(CHUNK_BYTES):  # type: ignore[attr-defined]
            said.put(language_pb2.RunPluginResponse(**{name: chunk}))
    said.put(None)
