"""Run a stack's Python program; the language host starts this file in a process of its own.

It stands alone (only `pulumi` is imported), for the program's interpreter may be another one.
"""

import argparse
import asyncio
import json
import logging
import os
import runpy
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor

# The program was told what is wrong already; the engine need not say more.
EXIT_EXPLAINED = 32

# As the official host: each resource operation in flight may wait in a few threads.
THREADS_PER_OPERATION = 4


def parse_arguments() -> argparse.Namespace:
    """Read what the engine says about this run; configuration comes on stdin."""
    parser = argparse.ArgumentParser(description="Run a Pulumi program.")
    for name in ("monitor", "engine", "project", "stack", "organization", "root_directory", "pwd"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--parallel", type=int, default=0)
    parser.add_argument("--dry_run", action="store_true")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs="*")
    return parser.parse_args()


def take_configuration() -> None:
    """Put the configuration, which holds secrets, where the SDK looks; then there is no stdin.

    What is set now does not show in /proc/PID/environ, which keeps what a process started with.
    """
    os.environ.update(json.load(sys.stdin))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def run(arguments: argparse.Namespace) -> int:
    """Run the program to its end, with all that it registers; return the exit code."""
    import pulumi

    pulumi.runtime.set_all_config(
        pulumi.runtime.get_config_env(), pulumi.runtime.get_config_secret_keys_env()
    )
    pulumi.runtime.configure(
        pulumi.runtime.Settings(
            project=arguments.project,
            stack=arguments.stack,
            monitor=arguments.monitor,
            engine=arguments.engine,
            parallel=arguments.parallel,
            dry_run=arguments.dry_run,
            organization=arguments.organization,
            root_directory=arguments.root_directory,
        )
    )
    sys.argv = [arguments.program, *arguments.arguments]
    # When a resource fails, what waits for it is abandoned; asyncio would complain about each.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    threads = ThreadPoolExecutor(THREADS_PER_OPERATION * max(arguments.parallel, 1))
    loop.set_default_executor(threads)

    def program() -> None:
        runpy.run_path(arguments.program, run_name="__main__")

    try:
        loop.run_until_complete(pulumi.runtime.run_in_stack(program))
    except pulumi.RunError as error:
        pulumi.log.error(str(error))
        return EXIT_EXPLAINED
    except KeyboardInterrupt:
        return EXIT_EXPLAINED
    except Exception as error:  # Whatever the program raises is the user's to see.
        pulumi.log.error(f"Program failed with an unhandled exception:\n{describe(error)}")
        return EXIT_EXPLAINED
    finally:
        threads.shutdown()
        loop.close()
    return 0


def describe(error: Exception) -> str:
    """Return the traceback from the first line of the user's own program on."""
    frames = list(traceback.walk_tb(error.__traceback__))
    machinery = (__file__, runpy.__file__, "<frozen runpy>")
    starts = [
        index
        for index, (frame, _) in enumerate(frames)
        if index
        and frames[index - 1][0].f_code.co_filename in machinery
        and frame.f_code.co_filename not in machinery
    ]
    depth = len(frames) - starts[-1] if starts else len(frames)
    return "".join(traceback.format_exception(error, limit=-depth))


def main() -> None:
    """Run as a script."""
    arguments = parse_arguments()
    take_configuration()
    if arguments.pwd:
        os.chdir(arguments.pwd)
    for stream in (sys.stdout, sys.stderr):
        # Line by line, or the user sees everything at the end only.
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    try:
        import pulumi  # noqa: F401
    except ImportError as error:
        sys.exit(f"{sys.executable} cannot import pulumi: {error}")
    try:
        code = run(arguments)
    except KeyboardInterrupt:  # the engine ends; it has been told what was wrong
        code = EXIT_EXPLAINED
    except SystemExit as error:  # raised by the SDK, too, when the engine goes away
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    # What the end left unfinished must not run, and complain, while the interpreter is torn down.
    os._exit(code)


if __name__ == "__main__":
    main()
