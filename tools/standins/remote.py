"""Run a command on another machine, as `command:remote:Command` does."""

import threading

import paramiko

from tools.standins.connection import connect
from tools.standins.job import Job
from tools.standins.local import previous_env
from tools.standins.output import STDERR, STDOUT, Capture, CommandFailed
from tools.standins.wire import Properties, reveal

NO_EXIT_STATUS = -1


def run(command: str, inputs: Properties, previous: Properties, job: Job) -> Properties:
    """Run a command over SSH and return its outputs; raises CommandFailed unless it exits with 0.

    A cancel closes the connection; what the command left running on the server is beyond reach.
    """
    plain = reveal(inputs)
    capture = Capture(plain.get("logging"), job.log)
    client = connect(plain["connection"], job)
    try:
        with job.stoppable(client.close):
            status = _execute(client, command, plain, previous, capture)
            if status == NO_EXIT_STATUS:
                reason = "the connection ended before the command"
                raise capture.failure(reason, command, inputs)
            if status:
                raise capture.failure(f"exit status {status}", command, inputs)
    except (OSError, EOFError, paramiko.SSHException) as error:
        raise CommandFailed(f"the connection failed: {error}") from None
    finally:
        client.close()
    return capture.outputs()


def _execute(
    client: paramiko.SSHClient,
    command: str,
    plain: Properties,
    previous: Properties,
    capture: Capture,
) -> int:
    """Run the command in a channel of its own; return its exit status."""
    transport = client.get_transport()
    assert transport
    channel = transport.open_session()
    # Servers take these only with a matching AcceptEnv; the official plugin goes on without too.
    for name, value in previous_env(plain, previous).items():
        channel.set_environment_variable(name, value)
    channel.exec_command(command)
    threads = [
        capture.follow(STDOUT, channel.makefile("rb")),
        capture.follow(STDERR, channel.makefile_stderr("rb")),
        threading.Thread(target=_feed, args=(channel, plain.get("stdin", ""))),
    ]
    threads[-1].start()
    for thread in threads:
        thread.join()
    return channel.recv_exit_status()


def _feed(channel: paramiko.Channel, text: str) -> None:
    """Send stdin and its end; a command is free not to read it."""
    try:
        channel.sendall(text.encode())
        channel.shutdown_write()
    except OSError:
        pass
