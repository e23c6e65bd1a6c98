"""The `command` provider: gRPC methods of the engine, turned into lives of resources."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn

from google.protobuf import empty_pb2  # type: ignore[import-untyped]

from tools.standins import local
from tools.standins.cancel import Cancellation, Cancelled
from tools.standins.diff import ADDED, DELETED, UPDATED, changes
from tools.standins.inputs import LOCAL_RUN, complete
from tools.standins.job import EngineLog, Job
from tools.standins.output import CommandFailed
from tools.standins.protocol import plugin_pb2, provider_pb2, provider_pb2_grpc
from tools.standins.resources import RESOURCES, Resource
from tools.standins.serve import engine_address, refuse, serve
from tools.standins.wire import from_struct, reveal, to_struct

# The official release whose meaning this follows.
VERSION = "1.2.1"

RUN_FUNCTION = "command:local:run"
TRIGGERS = "triggers"

CHANGE_KINDS = {
    ADDED: provider_pb2.PropertyDiff.ADD,
    DELETED: provider_pb2.PropertyDiff.DELETE,
    UPDATED: provider_pb2.PropertyDiff.UPDATE,
}


class CommandProvider(provider_pb2_grpc.ResourceProviderServicer):
    """Serves the resource types of `RESOURCES`; methods not defined here are unimplemented."""

    def __init__(self, address: str) -> None:
        """Serve the engine at this address."""
        self._log = EngineLog(address)
        self._cancellation = Cancellation()

    def stop(self) -> None:
        """End every running command."""
        self._cancellation.cancel()

    def GetPluginInfo(self, request: Any, context: Any) -> plugin_pb2.PluginInfo:
        """Tell the version."""
        return plugin_pb2.PluginInfo(version=VERSION)

    def CheckConfig(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        """Accept the provider's own configuration: it has none."""
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        """Report no change of a configuration that there is not."""
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Configure(self, request: Any, context: Any) -> provider_pb2.ConfigureResponse:
        """Ask for secrets still marked, and for calls during a preview."""
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True, acceptResources=True, supportsPreview=True
        )

    def Check(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        """Judge the inputs and fill in defaults."""
        inputs = from_struct(request.news)
        problems = _resource(request, context).shape.problems(reveal(inputs))
        return provider_pb2.CheckResponse(
            inputs=to_struct(complete(inputs)),
            # Without the property's name: the engine would print its value, keys included.
            failures=[provider_pb2.CheckFailure(reason=problem) for problem in problems],
        )

    def Diff(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        """Compare the inputs; another trigger replaces, everything else updates."""
        found = dict(changes(from_struct(request.old_inputs), from_struct(request.news)))
        names = sorted({path.partition(".")[0].partition("[")[0] for path in found})
        return provider_pb2.DiffResponse(
            changes=(
                provider_pb2.DiffResponse.DIFF_SOME
                if found
                else provider_pb2.DiffResponse.DIFF_NONE
            ),
            diffs=names,
            replaces=[name for name in names if name == TRIGGERS],
            hasDetailedDiff=True,
            detailedDiff={
                path: provider_pb2.PropertyDiff(kind=CHANGE_KINDS[kind])
                for path, kind in found.items()
            },
        )

    def Create(self, request: Any, context: Any) -> provider_pb2.CreateResponse:
        """Create a resource, or tell what is known of it before."""
        resource = _resource(request, context)
        inputs = from_struct(request.properties)
        if request.preview:
            return provider_pb2.CreateResponse(properties=to_struct(resource.preview(inputs)))
        with self._job(request, context) as job:
            state = resource.create(inputs, job)
        prefix = request.name if resource.id_prefix else ""
        return provider_pb2.CreateResponse(
            id=prefix + secrets.token_hex(4), properties=to_struct(state)
        )

    def Update(self, request: Any, context: Any) -> provider_pb2.UpdateResponse:
        """Update a resource, or tell what is known of it before."""
        resource = _resource(request, context)
        inputs = from_struct(request.news)
        if request.preview:
            return provider_pb2.UpdateResponse(properties=to_struct(resource.preview(inputs)))
        with self._job(request, context) as job:
            state = resource.update(from_struct(request.olds), inputs, job)
        return provider_pb2.UpdateResponse(properties=to_struct(state))

    def Delete(self, request: Any, context: Any) -> Any:
        """Delete a resource."""
        with self._job(request, context) as job:
            _resource(request, context).delete(from_struct(request.properties), job)
        return empty_pb2.Empty()

    def Read(self, request: Any, context: Any) -> provider_pb2.ReadResponse:
        """Keep what the state says: a command's effect cannot be looked up."""
        return provider_pb2.ReadResponse(
            id=request.id, properties=request.properties, inputs=request.inputs
        )

    def Invoke(self, request: Any, context: Any) -> provider_pb2.InvokeResponse:
        """Run `command:local:run`, which runs on every preview and update."""
        if request.tok != RUN_FUNCTION:
            refuse(context, f"{request.tok} is not supported; the only function is {RUN_FUNCTION}")
        arguments = from_struct(request.args)
        problems = list(LOCAL_RUN.problems(reveal(arguments)))
        if problems:
            return provider_pb2.InvokeResponse(
                failures=[provider_pb2.CheckFailure(reason=problem) for problem in problems]
            )
        with self._job(request, context) as job:
            outputs = local.run(reveal(arguments["command"]), arguments, {}, job)
        return provider_pb2.InvokeResponse(**{"return": to_struct({**arguments, **outputs})})

    def Cancel(self, request: Any, context: Any) -> Any:
        """End every running command; each then fails as cancelled."""
        self._cancellation.cancel()
        return empty_pb2.Empty()

    @contextmanager
    def _job(self, request: Any, context: Any) -> Iterator[Job]:
        """Give an operation its log and its end; turn its failure into one for the engine."""
        urn = getattr(request, "urn", "")
        timeout_seconds = getattr(request, "timeout", 0)
        try:
            yield Job(partial(self._log.line, urn), self._cancellation, timeout_seconds)
        except (CommandFailed, Cancelled) as error:
            refuse(context, str(error))


def _resource(request: Any, context: Any) -> Resource:
    """Return the type that a request is about."""
    if request.type not in RESOURCES:
        refuse(context, f"{request.type} is not supported; the types are {', '.join(RESOURCES)}")
    return RESOURCES[request.type]


def main() -> NoReturn:
    """Serve the engine that started this process."""
    serve(
        CommandProvider(engine_address()),
        provider_pb2_grpc.add_ResourceProviderServicer_to_server,
    )
