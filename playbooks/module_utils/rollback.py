"""A timer on the server that undoes a change unless a new login confirmed it.

Timers of systemd-run do not outlive the server, so a restart in between undoes the change as well:
a unit that is only there while the timer is puts the files back before sshd and the firewall start.
"""

from __future__ import annotations

import fnmatch
import os
import shlex
import shutil
import subprocess

from ansible.module_utils.file_state import Refused, put

STATE_DIRECTORY = "/var/lib/gpuferry/rollback"
UNITS = "/etc/systemd/system"
# What a timer has undone leaves a mark here, so that a confirmation that comes too late is seen.
UNDONE = "/run/gpuferry/undone"
BOOT_UNIT = """\
# Managed by gpuferry. Only here while a change waits for its proof.
[Unit]
Description=Undo a change that no new login confirmed before this restart
DefaultDependencies=no
Conflicts=shutdown.target
After=local-fs.target
Before=gpuferry-firewall.service network-pre.target ssh.service ssh.socket shutdown.target

[Service]
Type=oneshot
ExecStart=/bin/sh {script}
"""


def run(argv):
    """Exit status and output of a command; a missing program is status 127."""
    environment = {
        **os.environ,
        "LC_ALL": "C.UTF-8",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    }
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            env=environment,
            stdin=subprocess.DEVNULL,
            timeout=300,
        )
    except FileNotFoundError:
        return 127, "", f"{argv[0]} is not installed"
    except subprocess.TimeoutExpired:
        return 124, "", f"{shlex.join(argv)} did not end within 300 seconds"
    return done.returncode, done.stdout, done.stderr


class Rollback:
    """The timer that undoes an unconfirmed change, and what it puts back."""

    def __init__(self, options):
        self.unit = options["unit"]
        self.seconds = options["after_seconds"]
        self.commands = options["commands"]
        self.paths = options.get("paths")
        self.directory = os.path.join(STATE_DIRECTORY, self.unit)

    def wanted(self, changed, steps):
        """Whether a change is one that has to be confirmed."""
        if not self.paths:
            return bool(changed or steps)
        return any(fnmatch.fnmatch(e.path, pattern) for e in changed for pattern in self.paths)

    def pending(self):
        """Whether the timer runs."""
        return run(["systemctl", "is-active", "--quiet", f"{self.unit}.timer"])[0] == 0

    def arm(self, entries):
        """Copy what the entries are now, and start the timer."""
        # The copies of an earlier change that nobody confirmed are the last good state: they stay.
        if self.pending():
            self.disarm(keep=True)
        else:
            shutil.rmtree(self.directory, ignore_errors=True)
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        script = os.path.join(self.directory, "restore")
        known = ["#!/bin/sh"]
        if os.path.exists(script):
            with open(script, encoding="utf-8") as handle:
                known = handle.read().splitlines()
        known = [line for line in known if not line.endswith("# command")]
        for entry in entries:
            marker = f"# {entry.path}"
            if any(line.endswith(marker) for line in known):
                continue
            if entry.before is None:
                known.append(f"rm -rf {shlex.quote(entry.path)} {marker}")
            else:
                copy = os.path.join(self.directory, str(len(known)))
                put(copy, entry.before)
                known.append(
                    f"cp -a --remove-destination {copy} {shlex.quote(entry.path)} {marker}"
                )
        self._survive_a_restart(known)
        known.append(f"{shlex.join(['rm', '-f', *boot_files(self.unit)])} # command")
        known.append(f"mkdir -p {UNDONE} && touch {UNDONE}/{self.unit} # command")
        known += [f"{shlex.join(command)} # command" for command in self.commands]
        put(script, ("file", ("\n".join(known) + "\n").encode(), 0o700, 0, 0))
        run(["systemctl", "reset-failed", f"{self.unit}.service"])
        code, _, err = run(
            [
                "systemd-run",
                f"--unit={self.unit}",
                f"--on-active={self.seconds}s",
                "--timer-property=AccuracySec=1s",
                "/bin/sh",
                script,
            ]
        )
        if code != 0:
            raise Refused(
                f"no timed rollback could be armed, so nothing was changed: {err.strip()}"
            )

    def _survive_a_restart(self, restoring):
        """Have the files put back at the next start of the server; services start with them."""
        script = os.path.join(self.directory, "at-boot")
        unit, link = boot_files(self.unit)
        last = shlex.join(["rm", "-rf", unit, link, self.directory])
        put(script, ("file", ("\n".join([*restoring, last]) + "\n").encode(), 0o700, 0, 0))
        # Not `systemctl enable`, which reloads the daemon manager: only the next start reads it.
        text = BOOT_UNIT.format(script=script).encode()
        put(unit, ("file", text, 0o644, 0, 0))
        put(link, ("link", unit, None, None, None))

    def disarm(self, keep=False):
        """Stop the timer; `keep` keeps the copies."""
        run(["systemctl", "stop", f"{self.unit}.timer"])
        if not keep:
            forget(self.unit)

    def undo(self):
        """Do now what the timer would do."""
        run(["/bin/sh", os.path.join(self.directory, "restore")])
        put(os.path.join(UNDONE, self.unit), None)
        self.disarm()


def boot_files(unit):
    """The unit that undoes a change at the next start, and the link that enables it."""
    name = f"{unit}-boot.service"
    return [os.path.join(UNITS, name), os.path.join(UNITS, "sysinit.target.wants", name)]


def forget(unit):
    """Remove what a rollback would put back; its timer has been stopped."""
    for path in boot_files(unit):
        put(path, None)
    shutil.rmtree(os.path.join(STATE_DIRECTORY, unit), ignore_errors=True)


def undone(since):
    """Units whose timer has undone a change since a moment (seconds of the epoch)."""
    names = os.listdir(UNDONE) if os.path.isdir(UNDONE) else []
    return [name for name in names if os.path.getmtime(os.path.join(UNDONE, name)) >= since]


def anything_pending():
    """Whether any change waits for its confirmation: one new login confirms all of them."""
    return run(["systemctl", "is-active", "--quiet", "gpuferry-rollback-*.timer"])[0] == 0
