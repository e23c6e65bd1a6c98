"""A server's secrets: files in memory, and encrypted copies that bring them back after a boot.

Shared by the module that delivers them and installed as the program that loads them at boot
(`load`) and says whether all is as it was delivered (`verify`). Standard library only. The copies
are encrypted by systemd-creds with the server's own key, and its TPM where it has one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile

STORE = "/var/lib/gpuferry/secrets"
MEMORY = "/run/gpuferry/secrets"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


class Trouble(Exception):
    """Why secrets cannot be kept here, without any value."""


def creds(*arguments, stdin=b""):
    """What systemd-creds answers; secrets go in and out by pipes."""
    try:
        done = subprocess.run(
            ["systemd-creds", *arguments],
            input=stdin,
            capture_output=True,
            timeout=60,
            env=ENVIRONMENT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Trouble(f"systemd-creds could not run: {type(error).__name__}") from None
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise Trouble(f"systemd-creds {arguments[0]}: {lines[-1]}")
    return done.stdout


def can_seal():
    """Whether an encrypted copy can be kept: systemd 250 and later."""
    return shutil.which("systemd-creds", path=ENVIRONMENT["PATH"]) is not None


def key_kind():
    """`host+tpm2` where the server has a TPM that systemd can use, else `host`; never none."""
    try:
        creds("has-tpm2", "--quiet")
    except Trouble:
        return "host"
    return "host+tpm2"


def seal(secret):
    """The encrypted copy of a secret."""
    text = json.dumps({"uid": secret["uid"], "value": secret["value"]})
    named = (f"--name=gpuferry-{secret['name']}", f"--with-key={key_kind()}")
    return creds("encrypt", *named, "-", "-", stdin=text.encode())


def unseal(name):
    """The secret in an encrypted copy."""
    with open(f"{STORE}/{name}.cred", "rb") as handle:
        sealed = handle.read()
    text = creds("decrypt", f"--name=gpuferry-{name}", "-", "-", stdin=sealed)
    return {"name": name, **json.loads(text)}


def stored():
    """Names with an encrypted copy."""
    found = os.listdir(STORE) if os.path.isdir(STORE) else []
    return sorted(n[: -len(".cred")] for n in found if n.endswith(".cred"))


def loaded():
    """Names in memory."""
    found = os.listdir(MEMORY) if os.path.isdir(MEMORY) else []
    return sorted(name for name in found if not name.startswith("."))


def in_memory(path=MEMORY, mounts="/proc/self/mounts"):
    """Whether a folder's file system is one that lives in memory."""
    with open(mounts, encoding="utf-8") as handle:
        lines = [line.split() for line in handle]
    over = [
        (len(at), kind) for _, at, kind, *_ in lines if f"{path}/".startswith(at.rstrip("/") + "/")
    ]
    # The last of the longest: a later mount hides an earlier one.
    longest = max(size for size, _ in over)
    return [kind for size, kind in over if size == longest][-1] in ("tmpfs", "ramfs")


def write(path, data, uid, mode):
    """Replace a file as a whole; nobody else can read it at any time."""
    descriptor, draft = tempfile.mkstemp(prefix=".", dir=os.path.dirname(path))
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            os.fchown(handle.fileno(), uid, 0)
            os.fchmod(handle.fileno(), mode)
            os.fsync(handle.fileno())
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def place(secret):
    """Put a secret into memory."""
    write(f"{MEMORY}/{secret['name']}", secret["value"].encode(), secret["uid"], 0o400)


def problem(secret):
    """How the file in memory differs from a secret; empty when it does not."""
    path = f"{MEMORY}/{secret['name']}"
    try:
        status = os.lstat(path)
        with open(path, "rb") as handle:
            same = handle.read() == secret["value"].encode()
    except OSError:
        return "missing"
    if not same:
        return "another value"
    if (status.st_mode & 0o7777, status.st_uid) != (0o400, secret["uid"]):
        return f"mode {status.st_mode & 0o7777:04o} of user {status.st_uid}"
    return ""


def prepare():
    """Make the folders. Raises Trouble where /run is no memory."""
    os.makedirs(MEMORY, mode=0o711, exist_ok=True)
    # Others may pass, so that a job's own user reaches its own file; they cannot list.
    os.chmod(MEMORY, 0o711)  # noqa: S103 -- the files themselves are 0400
    if not in_memory():
        raise Trouble(f"{MEMORY} is not in memory (tmpfs), so secrets would be written to a disk")
    os.makedirs(STORE, mode=0o700, exist_ok=True)
    os.chmod(STORE, 0o700)


def deliver(wanted, check_only):
    """Make the secrets exactly these; returns what changed, such as `hf-token: another value`."""
    former = sorted({*stored(), *loaded()} - {secret["name"] for secret in wanted})
    due = [(secret, problem(secret), can_seal() and not is_sealed(secret)) for secret in wanted]
    if not check_only:
        for name in former:
            remove(name)
        if wanted:
            prepare()
        for secret, why, unsealed in due:
            if why:
                place(secret)
            if unsealed:
                write(f"{STORE}/{secret['name']}.cred", seal(secret), 0, 0o600)
    return [f"{name}: removed" for name in former] + [
        f"{secret['name']}: {why or 'no encrypted copy of it'}"
        for secret, why, unsealed in due
        if why or unsealed
    ]


def remove(name):
    """Forget a secret, in memory and in its encrypted copy."""
    for path in (f"{MEMORY}/{name}", f"{STORE}/{name}.cred"):
        if os.path.lexists(path):
            os.unlink(path)


def is_sealed(secret):
    """Whether the encrypted copy holds exactly this secret."""
    try:
        return unseal(secret["name"]) == secret
    except (OSError, ValueError, Trouble):
        return False


def load():
    """Put all stored secrets into memory, as at a boot; returns what could not be."""
    prepare()
    failed = []
    for name in stored():
        try:
            place(unseal(name))
        except (OSError, ValueError, Trouble) as error:
            failed.append(f"{name}: {error}")
    return failed


def verify():
    """Name to `ok`, or to what is wrong."""
    found = dict.fromkeys(loaded(), "no encrypted copy: gone after a boot")
    for name in stored():
        try:
            secret = unseal(name)
        except (OSError, ValueError, Trouble) as error:
            found[name] = str(error)
        else:
            found[name] = problem(secret) or f"ok, user {secret['uid']}"
    return found


def main(verb):
    """Run one verb; values are never printed."""
    if verb == "verify":
        said = {"memory": in_memory(), "secrets": verify()}
        sys.stdout.write(json.dumps(said, sort_keys=True) + "\n")
        return 0
    failed = load()
    sys.stderr.write("".join(f"{line}\n" for line in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "load"))
    except Trouble as trouble:
        sys.exit(str(trouble))
