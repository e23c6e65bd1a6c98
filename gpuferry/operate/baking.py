"""image build: bake the image that a stack's local servers start from."""

from __future__ import annotations

import time

from gpuferry import desired
from gpuferry.engine.project import Project
from gpuferry.errors import SpecError
from gpuferry.operate.console import print_json, say_on_stderr
from gpuferry.prepare import docker_engine, prerequisites
from gpuferry.spec.model import ServerSpec, Spec


def build(project: Project, name: str | None, *, rebuild: bool, as_json: bool) -> None:
    """Bake the image for one server of the stack file, or for all that need one."""
    spec = project.spec()
    servers = _servers(spec, name)
    had_engine = docker_engine.version() is not None
    prerequisites.prepare("local", say_on_stderr)
    try:
        made = [_one(spec, server, rebuild) for server in servers]
    finally:
        if not had_engine:
            docker_engine.stop_own_if_idle()
    if as_json:
        print_json({"ok": True, "images": made})
        return
    for image in made:
        took = f"baked in {image['seconds']} s" if image["seconds"] else "is there and up to date"
        print(f"{image['server']}: {image['image']} {took}")
    print(f"The next ./ferry up or rebuild starts from it (stack {project.stack}).")


def _servers(spec: Spec, name: str | None) -> list[ServerSpec]:
    if spec.provider != "local":
        raise SpecError(
            "image build node is for the provider local. At a cloud provider, converge a server, "
            "run playbooks/generalize.yml on it and take a snapshot (docs/baked-images.md)."
        )
    named = [s for s in spec.servers if name in (None, s.name)]
    if not named:
        known = ", ".join(s.name for s in spec.servers)
        raise SpecError(f"The stack file has no server {name!r}; it has: {known}.")
    fitting = [s for s in named if s.kind == "container"]
    if not fitting:
        raise SpecError("Virtual machines are not baked; only servers of kind container are.")
    return fitting


def _one(spec: Spec, server: ServerSpec, rebuild: bool) -> dict[str, object]:
    from gpuferry.nodes.local import baked, baked_image, image

    key = desired.baked_key(spec, server)
    there = None if rebuild else baked_image.find(image.reference(server.image), key)
    if there:
        return {"server": server.name, "image": there, "seconds": 0}
    started = time.monotonic()
    say_on_stderr(f"{server.name}: baking (about 1 min)")
    tag = baked.build(
        server.name,
        server.image,
        server.gpu.model_dump() if server.gpu else {},
        desired.baked_variables(spec, server),
        key,
        say_on_stderr,
    )
    return {"server": server.name, "image": tag, "seconds": round(time.monotonic() - started)}
