"""Facts about this machine that local servers depend on."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

CA_DIRECTORY = Path("usr/local/share/ca-certificates")


@dataclass(frozen=True)
class PackageSources:
    """Where Debian packages come from; None means mmdebstrap's own default."""

    debian: str | None
    security: str | None


def cgroup_arguments(root: Path = Path("/")) -> list[str]:
    """Docker options that give a container's systemd a cgroup tree it can use.

    systemd 257 (Debian 13) needs the unified tree, and so does a Docker engine inside the
    container; on a host with the hybrid layout that tree is at /sys/fs/cgroup/unified.
    """
    if (root / "sys/fs/cgroup/unified").is_dir():
        return ["--cgroupns=host", "-v", "/sys/fs/cgroup/unified:/sys/fs/cgroup:rw"]
    return ["--cgroupns=private", "-v", "/sys/fs/cgroup:/sys/fs/cgroup:rw"]


def package_sources(root: Path = Path("/")) -> PackageSources:
    """Read the Debian mirrors this machine itself uses from its apt sources."""
    found: dict[bool, str] = {}
    for uri, suite in _apt_entries(root):
        if "debian" in uri:
            found.setdefault("security" in suite, uri.rstrip("/"))
    return PackageSources(debian=found.get(False), security=found.get(True))


def _apt_entries(root: Path) -> list[tuple[str, str]]:
    entries: list[tuple[str, str]] = []
    folder = root / "etc/apt/sources.list.d"
    lists = [root / "etc/apt/sources.list", *sorted(folder.glob("*.list"))]
    for path in (p for p in lists if p.is_file()):
        pattern = r"(?m)^\s*deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)"
        entries += re.findall(pattern, path.read_text(errors="replace"))
    for path in sorted(folder.glob("*.sources")):
        text = re.sub(r"(?m)^#.*\n?", "", path.read_text(errors="replace"))
        for stanza in re.split(r"\n\s*\n", text):
            uris = re.search(r"(?im)^URIs:\s*(.+)$", stanza)
            suites = re.search(r"(?im)^Suites:\s*(.+)$", stanza)
            if uris and suites and re.search(r"(?im)^Types:.*\bdeb\b(?!-)", stanza):
                entries.append((uris.group(1).split()[0], suites.group(1).split()[0]))
    return entries


def extra_ca_certificates(root: Path = Path("/")) -> dict[str, str]:
    """CA certificates the administrator added to this machine: file name to PEM text.

    Networks that inspect TLS need them on every server too.
    """
    folder = root / CA_DIRECTORY
    return {p.name: p.read_text() for p in sorted(folder.glob("*.crt"))} if folder.is_dir() else {}


def apt_proxy() -> str | None:
    """The proxy apt uses on this machine, if one is configured."""
    try:
        out = subprocess.run(
            ["apt-config", "dump", "Acquire::http::Proxy"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        ).stdout
    except OSError:
        return None
    match = re.search(r'Acquire::http::Proxy "(\S+)";', out)
    return match.group(1) if match else None


def nameservers(root: Path = Path("/")) -> list[str]:
    """Resolvers that servers can use too: this machine's, without those on its own loopback.

    Where systemd-resolved sits in between, the file with its upstream servers is read instead, as
    Docker does it.
    """
    for name in ("etc/resolv.conf", "run/systemd/resolve/resolv.conf"):
        path = root / name
        text = path.read_text(errors="replace") if path.is_file() else ""
        found = re.findall(r"(?m)^\s*nameserver\s+(\S+)", text)
        usable = [a for a in found if not a.startswith("127.") and a != "::1" and "%" not in a]
        if usable:
            return usable
    return []
