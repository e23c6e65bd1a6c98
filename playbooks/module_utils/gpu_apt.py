"""What apt and dpkg know about drivers, kernels and containers, read without changing anything.

Runs on the server; standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import fnmatch
import re

from ansible.module_utils.gpu_host import mask

FAMILIES = (
    "nvidia*", "libnvidia*", "libcuda*", "cuda*", "linux-image*", "linux-headers*",
    "linux-modules*", "docker*", "containerd*", "dkms", "firmware-nvidia*", "libcublas*",
    "libnvrtc*", "nvlsm",
)  # fmt: skip
# One pattern: apt knows 70,000 names, and one by one they took most of the time of the facts.
_of_a_family = re.compile("|".join(fnmatch.translate(family) for family in FAMILIES)).match


def installed_versions(text):
    """Versions of installed packages by name, from the text of dpkg's own table."""
    found = {}
    for block in text.split("\n\n"):
        if re.search(r"^Status: \S+ ok installed$", block, re.M):
            name = re.search(r"^Package: (\S+)", block, re.M)
            version = re.search(r"^Version: (\S+)", block, re.M)
            if name and version:
                found[name.group(1)] = version.group(1)
    return found


def all_installed(host):
    """Versions of all installed packages by name."""
    return installed_versions(host.read("/var/lib/dpkg/status", 50_000_000) or "")


def installed_packages(host, also=()):
    """Installed packages of the families, and `also`: `{name: {version, held}}`."""
    found = {}
    for block in (host.read("/var/lib/dpkg/status", 50_000_000) or "").split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in block.splitlines() if re.match(r"[A-Z][\w-]*: ", line)
        )
        name, status = fields.get("Package", ""), fields.get("Status", "")
        known = name in also or _of_a_family(name)
        if status.endswith(" installed") and known:
            found[name] = {"version": fields.get("Version", ""), "held": status.startswith("hold")}
    # The whole table is no part of a report: other packages are nobody's business.
    host.files["/var/lib/dpkg/status"] = "\n\n".join(
        f"Package: {name}\nStatus: {'hold' if value['held'] else 'install'} ok installed\n"
        f"Version: {value['version']}"
        for name, value in found.items()
    )
    return found


def candidates(host, also=()):
    """What apt could install, of the families: `{name: {candidate, versions, origins}}`.

    `also` names further packages.
    """
    names = host.output(["apt-cache", "pkgnames"]).split()
    release = (host.read("/proc/sys/kernel/osrelease") or "").strip()
    kernels = (release, "-amd64", "-arm64", "-generic")
    wanted = sorted(
        name
        for name in names
        if name in also
        or (_of_a_family(name) and (not name.startswith("linux-") or name.endswith(kernels)))
    )
    host.commands["apt-cache pkgnames"]["out"] = "\n".join(wanted)
    found = {}
    for start in range(0, len(wanted), 400):
        text = host.output(["apt-cache", "policy", *wanted[start : start + 400]])
        found.update(parse_policy(text))
    return found


def parse_policy(text):
    """`apt-cache policy` as a mapping; packages without any version are left out."""
    found, name = {}, ""
    for line in text.splitlines():
        if line and not line[0].isspace():
            name = line.rstrip(":")
            found[name] = {"candidate": "", "versions": [], "origins": []}
        elif not name:
            continue
        elif line.startswith("  Candidate:"):
            value = line.split(":", 1)[1].strip()
            found[name]["candidate"] = "" if value == "(none)" else value
        elif match := re.match(r" (?:\*\*\*|   ) (\S+) -?\d+$", line):
            found[name]["versions"].append(match.group(1))
        elif match := re.match(r"\s+-?\d+ (\S+) (\S+)", line):
            origin = f"{match.group(1)} {match.group(2)}"
            if origin not in found[name]["origins"]:
                found[name]["origins"].append(origin)
    return {name: value for name, value in found.items() if value["versions"]}


INLINE = "inline"


def apt(host, codename):
    """Package sources: NVIDIA's, two keys for one source, components, the release's own archive."""
    entries = [entry for path in host.list("/etc/apt/sources.list")
               + host.list("/etc/apt/sources.list.d/*.list")
               for entry in one_line_sources(path, host.read(path) or "")]  # fmt: skip
    for path in host.list("/etc/apt/sources.list.d/*.sources"):
        entries += deb822_sources(path, host.read(path) or "")
    keys = {}
    for entry in entries:
        keys.setdefault((entry["uri"], entry["suite"]), []).append(entry)
    conflicts = [
        {"uri": uri, "files": sorted({entry["file"] for entry in same})}
        for (uri, _), same in keys.items()
        # One entry without a key beside one with it is no conflict to apt.
        if len({entry["signed_by"] for entry in same if entry["signed_by"]}) > 1
    ]
    release = next(
        (
            {name: entry[name] for name in ("uri", "suite", "signed_by")}
            for entry in entries
            if entry["suite"] == codename and "main" in entry["components"]
        ),
        {},
    )
    return {
        "nvidia": [entry for entry in entries if is_nvidias(entry["uri"])],
        "conflicts": conflicts,
        "archive": release,
        "components": sorted({word for entry in entries for word in entry["components"]}),
        "lists": bool(host.list("/var/lib/apt/lists/*Packages*")),
    }


def is_nvidias(uri):
    """Whether an address is one of NVIDIA's repositories, or a mirror of one."""
    return bool(re.match(r"https?://([\w-]+\.)*nvidia\.(com|cn|github\.io)(/|$)", uri)
                or re.search(r"/compute/cuda/repos/", uri)
                or "nvidia.github.io" in uri)  # fmt: skip


def one_line_sources(path, text):
    """Entries of a `.list` file."""
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s*(.*)", line)
        if match:
            signed = re.search(r"signed-by=(\S+)", match.group(1) or "", re.I)
            yield {
                "file": path, "uri": mask(match.group(2)).rstrip("/"), "suite": match.group(3),
                "components": match.group(4).split("#")[0].split(),
                "signed_by": signed.group(1) if signed else "",
            }  # fmt: skip


def deb822_sources(path, text):
    """Entries of a `.sources` file."""
    found = []
    for block in re.split(r"\n\s*\n", text):
        fields = {}
        for line in block.splitlines():
            match = re.match(r"([A-Za-z-]+):\s*(.*)", line)
            if match:
                fields[match.group(1).lower()] = match.group(2)
        # A key in the file itself, below the field.
        if "BEGIN PGP" in block:
            fields["signed-by"] = INLINE
        if fields.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        found += [
            {
                "file": path, "uri": mask(uri).rstrip("/"), "suite": suite,
                "components": fields.get("components", "").split(),
                "signed_by": fields.get("signed-by", ""),
            }
            for uri in fields.get("uris", "").split()
            for suite in fields.get("suites", "").split()
        ]  # fmt: skip
    return found


def simulation(host, arguments):
    """What apt would do; nothing is done."""
    done = host.run(
        ["apt-get", "-s", "-q", "-y", "--no-install-recommends", "install",
         *arguments], 60,
    )  # fmt: skip
    install, remove = [], []
    for line in done["out"].splitlines():
        if match := re.match(r"Inst (\S+) (?:\[(\S+)\] )?\((\S+)", line):
            name, old, new = match.groups()
            install.append({"name": name, "version": new, "old": old or ""})
        elif match := re.match(r"Remv (\S+)", line):
            remove.append(match.group(1))
    problems = re.findall(r"^E: (.+)$", done["out"], re.M)
    depends = re.findall(r"^ (\S+ : (?:Depends|Breaks|Conflicts).+)$", done["out"], re.M)
    return {
        "arguments": list(arguments),
        "state": done["state"],
        "install": install,
        "remove": remove,
        "problem": "; ".join((problems + depends)[:4]),
    }
