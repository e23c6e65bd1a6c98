"""Copy a file, a text or a directory to another machine, as `command:remote:CopyToRemote` does."""

import os
import posixpath
import stat

import paramiko

from standins.connection import connect
from standins.job import Job
from standins.output import CommandFailed
from standins.wire import ASSET, SIGNATURE, Properties, reveal


def copy(inputs: Properties, job: Job) -> None:
    """Copy `source` to `remotePath`; raises CommandFailed.

    Where things land follows the official plugin: a file or a directory goes into a remote
    directory that exists, a directory named with a final `/` gives its content only.
    """
    plain = reveal(inputs)
    source, target = plain["source"], plain["remotePath"]
    client = connect(plain["connection"], job)
    try:
        with job.stoppable(client.close), client.open_sftp() as sftp:
            if source[SIGNATURE] == ASSET and "text" in source:
                _copy_text(sftp, source["text"], target)
            elif os.path.isdir(source["path"]):
                _copy_into(sftp, source["path"], target)
            else:
                _copy_file(sftp, source["path"], target)
    except (OSError, EOFError, paramiko.SSHException) as error:
        raise CommandFailed(f"cannot copy to {target}: {error}") from None
    finally:
        client.close()


def _copy_text(sftp: paramiko.SFTPClient, text: str, target: str) -> None:
    if _is_directory(sftp, target):
        raise CommandFailed(f"{target} is a directory; the target of a text must be a file")
    _make_directories(sftp, posixpath.dirname(target))
    with sftp.open(target, "wb") as stream:
        stream.write(text.encode())


def _copy_file(sftp: paramiko.SFTPClient, source: str, target: str) -> None:
    if _is_directory(sftp, target):
        target = posixpath.join(target, os.path.basename(source))
    else:
        _make_directories(sftp, posixpath.dirname(target))
    sftp.put(source, target)


def _copy_into(sftp: paramiko.SFTPClient, source: str, target: str) -> None:
    if not source.endswith("/"):
        target = posixpath.join(target, os.path.basename(source))
    for directory, _, files in os.walk(source):
        relative = os.path.relpath(directory, source)
        place = posixpath.normpath(posixpath.join(target, relative))
        _make_directories(sftp, place)
        for name in files:
            sftp.put(os.path.join(directory, name), posixpath.join(place, name))


def _make_directories(sftp: paramiko.SFTPClient, path: str) -> None:
    """Make a remote directory and its parents, as far as they are missing."""
    if path in ("", "/") or _is_directory(sftp, path):
        return
    _make_directories(sftp, posixpath.dirname(path))
    sftp.mkdir(path)


def _is_directory(sftp: paramiko.SFTPClient, path: str) -> bool:
    try:
        return stat.S_ISDIR(sftp.stat(path).st_mode or 0)
    except FileNotFoundError:
        return False
