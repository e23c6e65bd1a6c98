"""What restic is asked, and what its answers mean. Pure."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, field
from typing import Any

from gpuferry.errors import SpecError, StepFailed

# Where in a bucket: everything below belongs to restic.
PREFIX = "gpuferry-sealed"
_SET_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
# restic's exit codes, https://restic.readthedocs.io/en/stable/075_scripting.html; before 0.17
# (Debian 12 has 0.14) all of them are 1, and the words tell. That one asks whether there is a
# repository whatever went wrong; only the store's word for a missing object says there is none.
_NO_REPOSITORY = (10, re.compile("The specified key does not exist"))
_WRONG_KEY = (12, re.compile("wrong password or no key found"))
UNREADABLE = 3
# restic tries a store for a quarter of an hour whatever is wrong. What moves data may do so; a
# question, which comes first, may not.
_ANSWER_SECONDS = 60


@dataclass(frozen=True)
class Vault:
    """A bucket, and the key that its sealed data is encrypted with."""

    name: str
    endpoint: str
    bucket: str
    region: str
    access_key: str
    secret_key: str = field(repr=False)
    key: str = field(repr=False)
    ca_pem: str = ""


@dataclass(frozen=True)
class Snapshot:
    """One push of one data set."""

    id: str
    name: str
    time: str
    server: str


def set_name(name: str) -> str:
    """A data set's name, accepted.

    Raises:
        SpecError: says what is accepted.
    """
    if not _SET_NAME.fullmatch(name):
        raise SpecError(
            f"{name!r} is not a name of a data set; accepted: lower-case letters, digits, '.', '_' "
            "and '-', up to 64. Name it with --as."
        )
    return name


def init(vault: Vault) -> dict[str, Any]:
    """Set up the repository; as long as it takes: ended half-way, its key opens nothing."""
    return {**order(vault, ["init"]), "seconds": None}


def forget(vault: Vault, snapshot: str) -> dict[str, Any]:
    """Take one snapshot away; what it shares with others stays."""
    return order(vault, ["forget", snapshot])


def push(vault: Vault, name: str, folder: str, host: str) -> dict[str, Any]:
    """Snapshot a folder."""
    arguments = ["backup", "--json", "--tag", name, "--host", host]
    return {**order(vault, arguments), "verb": "push", "folder": folder, "seconds": None}


def pull(vault: Vault, name: str, folder: str) -> dict[str, Any]:
    """Restore the newest snapshot, every file compared with it afterwards."""
    arguments = ["restore", "latest", "--tag", name, "--verify"]
    return {**order(vault, arguments), "verb": "pull", "folder": folder, "seconds": None}


def order(vault: Vault, arguments: list[str]) -> dict[str, Any]:
    """One call of restic with all that it needs; holds secrets, so it travels over stdin only.

    `seconds` is how long restic may take, None: as long as it likes. `files` are variables with
    texts that restic gets as files; `{ca}` in `options` is such a file.
    """
    credentials = (
        f"[default]\naws_access_key_id={vault.access_key}\n"
        f"aws_secret_access_key={vault.secret_key}\n"
    )
    files = {"RESTIC_PASSWORD_FILE": vault.key, "AWS_SHARED_CREDENTIALS_FILE": credentials}
    options = ["-o", "s3.bucket-lookup=path", "-o", f"s3.region={vault.region}"]
    if vault.ca_pem:
        files["ca"] = vault.ca_pem
        options += ["--cacert", "{ca}"]
    return {
        "verb": "ask",
        "seconds": _ANSWER_SECONDS,
        "arguments": arguments,
        "options": options,
        "environment": {
            "RESTIC_REPOSITORY": f"s3:{vault.endpoint}/{vault.bucket}/{PREFIX}",
            "RESTIC_PROGRESS_FPS": "0.1",
        },
        "files": files,
    }


def is_missing(answer: dict[str, Any]) -> bool:
    """Whether nothing was ever sealed into this bucket."""
    return _says(answer, *_NO_REPOSITORY)


def expect(answer: dict[str, Any], doing: str, folder: str = "") -> dict[str, Any]:
    """The answer, when restic did what it was asked.

    Raises:
        SpecError: the folder cannot be used.
        StepFailed: restic failed; in its own words where there are no better ones.
    """
    if reason := answer.get("refused"):
        raise SpecError(_REFUSALS[reason].format(folder=folder))
    if answer["code"] == 0:
        return answer
    if _says(answer, *_WRONG_KEY):
        raise StepFailed(
            f"{doing}: the data in this bucket was sealed with another key than the stack's. If "
            "the stack is new, take the key of the old one: docs/encryption.md says how."
        )
    if answer["code"] == UNREADABLE:
        raise StepFailed(
            f"{doing}: some files could not be read, so nothing was kept: {_last(answer)}"
        )
    raise StepFailed(f"{doing}: {_last(answer)}")


_REFUSALS = {
    "no folder": "{folder} is not a folder there, or the whole system; name one that exists.",
    "mount point": "{folder} is where a file system is mounted; name a new folder in it.",
    "no parent": "{folder} cannot be made: the folder that it would be in does not exist.",
    "link": "{folder} is a symbolic link; name the folder itself.",
    "not empty": "{folder} is not empty; nothing is overwritten. Name an empty or a new folder.",
    "no restic": "restic is not installed there: apt-get install restic",
}


def summary(answer: dict[str, Any]) -> dict[str, Any]:
    """What a push did: `files`, `bytes`, `new_bytes` (sent after deduplication), `snapshot`."""
    for line in reversed(answer["out"].splitlines()):
        if '"message_type":"summary"' in line:
            told = json.loads(line)
            return {
                "files": told["total_files_processed"],
                "bytes": told["total_bytes_processed"],
                "new_bytes": told["data_added"],
                "snapshot": told["snapshot_id"][:8],
            }
    raise StepFailed("restic did not say what it pushed; look with: ./ferry data list")


def snapshots(answer: dict[str, Any]) -> list[Snapshot]:
    """All pushes, oldest first."""
    return [
        Snapshot(
            id=entry["short_id"],
            name=",".join(entry.get("tags") or []),
            time=entry["time"][:19] + "Z",
            server=entry["hostname"],
        )
        for entry in json.loads(answer["out"] or "[]") or []
    ]


def _says(answer: dict[str, Any], code: int, words: re.Pattern[str]) -> bool:
    return answer.get("code") == code or (
        answer.get("code") == 1 and bool(words.search(answer["err"]))
    )


def _last(answer: dict[str, Any]) -> str:
    lines = [line.strip() for line in answer["err"].splitlines() if line.strip()]
    if not lines:
        return f"restic ended with exit code {answer['code']}"
    with contextlib.suppress(ValueError, KeyError, TypeError):
        lines = [json.loads(lines[-1])["message"]]
    fatal = [line for line in lines if line.startswith("Fatal: ")]
    said = fatal[0] if fatal else "; ".join(dict.fromkeys(lines[-2:]))
    return said.removeprefix("Fatal: ").partition("\n")[0]
