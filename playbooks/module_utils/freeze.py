"""Which packages are frozen at which version, and what tells apt and its helpers so.

Pure: names and versions in, decisions and file texts out.
"""

from __future__ import annotations

import re

PREFERENCES = "/etc/apt/preferences.d/60-gpuferry-freeze"
APT_CONF = "/etc/apt/apt.conf.d/95gpuferry-freeze"
NEEDRESTART = "/etc/needrestart/conf.d/60-gpuferry-freeze.conf"
RECORD = "/var/lib/gpuferry/frozen.json"
# Above every other source, and below 1000: apt never downgrades by itself (apt_preferences(5)).
PRIORITY = 999
# What the role's default has: for decisions before the role was ever played.
FAMILIES = (
    "^nvidia-", "^libnvidia-", "^xserver-xorg-video-nvidia", "^firmware-nvidia", "^cuda-",
    "^libcu(da|dart|blas|fft|file|rand|solver|sparse|dnn|pti)",
    "^libnv(rtc|jitlink|jpeg|vm|blas|sdm|idia|optix)",
    "^libnpp", "^libnccl", "^libnvscf", "^linux-(image|headers|modules|kbuild)-",
    "^docker", "^containerd", "^runc$",
)  # fmt: skip


def members(families, installed):
    """Installed packages (name to version) that belong to a family, by its leading part."""
    patterns = [re.compile(family) for family in families]
    return {
        name: version
        for name, version in sorted(installed.items())
        if any(pattern.match(name) for pattern in patterns)
    }


def record(frozen, present, renew):
    """The versions to freeze at: what was recorded stays, what is new joins.

    A member that changed its version by itself keeps the recorded one, so that checks name it;
    with `renew` the present versions are taken.
    """
    return dict(present) if renew else {**present, **frozen}


def moved(frozen, present):
    """Sentences about members that are not what was frozen."""
    said = []
    for name, version in sorted(frozen.items()):
        if name not in present:
            said.append(f"{name} {version} is gone")
        elif present[name] != version:
            said.append(f"{name} is {present[name]}, frozen at {version}")
    new = sorted(present.keys() - frozen)
    return said + [f"{name} {present[name]} is not in the set" for name in new]


def preferences(frozen):
    """Text of the apt preferences: no other version of a member is ever a candidate."""
    head = "Explanation: gpuferry: moves only with `ferry driver upgrade`\n"
    return "\n".join(
        f"{head}Package: {name}\nPin: version {version}\nPin-Priority: {PRIORITY}\n"
        for name, version in sorted(frozen.items())
    )


def apt_conf(families):
    """Text of apt's configuration: unattended-upgrades leaves the families alone."""
    # apt.conf knows no escapes in strings; a double quote cannot be part of a package's name.
    lines = "".join(f'  "{family}";\n' for family in families)
    return f"Unattended-Upgrade::Package-Blacklist {{\n{lines}}};\n"


def needrestart(services):
    """Text of needrestart's configuration: it does not restart these services."""
    lines = "".join(
        f"$nrconf{{override_rc}}->{{qr(^{re.escape(name)}\\.service$)}} = 0;\n" for name in services
    )
    return f"# Managed by gpuferry: jobs run under these.\n{lines}"
