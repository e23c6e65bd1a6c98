"""Copy a file, a text or a directory to another machine, as `command:remote:CopyToRemote` does."""

import posixpath
import stat
from pathlib import Path

import paramiko

from tools.standins.connection import connect
from tools.standins.job import Job
from tools.standins.output import CommandFailed
from tools.standins.wire import ASSET, SIGNATURE, Properties, reveal


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
            elif Path(source["path"]).is_dir():
                _copy_tree(sftp, source["path"], target)
            else:
                _copy_file(sftp, Path(source["path"]), target)
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


def _copy_file(sftp: paramiko.SFTPClient, source: Path, target: str) -> None:
    if _is_directory(sftp, target):
        target = posixpath.join(target, source.name)
    else:
        _make_directories(sftp, posixpath.dirname(target))
    sftp.put(str(source), target)


def _copy_tree(sftp: paramiko.SFTPClient, source: str, target: str) -> None:
    root = Path(source)
    if not source.endswith("/"):
        target = posixpath.join(target, root.name)
    _make_directories(sftp, target)
    for path in sorted(root.rglob("*")):
        place = posixpath.join(target, path.relative_to(root).as_posix())
        if path.is_dir():
            _make_directories(sftp, place)
        else:
            sftp.put(str(path), place)


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
