"""The declared MIG layout: compared with what is there, and made so.

Runs on the server at boot and in `converge`: `mig_layout.py check|apply FILE`, the file being
`{"0": ["3g.40gb", "3g.40gb"], "1": []}`. Standard library only, Python 3.9 or newer. Instances do
not survive a reboot, and the mode survives it on some GPUs only (MIG User Guide).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

# nvidia-smi's own answer when there is nothing to destroy.
_NOTHING = 6
_DAEMON = "nvidia-persistenced.service"


def place(parts, possible):
    """Where each part stands, as (name, start), or None when they do not fit together.

    `possible` maps names to `starts`, `size` (memory slices) and `most`.
    """
    if any(name not in possible for name in parts):
        return None
    if any(parts.count(name) > possible[name]["most"] for name in parts):
        return None
    ordered = sorted(parts, key=lambda name: (-possible[name]["size"], name))
    return _place(ordered, possible, frozenset())


def _place(parts, possible, taken):
    if not parts:
        return []
    kind = possible[parts[0]]
    for start in kind["starts"]:
        wanted = frozenset(range(start, start + kind["size"]))
        if wanted & taken:
            continue
        rest = _place(parts[1:], possible, taken | wanted)
        if rest is not None:
            return [(parts[0], start), *rest]
    return None


def listed(text):
    """Names of the MIG devices of each GPU, from `nvidia-smi -L`."""
    found, here = {}, None
    for line in text.splitlines():
        gpu = re.match(r"GPU (\d+):", line)
        if gpu:
            here = found.setdefault(int(gpu.group(1)), [])
        part = re.match(r"\s+MIG (\S+)\s+Device\s+\d+:", line)
        if part and here is not None:
            here.append(part.group(1))
    return found


def modes(text):
    """(current, pending) of each GPU that has MIG, from `--query-gpu=index,mig.mode.…`."""
    found = {}
    for line in text.splitlines():
        index, current, pending = (word.strip() for word in line.split(","))
        if current in ("Enabled", "Disabled"):
            found[int(index)] = (current == "Enabled", pending == "Enabled")
    return found


def possible(profiles, placements):
    """Profiles by name, from `nvidia-smi mig -lgip` and `-lgipp` of one GPU."""
    found = {}
    rows = re.findall(r"\|\s+\d+\s+MIG (\S+)\s+(\d+)\s+\d+/(\d+)\s", profiles)
    where = dict(re.findall(r"Profile ID\s+(\d+) Placements?\s*:\s*(\{[\d,]+\}:\d+)", placements))
    for name, number, most in rows:
        starts, size = where[number][1:].split("}:")
        starts = [int(start) for start in starts.split(",")]
        found[name] = {"id": number, "starts": starts, "size": int(size), "most": int(most)}
    return found


def differs(wanted, mode, parts):
    """Whether one GPU is other than declared: its mode or, in any order, its parts."""
    is_on = mode == (True, True)
    return is_on != bool(wanted) or sorted(wanted) != sorted(parts)


class Refused(Exception):
    """The layout cannot be had now; the text says why and what to do."""


def smi(*arguments, accept=(0,)):
    """Output of nvidia-smi.

    Raises:
        Refused: it failed, or hangs.
    """
    argv = ["nvidia-smi", *arguments]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"{' '.join(argv)}: {error}") from None
    if done.returncode not in accept:
        said = (done.stdout + done.stderr).strip().splitlines() or ["no reason given"]
        raise Refused(f"{' '.join(argv)} ended with {done.returncode}: {said[-1]}")
    return done.stdout


def read():
    """Modes and parts of all GPUs as they are."""
    query = smi("--query-gpu=index,mig.mode.current,mig.mode.pending", "--format=csv,noheader")
    return modes(query), listed(smi("-L"))


def different(layout, mode, parts):
    """Indices of the GPUs that are not as declared."""
    return [i for i, wanted in layout.items() if differs(wanted, mode.get(i), parts.get(i, []))]


def _in_use(index):
    query = ("--query-compute-apps=pid,process_name", "--format=csv,noheader")
    return [line for line in smi("-i", str(index), *query).splitlines() if line.strip()]


def _switch(index, is_on):
    """Switch the mode; the persistence daemon keeps the GPU open and is stopped if need be."""
    arguments = ("-i", str(index), "-mig", "1" if is_on else "0")
    smi(*arguments)
    if read()[0][index] == (is_on, is_on):
        return
    daemon = ["systemctl", "is-active", "--quiet", _DAEMON]
    was_active = subprocess.run(daemon, check=False).returncode == 0
    if was_active:
        subprocess.run(["systemctl", "stop", _DAEMON], check=False)
    try:
        smi(*arguments)
        if read()[0][index] != (is_on, is_on):
            raise Refused(
                f"the MIG mode of GPU {index} changes only after a reset, since programs hold the "
                "GPU; reboot the server, the layout is then made at boot"
            )
    finally:
        if was_active:
            subprocess.run(["systemctl", "start", _DAEMON], check=False)


def _cut(index, wanted, mode):
    """Make one GPU as declared."""
    if mode is None:
        raise Refused(f"GPU {index} cannot be cut into MIG instances; declare no parts for it")
    users = _in_use(index)
    if users:
        raise Refused(
            f"GPU {index} is in use ({'; '.join(users)}); let the work end, then run again"
        )
    if mode[0]:
        for what in ("-dci", "-dgi"):
            smi("mig", "-i", str(index), what, accept=(0, _NOTHING))
    if mode != (bool(wanted), bool(wanted)):
        _switch(index, bool(wanted))
    if not wanted:
        return
    gpu = ("mig", "-i", str(index))
    offered = possible(smi(*gpu, "-lgip"), smi(*gpu, "-lgipp"))
    placed = place(wanted, offered)
    if placed is None:
        raise Refused(
            f"GPU {index} cannot be cut into {' + '.join(wanted)}; it offers {', '.join(offered)}"
        )
    # Largest first and each at its place, so that the driver's own choice leaves no gap.
    specifiers = ",".join(f"{offered[name]['id']}:{start}" for name, start in placed)
    smi(*gpu, "-cgi", specifiers, "-C")


def say(text, stream=sys.stdout):
    """Tell whoever started this."""
    stream.write(f"{text}\n")


def main(action, path):
    """Print `same` or what was changed; 1 and a reason where the layout cannot be had."""
    with open(path, encoding="utf-8") as handle:
        layout = {int(index): parts for index, parts in json.load(handle).items()}
    try:
        mode, parts = read()
        wrong = different(layout, mode, parts)
        if action == "apply":
            for index in wrong:
                _cut(index, layout[index], mode.get(index))
            wrong_still = different(layout, *read()) if wrong else []
            if wrong_still:
                raise Refused(f"GPUs {wrong_still} are still not as declared: {read()[1]}")
            say("\n".join(f"GPU {i}: {' + '.join(layout[i]) or 'whole'}" for i in wrong) or "same")
            return 0
    except Refused as why:
        say(f"MIG layout: {why}", sys.stderr)
        return 1
    say(f"GPUs {wrong} differ" if wrong else "same")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
