"""Serve one plugin to the engine that started it, and leave no trace when it goes."""

import os
import select
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, Protocol

import grpc

# A cancel must get a thread even while every resource of a large stack runs a command; threads
# are only created when needed.
MAX_THREADS = 1000
ENGINE_POLL_SECONDS = 1.0

# Commands may carry large inputs and outputs; the official plugins lift gRPC's 4 MiB limit too.
UNLIMITED_MESSAGES = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]


class Plugin(Protocol):
    """What a servicer must offer beside its gRPC methods."""

    def stop(self) -> None:
        """End everything that the plugin has started; called once, from the main thread."""


def engine_address() -> str:
    """Return the engine's own gRPC address, which it passes as the last argument."""
    positional = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    if not positional:
        sys.exit(f"{sys.argv[0]} is started by pulumi, with the engine's address as argument")
    return positional[-1]


def connect(address: str) -> Any:
    """Return a gRPC channel to the engine; nothing is sent before the first call."""
    return grpc.insecure_channel(address, options=UNLIMITED_MESSAGES)


def refuse(context: Any, reason: str) -> NoReturn:
    """End a gRPC call with an error that the engine shows as it is."""
    context.abort(grpc.StatusCode.UNKNOWN, reason)
    raise AssertionError("abort returned")


def serve(plugin: Plugin, add_to_server: Callable[[Any, Any], None]) -> NoReturn:
    """Serve until the engine asks the plugin to end (SIGINT), or is itself gone; then exit."""
    # A signal may reach one of gRPC's threads, and Python's handler then waits for the main one;
    # the wake-up pipe is written to at once, whichever thread it was.
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    engine = os.getppid()

    server = grpc.server(ThreadPoolExecutor(MAX_THREADS), options=UNLIMITED_MESSAGES)
    add_to_server(plugin, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()

    # An engine that was killed sends no signal: its plugin is then a child of somebody else.
    while os.getppid() == engine:
        if select.select([wake_read], [], [], ENGINE_POLL_SECONDS)[0]:
            break
    plugin.stop()
    server.stop(grace=None).wait()
    # The engine waits for us; taking the interpreter down in order takes 50 ms and serves nobody.
    os._exit(0)
