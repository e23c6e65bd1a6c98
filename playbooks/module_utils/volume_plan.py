"""How an encrypted volume is made from what a server has, or why it is not. Pure; no I/O.

A disk is only taken when nothing at all is on it: no file system, no partition table, no RAID or
LVM, nothing that uses it. The one exception is our own header, known by its label, which a
rebuilt server finds again.
"""

from __future__ import annotations

# LUKS2 keeps 16 MiB for its header (cryptsetup-luksFormat(8)); less than this is a mistake.
LEAST_BYTES = 64 << 20
HEADER = "crypto_LUKS"


def label(wish):
    """What our header on a volume's disk is called; at most 48 bytes, as LUKS2 wants."""
    return f"gpuferry-{'scratch-' if wish.get('scratch') else ''}{wish['name']}"


def decide(wish, facts):
    """What to do about one volume: C(action) is create, open, keep or refuse; C(why) says why.

    `wish`: name, path, device (empty: a folder on an existing file system), scratch. `facts`:
    `disks` (path, links, size, read_only, signature, label, users), `dm_crypt`, `fuse`,
    `container`, `mounted` (mount points to sources), `filled` (folders with something in them),
    `made` (names of folder volumes that exist).
    """
    source = facts["mounted"].get(wish["path"])
    ours = f"/dev/mapper/{label(wish)}" if wish["device"] else backing(wish)
    if source is not None and source != ours:
        return refuse(f"{wish['path']} is a mount point of something else ({source})")
    if source is None and wish["path"] in facts["filled"]:
        return refuse(
            f"{wish['path']} has files in it, which a mount would hide; move them away, or choose "
            "another path"
        )
    return on_disk(wish, facts, source) if wish["device"] else in_folder(wish, facts, source)


def backing(wish):
    """The folder that holds a folder volume's encrypted files; only root reaches it."""
    return f"/data/.gpuferry-{wish['name']}/files"


def in_folder(wish, facts, source):
    """A volume of encrypted files (gocryptfs), for servers without a disk of their own."""
    if not facts["fuse"]:
        return refuse(
            "there is no /dev/fuse, so files cannot be encrypted one by one; give the volume a "
            "device, or the server FUSE"
        )
    action = "keep" if source else "open" if wish["name"] in facts["made"] else "create"
    return {"action": action, "how": "gocryptfs", "why": "no device is named"}


def on_disk(wish, facts, source):
    """A whole disk (LUKS2)."""
    if facts["container"]:
        return refuse("a container has no disks of its own; leave device out")
    if not facts["dm_crypt"]:
        return refuse("this kernel has no dm-crypt; leave device out, and files are encrypted")
    disk = find(wish["device"], facts["disks"])
    if disk is None:
        free = ", ".join(d["path"] for d in facts["disks"] if not objections(d)) or "none"
        return refuse(f"there is no disk {wish['device']}; free disks: {free}")
    if (disk["signature"], disk["label"]) == (HEADER, label(wish)):
        others = [user for user in disk["users"] if user != f"holder {label(wish)}"]
        if others:
            return refuse(f"{wish['device']} is in use: {', '.join(others)}")
        return {"action": "keep" if source else "open", "how": "luks2", "why": "made before"}
    found = objections(disk)
    if found:
        return refuse(f"{wish['device']} is not taken: {'; '.join(found)}")
    return {"action": "create", "how": "luks2", "why": "an empty disk"}


def find(device, disks):
    """The disk that a path or one of its stable links names."""
    return next((d for d in disks if device in (d["path"], *d["links"])), None)


def objections(disk):
    """Why a disk must not be overwritten; empty when nothing is on it."""
    found = [f"it holds {disk['signature']}"] if disk["signature"] else []
    found += [f"in use: {', '.join(disk['users'])}"] if disk["users"] else []
    found += ["it is read-only"] if disk["read_only"] else []
    if disk["size"] < LEAST_BYTES:
        found.append(f"it has {disk['size'] >> 20} MiB, less than {LEAST_BYTES >> 20}")
    return found


def refuse(why):
    """A refusal."""
    return {"action": "refuse", "how": "", "why": why}
