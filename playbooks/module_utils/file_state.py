"""A path with the state it has and the state it shall have, and the way from one to the other."""

# Links, modes and renames are about names, which pathlib only wraps.
from __future__ import annotations

import difflib
import grp
import os
import pwd
import shutil
import stat
import tempfile


def user_controlled(directory):
    """Whether somebody else than root may change what is in a directory."""
    try:
        return os.lstat(directory).st_uid != 0
    except OSError:
        return False


class Refused(Exception):
    """The server is as it was; the message says why."""


class Entry:
    """One path with the state it has and the state it shall have."""

    def __init__(self, raw, check_mode):
        self.raw = raw
        self.path = raw["path"]
        self.mode = int(raw["mode"] or ("0755" if raw["directory"] else "0644"), 8)
        self.owner_known = True
        try:
            self.uid = pwd.getpwnam(raw["owner"]).pw_uid
            self.gid = (
                grp.getgrnam(raw["group"]).gr_gid
                if raw["group"]
                else pwd.getpwnam(raw["owner"]).pw_gid
            )
        except KeyError:
            if not check_mode:
                raise Refused(
                    f"{self.path}: no user {raw['owner']} or group {raw['group']} on this server"
                ) from None
            self.uid = self.gid = -1
            self.owner_known = False
        parent = os.path.dirname(self.path)
        # Root writing below a directory that a user controls must not follow that user's links:
        # neither the directory's nor the file's own.
        self.foreign = self.uid != 0 or user_controlled(parent)
        if self.foreign and os.path.islink(parent):
            raise Refused(
                f"{parent} is a symbolic link; replace it with a directory, then run again"
            )
        self.before = self._read()
        self.after = self._want()

    def _read(self):
        try:
            info = os.lstat(self.path)
        except OSError:
            return None
        follows = not self.foreign and self.raw["link"] is None and not self.raw["absent"]
        if stat.S_ISLNK(info.st_mode) and follows:
            # A link is another way of having the file (/etc/default/locale on Debian 13).
            self.path = os.path.realpath(self.path)
            return self._read()
        if stat.S_ISLNK(info.st_mode):
            return ("link", os.readlink(self.path), None, None, None)
        meta = (stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid)
        if stat.S_ISDIR(info.st_mode):
            return ("directory", None, *meta)
        with open(self.path, "rb") as handle:
            return ("file", handle.read(), *meta)

    def _want(self):
        meta = (self.mode, self.uid, self.gid)
        if self.raw["absent"]:
            return None
        if self.raw["link"] is not None:
            return ("link", self.raw["link"], None, None, None)
        if self.raw["directory"]:
            return ("directory", None, *meta)
        if self.raw["lines"] is not None:
            old = self.before[1].decode("utf-8", "replace") if self.before else ""
            missing = [line for line in self.raw["lines"] if line not in old.splitlines()]
            joint = "" if not old or old.endswith("\n") else "\n"
            return (
                "file",
                (old + joint + "".join(f"{line}\n" for line in missing)).encode(),
                *meta,
            )
        return ("file", (self.raw["content"] or "").encode(), *meta)

    @property
    def changed(self):
        """Whether anything has to be done."""
        return self.before != self.after

    def diff(self):
        """Return the difference as Ansible shows it."""

        def text(state):
            if not state or state[0] == "directory":
                return ""
            return state[1] if state[0] == "link" else state[1].decode("utf-8", "replace")

        def meta(state):
            kind = state[0] if state else "absent"
            mode = f" {state[2]:04o}" if state and state[2] is not None else ""
            return f"{self.path} ({kind}{mode})"

        body = difflib.unified_diff(
            text(self.before).splitlines(True),
            text(self.after).splitlines(True),
            meta(self.before),
            meta(self.after),
        )
        return {"prepared": "".join(body) or f"--- {meta(self.before)}\n+++ {meta(self.after)}\n"}

    def candidate(self):
        """Return the wanted content as a private file of its own, for C(validate)."""
        name = os.path.basename(self.path)
        handle = tempfile.NamedTemporaryFile(prefix="gpuferry-", suffix=name)  # noqa: SIM115
        handle.write(self.after[1])
        handle.flush()
        return handle


def put(path, state):
    """Make `path` be `state`, atomically where the file system allows it."""
    if state is None:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
        return
    kind, content, mode, uid, gid = state
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    if kind == "directory":
        os.makedirs(path, exist_ok=True)
        os.chown(path, uid, gid)
        os.chmod(path, mode)
        return
    if kind == "link":
        temporary = f"{path}.gpuferry"
        if os.path.lexists(temporary):
            os.unlink(temporary)
        os.symlink(content, temporary)
        os.rename(temporary, path)
        return
    descriptor, temporary = tempfile.mkstemp(prefix=".gpuferry-", dir=os.path.dirname(path))
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(content)
            os.fchown(handle.fileno(), uid, gid)
            os.fchmod(handle.fileno(), mode)
            handle.flush()
            os.fsync(handle.fileno())
        try:
            os.rename(temporary, path)
        except OSError:
            # Container engines bind-mount some files (/etc/hostname): those can only be rewritten.
            with open(path, "wb") as handle:
                handle.write(content)
            os.chmod(path, mode)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
