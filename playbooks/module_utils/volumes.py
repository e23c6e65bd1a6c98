"""Encrypted volumes of a server: read the facts, make what is planned, open it at a boot.

Standard library only. The key of a volume is the one that the stack's state keeps; here it lies
encrypted by systemd-creds with the server's own key, and its TPM where it has one. A scratch
volume's key is made at every boot and kept nowhere.
"""

from __future__ import annotations

import glob
import json
import os
import subprocess
import tempfile

from ansible.module_utils import secret_store, volume_plan

RECORD = "/etc/gpuferry/volumes.json"
KEYS = "/var/lib/gpuferry/volume-keys"
SECONDS = 300
# In LUKS2's own field for what a header is used by: a file system is made below it once, and never
# again, whatever later becomes of its superblocks.
BARE, MADE = "gpuferry-bare", "gpuferry-made"
# Images that are only read, and file systems that are encrypted themselves.
NO_DATA = ("squashfs", "erofs", "iso9660", "fuse.gocryptfs")
UNKNOWN = (
    "data of a kind that is not known (if nobody needs it: dd if=/dev/zero of={} bs=1M count=1)"
)
# Disks grow by GiB; ext4 leaves up to a block group (128 MiB) at the end of a disk unused.
LEAST_GROWTH = 256 << 20


class Trouble(Exception):
    """What could not be done, without any key."""


def run(*argv, stdin=b"", fine=(0,)):
    """Output of a command; Trouble where it fails."""
    # Files, since a file system's daemon keeps a pipe open for as long as it runs.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            done = subprocess.run(
                argv,
                input=stdin,
                stdout=out,
                stderr=err,
                timeout=SECONDS,
                env=secret_store.ENVIRONMENT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Trouble(f"{argv[0]} could not run: {type(error).__name__}") from None
        said = []
        for stream in (out, err):
            stream.seek(0)
            said.append(stream.read().decode(errors="replace"))
    if done.returncode not in fine:
        lines = said[1].strip().splitlines() or ["no reason given"]
        raise Trouble(f"{' '.join(argv[:2])}: {lines[-1]}")
    return said[0]


def text(path):
    """A small file, without surrounding white space."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read().strip()
    except OSError:
        return ""


def mounted():
    """Mount points to their sources, the last mount of each."""
    lines = [line.split() for line in text("/proc/self/mounts").splitlines()]
    return {line[1].replace("\\040", " "): line[0] for line in lines}


def signature(path):
    """Kind and label of what is on a disk, read from the disk itself: udev may be late."""
    # blkid says "nothing there" of a disk that it cannot read, too; such a one is not empty.
    try:
        with open(path, "rb", buffering=0) as disk:
            start = disk.read(1 << 14)
    except OSError:
        return "what cannot be read", ""
    said = run("blkid", "--probe", "--output", "export", path, fine=(0, 2))
    fields = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    known = fields.get("TYPE") or fields.get("PTTYPE")
    # A raw database or plain dm-crypt has no signature. Where cryptsetup was killed while it made
    # a header, this much is zero: it clears both headers first.
    unknown = UNKNOWN.format(path) if any(start) else ""
    return known or unknown, fields.get("LABEL", "")


def users(name, mounts, swaps):
    """What uses a block device: partitions, holders (RAID, LVM, dm-crypt), mounts, swap."""
    folder = f"/sys/class/block/{name}"
    parts = [os.path.basename(os.path.dirname(p)) for p in glob.glob(f"{folder}/*/partition")]
    found = [f"partition {part}" for part in parts]
    for holder in glob.glob(f"{folder}/holders/*"):
        called = text(f"{holder}/dm/name") or os.path.basename(holder)
        found.append(f"holder {called}")
    found += [f"mounted at {at}" for at, source in mounts.items() if source == f"/dev/{name}"]
    found += ["swap"] if f"/dev/{name}" in swaps else []
    return found


def disks():
    """All whole disks, as the plan wants them."""
    mounts, swaps = mounted(), text("/proc/swaps").split()
    links = {}
    for link in glob.glob("/dev/disk/by-*/*"):
        links.setdefault(os.path.realpath(link), []).append(link)
    found = []
    for folder in sorted(glob.glob("/sys/class/block/*")):
        name, path = os.path.basename(folder), f"/dev/{os.path.basename(folder)}"
        size = int(text(f"{folder}/size") or 0) * 512
        if os.path.exists(f"{folder}/partition") or name.startswith(("loop", "ram", "zram", "dm-")):
            continue
        if not size or not os.path.exists(path):
            continue
        kind, named = signature(path)
        found.append(
            {
                "path": path,
                "links": sorted(links.get(path, [])),
                "size": size,
                "read_only": text(f"{folder}/ro") == "1",
                "signature": kind,
                "label": named,
                "users": users(name, mounts, swaps),
            }
        )
    return found


def gather(wishes):
    """The facts that `volume_plan.decide` wants."""
    virt = subprocess.run(
        ["systemd-detect-virt", "--quiet", "--container"], check=False, timeout=20
    )
    container = virt.returncode == 0
    loaded = not container and subprocess.run(
        ["modprobe", "--quiet", "dm_crypt"], check=False, timeout=60, capture_output=True
    ).returncode in (0,)
    made = [w["name"] for w in wishes if os.path.exists(f"{volume_plan.backing(w)}/gocryptfs.conf")]
    return {
        "container": container,
        # Built into the kernel, modprobe finds no file and says so; the device mapper knows better.
        "dm_crypt": loaded or (not container and os.path.isdir("/sys/module/dm_crypt")),
        "fuse": os.path.exists("/dev/fuse"),
        "disks": [] if container else disks(),
        "mounted": mounted(),
        "filled": [w["path"] for w in wishes if os.path.isdir(w["path"]) and os.listdir(w["path"])],
        "made": made,
    }


def recorded():
    """What was made on this server: the wishes with the UUIDs of their disks, no key."""
    return json.loads(text(RECORD) or "[]")


def key_of(volume):
    """The key of a volume, as bytes."""
    with open(f"{KEYS}/{volume['name']}.cred", "rb") as handle:
        named = f"--name=gpuferry-volume-{volume['name']}"
        return secret_store.creds("decrypt", named, "-", "-", stdin=handle.read())


def keep_key(volume):
    """Keep a volume's key for the next boot, sealed."""
    os.makedirs(KEYS, mode=0o700, exist_ok=True)
    named = f"--name=gpuferry-volume-{volume['name']}"
    kind = f"--with-key={secret_store.key_kind()}"
    key = volume["key"].encode()
    sealed = secret_store.creds("encrypt", named, kind, "-", "-", stdin=key)
    secret_store.write(f"{KEYS}/{volume['name']}.cred", sealed, 0, 0o600)


def has_key(volume):
    """Whether the sealed key is this one."""
    try:
        return key_of(volume) == volume["key"].encode()
    except (OSError, secret_store.Trouble):
        return False


def format_disk(volume, key):
    """Make our header on an empty disk. The key is random, so that stretching it adds nothing."""
    run(
        *("cryptsetup", "luksFormat", "--batch-mode", "--type", "luks2"),
        *("--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"),
        *("--label", volume_plan.label(volume), "--subsystem", BARE),
        *("--key-file", "-", volume["device"]),
        stdin=key,
    )


def create(volume):
    """Make a volume that the plan allows."""
    if volume["device"]:
        if not volume["scratch"]:
            format_disk(volume, volume["key"].encode())
        return
    folder = volume_plan.backing(volume)
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    # Its mode is what the mounted volume shows to everybody.
    os.makedirs(folder, mode=0o755, exist_ok=True)
    # The least that its key stretching may be, for the same reason.
    run("gocryptfs", "-init", "-q", "-scryptn", "10", folder, stdin=volume["key"].encode() + b"\n")


def uuid_of(volume):
    """UUID of the header on a volume's disk; empty for scratch, whose header is new each time."""
    if not volume["device"] or volume["scratch"]:
        return ""
    return run("cryptsetup", "luksUUID", volume["device"]).strip()


def open_volume(volume):
    """Open and mount one volume, as at a boot."""
    os.makedirs(volume["path"], mode=0o755, exist_ok=True)
    if volume["path"] in mounted():
        return
    if not volume["device"]:
        key = key_of(volume) + b"\n"
        folder = volume_plan.backing(volume)
        # nonempty is not given: what a mount would hide is refused.
        run("gocryptfs", "-q", "-allow_other", "-nosyslog", folder, volume["path"], stdin=key)
        return
    name = volume_plan.label(volume)
    device = open_scratch(volume) if volume["scratch"] else open_kept(volume)
    mapper = f"/dev/mapper/{name}"
    if subsystem(device) == BARE:
        run("mkfs.ext4", "-F", "-q", "-m", "0", mapper)
        run("cryptsetup", "config", "--subsystem", MADE, "--label", name, device)
    run("mount", "-o", "nodev,nosuid", mapper, volume["path"])
    grow(volume)


def subsystem(device):
    """What a header says that it is used by."""
    said = run("cryptsetup", "luksDump", device)
    found = [line.split(":", 1)[1].strip() for line in said.splitlines() if "Subsystem:" in line]
    return found[0] if found else ""


def open_kept(volume):
    """Open the disk that was made, by its UUID: device names change. Returns its path."""
    name, device = volume_plan.label(volume), f"/dev/disk/by-uuid/{volume['uuid']}"
    if not os.path.exists(f"/dev/mapper/{name}"):
        run("udevadm", "settle", "--timeout=30", f"--exit-if-exists={device}")
        key = key_of(volume)
        run("cryptsetup", "open", "--type", "luks2", "--key-file", "-", device, name, stdin=key)
    return device


def open_scratch(volume):
    """Make the disk anew under a key that nobody keeps; only if it is empty or our own scratch.

    Returns its path.
    """
    decision = volume_plan.decide(volume, gather([volume]))
    if decision["action"] not in ("create", "open"):
        raise Trouble(decision["why"])
    name, key = volume_plan.label(volume), os.urandom(64)
    if os.path.exists(f"/dev/mapper/{name}"):
        run("cryptsetup", "close", name)
    format_disk(volume, key)
    device = volume["device"]
    run("cryptsetup", "open", "--type", "luks2", "--key-file", "-", device, name, stdin=key)
    return device


def room(volume):
    """Bytes that a volume could grow by: its mapping to its disk, its file system to that."""
    name = volume_plan.label(volume)
    said = run("cryptsetup", "status", name)
    fields = dict(line.strip().split(":", 1) for line in said.splitlines() if ":" in line)
    disk = os.path.basename(os.path.realpath(fields["device"].strip()))
    sectors = {key: int(fields[key].split()[0]) for key in ("offset", "size")}
    whole = int(text(f"/sys/class/block/{disk}/size"))
    header = run("dumpe2fs", "-h", f"/dev/mapper/{name}")
    counts = dict(line.split(":", 1) for line in header.splitlines() if ":" in line)
    used = int(counts["Block count"]) * int(counts["Block size"])
    return (whole - sectors["offset"] - sectors["size"]) * 512, sectors["size"] * 512 - used


def can_grow(volume):
    """Whether an open volume is smaller than its disk; scratch is made anew instead."""
    kept = volume["device"] and not volume["scratch"]
    return bool(kept and max(room(volume)) >= LEAST_GROWTH)


def grow(volume):
    """Let a kept volume use all of a disk that has grown, while it is mounted; whether it did."""
    if not can_grow(volume):
        return False
    name = volume_plan.label(volume)
    if room(volume)[0] >= LEAST_GROWTH:
        run("cryptsetup", "resize", "--key-file", "-", name, stdin=key_of(volume))
    run("resize2fs", f"/dev/mapper/{name}")
    return True


def close_volume(volume):
    """Unmount and forget the key, as at a shutdown."""
    if volume["path"] in mounted():
        run("umount", volume["path"])
    name = volume_plan.label(volume)
    if volume["device"] and os.path.exists(f"/dev/mapper/{name}"):
        run("cryptsetup", "close", name)


def state(volume):
    """What is true of a volume now, in one sentence: `luks2, aes-xts-plain64` or the trouble."""
    source = mounted().get(volume["path"])
    if source is None:
        return "not mounted"
    if not volume["device"]:
        kinds = [line.split() for line in text("/proc/self/mounts").splitlines()]
        kind = [line[2] for line in kinds if line[1] == volume["path"]][-1]
        return "gocryptfs" if kind == "fuse.gocryptfs" else f"mounted, but as {kind}"
    said = run("cryptsetup", "status", volume_plan.label(volume))
    fields = dict(line.strip().split(":", 1) for line in said.splitlines() if ":" in line)
    if source != f"/dev/mapper/{volume_plan.label(volume)}":
        return f"mounted, but from {source}"
    kind = f"{fields.get('type', '?').strip().lower()}, {fields.get('cipher', '?').strip()}"
    if can_grow(volume):
        return f"{kind}, but its disk is {sum(room(volume)) >> 20} MiB larger"
    return kind


def in_clear():
    """Mount points of writable file systems below which nothing encrypts."""
    found = []
    for line in text("/proc/self/mounts").splitlines():
        source, at, kind = line.split()[:3]
        at = at.replace("\\040", " ")
        # A container's own root; those of the containers that run in it are not listed.
        root = kind == "overlay" and at == "/"
        # Single files that are mounted, as Docker does with /etc/hosts, are nobody's data.
        if not (root or source.startswith("/dev/")) or kind in NO_DATA or not os.path.isdir(at):
            continue
        name = os.path.basename(os.path.realpath(source))
        if not text(f"/sys/class/block/{name}/dm/uuid").startswith("CRYPT-"):
            found.append(at)
    return sorted(set(found))
