"""What a change would do to running GPU work, and whether it may. Pure.

Standard library only, Python 3.9 or newer: used on servers and by the plan alike.
"""

from __future__ import annotations

import re

# Debian's and NVIDIA's daemons keep the device open without working (the kernel cuts names at 15).
# So does the reader of our own agent.
DAEMONS = ("nvidia-persiste", "nv-fabricmanage", "nv-hostengine", "dcgm-exporter", "nvidia-smi",
           "gpuferry-agent")  # fmt: skip
UNITS = r"(docker|containerd|nvidia-persistenced|nvidia-fabricmanager)(\.service|\.socket)?"
# Running containers lose their GPUs when the daemon manager is reloaded (nvidia-docker#1730).
# `systemctl enable` and its like reload it too, unless told not to (systemctl(1), --no-reload).
RELOAD = "reload the daemon manager, after which running containers can lose their GPUs"
EFFECTS = [
    (r"systemctl .*\b(daemon-reload|daemon-reexec)\b", RELOAD),
    (
        r"systemctl (?!.*--no-reload).*\b(enable|disable|mask|unmask|preset|preset-all|link|edit"
        r"|revert|set-property|set-default|add-wants|add-requires)\b",
        RELOAD,
    ),
    (
        rf"(systemctl .*\b(?:stop|restart|try-restart|reload-or-restart|kill|isolate)\b.*\b{UNITS}"
        r"(?![\w-])|(?:service|invoke-rc\.d) (?:docker|containerd) (?:re)?(?:start|stop)\b)",
        "stop or restart a service that containers and GPUs depend on",
    ),
    (
        r"(systemctl .*\b(reboot|poweroff|halt|kexec|soft-reboot)\b"
        r"|^(/\S*/)?(reboot|shutdown|poweroff)\b)",
        "reboot the server",
    ),
    (r"(rmmod|modprobe .*(-r|--remove)\b).*\bnvidia", "unload the driver"),
    (
        r"(nvidia-smi .*(--gpu-reset|-r\b|-mig\b|--multi-instance-gpu|\bmig\b.*-([cd][gc]i))"
        r"|mig_layout\.py apply)",
        "reset GPUs or change their MIG mode or instances",
    ),
]


def effect(argv):
    """What a command would do to GPU work, in words; an empty string when nothing."""
    text = " ".join(argv)
    return next((said for pattern, said in EFFECTS if re.search(pattern, text)), "")


def package_effect(names):
    """The same for packages of the frozen families that would be installed, moved or removed."""
    return f"change {', '.join(sorted(names))}" if names else ""


def work(use):
    """Who works with the GPUs, in words; what cannot be seen counts as work.

    `use` is what :func:`gpu_work.use` returns. An empty list means: nobody.
    """
    seen = {}
    for process in [*use.get("holders", []), *use.get("compute", [])]:
        if process["name"] not in DAEMONS:
            before = seen.setdefault(process["pid"], {"name": "", "gpus": set()})
            before["name"] = before["name"] or process["name"]
            before["gpus"] |= set(process.get("gpus", []))
    found = []
    for pid, process in sorted(seen.items()):
        gpus = sorted(process["gpus"])
        where = f" on GPU {', '.join(map(str, gpus))}" if gpus else ""
        found.append(f"process {pid} ({process['name']}){where}")
    found += [f"container {container['name']}" for container in use.get("containers", [])]
    for key, what, program in (
        ("compute_state", "processes", "nvidia-smi"),
        ("containers_state", "containers", "docker"),
    ):
        if use.get(key) in ("hung", "failed"):
            found.append(f"{what}: unknown ({program} {use[key]})")
    return found


def refusal(effects, users):
    """The sentence that refuses: who uses which GPU, what would be interrupted, the ways on.

    An empty string when nothing would be interrupted, or nobody works.
    """
    effects = list(dict.fromkeys(effect for effect in effects if effect))
    if not effects or not users:
        return ""
    more = f" and {len(users) - 5} more" if len(users) > 5 else ""
    return (
        f"GPUs are in use by {', '.join(users[:5])}{more}, and this would "
        f"{'; '.join(effects)}; nothing was changed. Let the work end or "
        "stop it, then run again; or interrupt it: ./ferry converge --disturb, or "
        "driver.allow: [disturb] in the stack file."
    )
