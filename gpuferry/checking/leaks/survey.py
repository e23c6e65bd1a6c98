"""Looks at everything on a server that others can read; runs there as root and changes nothing.

Standard library only; `match` comes along.
"""

from __future__ import annotations

import glob
import json
import os
import re
import stat
import subprocess
import time
from typing import Any

MEMORY = "/run/gpuferry/secrets"
LARGEST_FILE = 1 << 20
# What an image's distribution and its packages bring: examples and test keys are not secrets.
SHIPPED = ("usr/", "lib/", "lib64/", "bin/", "sbin/", "opt/conda/", "proc/", "sys/")
UNITS = (
    "/etc/systemd/system/**/*.service",
    "/etc/systemd/system/**/*.conf",
    "/run/systemd/system/**/*.service",
    "/run/systemd/transient/**",
    "/etc/containers/systemd/*",
)


def survey(payload: dict[str, Any], match: Any) -> dict[str, Any]:
    """Findings, what was looked at, and what could not be; no value is in it."""
    looked = Survey(match, time.monotonic() + payload["seconds"])
    looked.containers()
    looked.images()
    looked.units()
    looked.processes()
    return {"findings": looked.findings, "looked": looked.count, "missed": looked.missed}


def read(path: str, most: int = LARGEST_FILE) -> bytes:
    """Bytes of a file, empty when it cannot be read."""
    try:
        with open(path, "rb") as handle:
            return handle.read(most)
    except OSError:
        return b""


def docker(*arguments: str) -> str | None:
    """What Docker answers; None when it does not."""
    try:
        done = subprocess.run(
            ["docker", *arguments], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


class Survey:
    """What was found so far."""

    def __init__(self, match: Any, deadline: float) -> None:
        self.match, self.deadline = match, deadline
        self.findings: list[dict[str, str]] = []
        self.missed: list[str] = []
        self.count = dict.fromkeys(("containers", "images", "files", "units", "processes"), 0)
        self.layers: dict[str, list[tuple[str, list[str]]]] = {}
        names = os.listdir(MEMORY) if os.path.isdir(MEMORY) else []
        known = {name: read(f"{MEMORY}/{name}").decode(errors="replace") for name in names}
        self.forms = match.known_forms(known)

    def add(self, place: str, said: list[str]) -> None:
        """Note descriptions of what is at a place."""
        for text in said:
            entry = {"place": place, "what": text}
            if entry not in self.findings:
                self.findings.append(entry)

    def settings(self, place: str, config: dict[str, Any], command: list[str]) -> None:
        """Variables, labels and the command of a container or an image."""
        for name, said in self.match.in_variables(config.get("Env") or [], self.forms).items():
            self.add(f"{place}: variable {name}", said)
        labels = [f"{key}={value}" for key, value in (config.get("Labels") or {}).items()]
        for name, said in self.match.in_variables(labels, self.forms).items():
            self.add(f"{place}: label {name}", said)
        self.add(f"{place}: command", self.match.in_arguments(command, self.forms))

    def listed(self, kind: str) -> list[dict[str, Any]]:
        """What `docker KIND inspect` says of all there are."""
        if docker("info", "--format", "x") is None:
            return []  # no Docker, so nothing of it
        # Of images not the steps of a build: their layers are in what was built.
        every = ["--all"] if kind == "container" else []
        ids = (docker(kind, "ls", "--quiet", "--no-trunc", *every) or "").split()
        told = docker(kind, "inspect", *sorted(set(ids))) if ids else "[]"
        if told is None:
            self.missed.append(f"Docker does not describe its {kind}s")
        return list(json.loads(told or "[]"))

    def containers(self) -> None:
        """All of them, running or not, and what they wrote."""
        for each in self.listed("container"):
            self.count["containers"] += 1
            place = f"container {each['Name'].lstrip('/')}"
            self.settings(place, each["Config"], [each["Path"], *each["Args"]])
            data = (each.get("GraphDriver") or {}).get("Data") or {}
            if data.get("UpperDir"):
                self.layer(place, data["UpperDir"])

    def images(self) -> None:
        """Settings, history and all layers of all of them."""
        for each in self.listed("image"):
            self.count["images"] += 1
            name = (each.get("RepoTags") or [each["Id"][7:19]])[0]
            place, config = f"image {name}", each.get("Config") or {}
            command = [*(config.get("Entrypoint") or []), *(config.get("Cmd") or [])]
            self.settings(place, config, command)
            history = docker("history", "--no-trunc", "--format", "{{.CreatedBy}}", each["Id"])
            for line in (history or "").splitlines():
                # `ARG name=value` and `ENV name=value` stand there as they were written.
                words = re.split(r"\s+|\|\d+", line)
                said = set(self.match.in_arguments(words, self.forms))
                for texts in self.match.in_variables(words, self.forms).values():
                    said.update(texts)
                self.add(f"{place}: history", sorted(said))
            data = (each.get("GraphDriver") or {}).get("Data") or {}
            folders = [data.get("UpperDir", ""), *data.get("LowerDir", "").split(":")]
            folders = [folder for folder in folders if folder]
            if not folders and each.get("RootFS", {}).get("Layers"):
                self.missed.append(f"{place}: its layers are not kept as folders by this Docker")
            for folder in folders:
                self.layer(place, folder)

    def layer(self, place: str, folder: str) -> None:
        """All small files of one layer; a layer that images share is read once."""
        if folder not in self.layers:
            self.layers[folder] = self.read_layer(place, folder)
        for path, said in self.layers[folder]:
            self.add(f"{place}: file {path}", said)

    def read_layer(self, place: str, folder: str) -> list[tuple[str, list[str]]]:
        """Path and descriptions of what is in a layer."""
        found = []
        for at, _, names in os.walk(folder):
            if time.monotonic() > self.deadline:
                self.missed.append(f"{place}: time was up before all its files were read")
                break
            for name in names:
                path = os.path.join(at, name)
                inside = os.path.relpath(path, folder)
                status = os.lstat(path)
                if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE:
                    continue
                self.count["files"] += 1
                said = self.match.in_text(read(path), self.forms)
                if inside.startswith(SHIPPED):
                    said = [text for text in said if text.startswith("the secret ")]
                if said:
                    found.append(("/" + inside, said))
        return found

    def units(self) -> None:
        """Unit files, drop-ins, and the environment files that they name."""
        paths = {path for pattern in UNITS for path in glob.glob(pattern, recursive=True)}
        more = {"/etc/environment"}
        for path in sorted(path for path in paths if os.path.isfile(path)):
            self.count["units"] += 1
            text = read(path).decode(errors="replace")
            more.update(re.findall(r"(?m)^\s*EnvironmentFile\s*=\s*-?(/\S+)", text))
            said = set(self.match.in_text(text.encode(), self.forms))
            for line in re.findall(r"(?m)^\s*Environment\s*=\s*(.+)$", text):
                words = re.findall(r"\"[^\"]*\"|'[^']*'|\S+", line)
                bare = [word.strip("\"'") for word in words]
                for texts in self.match.in_variables(bare, self.forms).values():
                    said.update(texts)
            for line in re.findall(r"(?m)^\s*Exec\w+\s*=\s*(.+)$", text):
                said.update(self.match.in_arguments(line.split(), self.forms))
            self.add(f"unit file {path}", sorted(said))
        for path in sorted(more):
            lines = [line.strip() for line in read(path).decode(errors="replace").splitlines()]
            assigned = [line for line in lines if "=" in line and not line.startswith("#")]
            for name, said in self.match.in_variables(assigned, self.forms).items():
                self.add(f"environment file {path}: {name}", said)

    def processes(self) -> None:
        """Arguments and initial environment of everything that runs, but this program."""
        for folder in glob.glob("/proc/[0-9]*"):
            if folder == f"/proc/{os.getpid()}":
                continue
            words = read(f"{folder}/cmdline").decode(errors="replace").split("\0")
            if not words[0]:
                continue  # a kernel thread, or it has ended
            self.count["processes"] += 1
            place = f"process {os.path.basename(words[0])[:40]}"
            self.add(f"{place}: arguments", self.match.in_arguments(words, self.forms))
            variables = read(f"{folder}/environ").decode(errors="replace").split("\0")
            for name, said in self.match.in_variables(variables, self.forms).items():
                self.add(f"{place}: variable {name}", said)
