"""The Python language host: gRPC methods with which the engine runs a stack's program."""

import contextlib
import json
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Any, NoReturn

from google.protobuf import empty_pb2  # type: ignore[import-untyped]

from tools.standins import program
from tools.standins.cancel import Cancellation, Cancelled, stop_group
from tools.standins.options import UnsupportedOption, pack_python, program_python
from tools.standins.pack import run_pack
from tools.standins.protocol import language_pb2, language_pb2_grpc, plugin_pb2
from tools.standins.serve import engine_address, refuse, serve
from tools.standins.wire import from_struct


class ProgramFailed(Exception):
    """The program ended badly, and did not say why itself."""


class PythonHost(language_pb2_grpc.LanguageRuntimeServicer):
    """Runs Python programs; methods not defined here are unimplemented."""

    def __init__(self, address: str) -> None:
        """Serve the engine at this address."""
        self._engine = address
        self._cancellation = Cancellation()

    def stop(self) -> None:
        """End the running program."""
        self._cancellation.cancel()

    def GetPluginInfo(self, request: Any, context: Any) -> plugin_pb2.PluginInfo:
        """Tell the version: that of the SDK, with which official hosts are released."""
        return plugin_pb2.PluginInfo(version=metadata.version("pulumi"))

    def Handshake(self, request: Any, context: Any) -> language_pb2.LanguageHandshakeResponse:
        """Learn the engine's address once more."""
        self._engine = request.engine_address
        return language_pb2.LanguageHandshakeResponse()

    def GetRequiredPackages(
        self, request: Any, context: Any
    ) -> language_pb2.GetRequiredPackagesResponse:
        """Name no plugin in advance: each is looked up when its first resource comes.

        The official host asks pip for all packages here, which takes longer than an empty update.
        """
        return language_pb2.GetRequiredPackagesResponse()

    def InstallDependencies(
        self, request: Any, context: Any
    ) -> Iterator[language_pb2.InstallDependenciesResponse]:
        """Install nothing: the environment on PATH is made before pulumi starts."""
        text = f"The program uses {sys.executable} as it is; nothing is installed.\n"
        yield language_pb2.InstallDependenciesResponse(stdout=text.encode())

    def RuntimeOptionsPrompts(
        self, request: Any, context: Any
    ) -> language_pb2.RuntimeOptionsResponse:
        """Ask nothing."""
        return language_pb2.RuntimeOptionsResponse()

    def About(self, request: Any, context: Any) -> language_pb2.AboutResponse:
        """Describe this Python."""
        return language_pb2.AboutResponse(
            executable=sys.executable, version=platform.python_version()
        )

    def GetProgramDependencies(
        self, request: Any, context: Any
    ) -> language_pb2.GetProgramDependenciesResponse:
        """List the installed packages."""
        return language_pb2.GetProgramDependenciesResponse(
            dependencies=[
                language_pb2.DependencyInfo(name=package.name, version=package.version)
                for package in metadata.distributions()
            ]
        )

    def Run(self, request: Any, context: Any) -> language_pb2.RunResponse:
        """Run the program; an error that it has shown itself is not shown again (bail)."""
        if request.attach_debugger:
            refuse(context, "a debugger cannot be attached by this language host")
        try:
            options = from_struct(request.info.options)
            python = program_python(options, request.info.root_directory)
            exit_code = self._execute(python, request)
        except UnsupportedOption as error:
            refuse(context, str(error))
        except (ProgramFailed, Cancelled) as error:
            return language_pb2.RunResponse(error=str(error))
        return language_pb2.RunResponse(bail=exit_code == program.EXIT_EXPLAINED)

    def RunPlugin(self, request: Any, context: Any) -> Iterator[language_pb2.RunPluginResponse]:
        """Run a policy pack until the engine hangs up; other plugins written in Python are refused.

        The official host takes packs the same way since the engine asks language hosts for them;
        before, there was a plugin `pulumi-analyzer-policy-python`.
        """
        if request.attach_debugger:
            refuse(context, "a debugger cannot be attached by this language host")
        if request.kind != "analyzer":
            refuse(
                context,
                f"this language host runs policy packs, and no plugin of kind {request.kind}",
            )
        try:
            python = pack_python(from_struct(request.info.options), request.info.root_directory)
        except UnsupportedOption as error:
            refuse(context, str(error))
        yield from run_pack(python, self._engine, request, context, self._cancellation)

    def Cancel(self, request: Any, context: Any) -> Any:
        """Interrupt the program."""
        self._cancellation.cancel()
        return empty_pb2.Empty()

    def _execute(self, python: str, request: Any) -> int:
        """Run the program with its output on our own; return 0 or EXIT_EXPLAINED."""
        process = subprocess.Popen(
            # -P, or the program would find our modules.
            [python, "-P", program.__file__, *self._arguments(request)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdin is not None
        # By a pipe, since the environment of a process can be read for as long as it runs.
        with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
            stdin.write(json.dumps(self._configuration(request)).encode())
        with self._cancellation.watch(lambda: stop_group(process, signal.SIGINT)):
            exit_code = process.wait()
            if exit_code < 0:
                raise ProgramFailed(f"program was ended by signal {-exit_code}")
            if exit_code not in (0, program.EXIT_EXPLAINED):
                raise ProgramFailed(f"program exited with non-zero exit code: {exit_code}")
        return exit_code

    def _configuration(self, request: Any) -> dict[str, str]:
        """The environment variables in which a program expects its decrypted configuration."""
        return {
            "PULUMI_CONFIG": json.dumps(dict(request.config)),
            "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
        }

    def _arguments(self, request: Any) -> list[str]:
        """Say on the command line what is not secret."""
        values = {
            "monitor": request.monitor_address,
            "engine": self._engine,
            "project": request.project,
            "stack": request.stack,
            "organization": request.organization,
            "root_directory": request.info.root_directory,
            "pwd": request.pwd,
            "parallel": str(request.parallel),
        }
        named = [f"--{name}={value}" for name, value in values.items() if value]
        dry_run = ["--dry_run"] if request.dryRun else []
        return [*named, *dry_run, "--", request.info.entry_point, *request.args]


def main() -> NoReturn:
    """Serve the engine that started this process."""
    serve(PythonHost(engine_address()), language_pb2_grpc.add_LanguageRuntimeServicer_to_server)
