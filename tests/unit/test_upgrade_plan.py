"""Which members of the frozen set move, together, or why none may."""

from __future__ import annotations

from typing import Any

import pytest

from gpuferry.driver import Facts, Wish
from gpuferry.driver.upgrade import UpgradePlan, plan_upgrade

OLD, NEW = "550.163.01-2", "550.200.01-1"
MEMBERS = {"nvidia-smi": OLD, "libnvidia-ml1": OLD, "docker.io": "26.1", "containerd": "1.7"}
DRIVER = ("nvidia-smi", "libnvidia-ml1")


def candidate(*versions: str) -> dict[str, Any]:
    """What apt offers, the newest first."""
    return {"candidate": versions[0], "versions": list(versions)}


def facts(
    members: dict[str, str],
    offers: dict[str, tuple[str, ...]],
    *,
    simulated: bool = True,
    apt: dict[str, Any] | None = None,
    **more: Any,
) -> Facts:
    """A server whose sources offer more than is installed; `apt` is what it says of a set."""
    known = {name: (*offers.get(name, ()), version) for name, version in members.items()}
    known |= {name: versions for name, versions in offers.items() if name not in members}
    return Facts.model_validate({
        "simulated": simulated,
        "pci": [{"address": "0000:01:00.0", "device": "27b8"}],
        "os": {"id": "debian", "version_id": "13"},
        "kernel": {"release": "6.12.1-amd64"},
        "packages": {n: {"version": v, "held": True} for n, v in members.items()},
        "candidates": {n: candidate(*v) for n, v in known.items()},
        "apt": {"lists": True},
        "simulations": [apt] if apt else [],
        **more,
    })  # fmt: skip


def said(arguments: list[str], *install: str, remove: tuple[str, ...] = ()) -> dict[str, Any]:
    """apt's answer: `name old new` for each package that comes."""
    rows = [text.split() for text in install]
    return {
        "arguments": arguments,
        "install": [{"name": n, "old": o.strip("-"), "version": v} for n, o, v in rows],
        "remove": list(remove),
    }


def decide(
    seen: Facts, members: dict[str, str] = MEMBERS, to: str = "", **wish: Any
) -> UpgradePlan:
    return plan_upgrade(seen, members, members, Wish(**wish), to)


BOTH = dict.fromkeys(DRIVER, (NEW,))
ALL = {**BOTH, "docker.io": ("27.0",), "containerd": ("1.8",)}
OTHER = dict.fromkeys(DRIVER, ("580.95.05-1", NEW))


@pytest.mark.parametrize(
    ("offers", "to", "wish", "packages"),
    [
        ({}, "", {}, []),
        (BOTH, "", {}, [f"nvidia-smi={NEW}", f"libnvidia-ml1={NEW}"]),
        (ALL, "", {}, [f"nvidia-smi={NEW}", f"libnvidia-ml1={NEW}", "docker.io=27.0",
                       "containerd=1.8"]),
        # One that lags behind keeps both where they are; the others move.
        ({"nvidia-smi": (NEW,), "docker.io": ("27.0",)}, "", {}, ["docker.io=27.0"]),
        # A branch is changed only when it is asked for.
        (OTHER, "", {}, [f"nvidia-smi={NEW}", f"libnvidia-ml1={NEW}"]),
        (OTHER, "580", {}, ["nvidia-smi=580.95.05-1", "libnvidia-ml1=580.95.05-1"]),
        (OTHER, "", {"branch": "580"}, ["nvidia-smi=580.95.05-1", "libnvidia-ml1=580.95.05-1"]),
        (OTHER, "550.200.01", {}, [f"nvidia-smi={NEW}", f"libnvidia-ml1={NEW}"]),
        # Going back is a target like any other.
        (OTHER, "550.163.01", {}, []),
        # With a target only what has to goes along.
        ({**OTHER, "docker.io": ("27.0",)}, "580", {},
         ["nvidia-smi=580.95.05-1", "libnvidia-ml1=580.95.05-1"]),
    ],
)  # fmt: skip
def test_what_apt_is_asked_for(
    offers: dict[str, tuple[str, ...]], to: str, wish: dict[str, Any], packages: list[str]
) -> None:
    plan = decide(facts(MEMBERS, offers), to=to, **wish)
    assert plan.refusal is None
    assert sorted(p.argument for p in plan.packages) == sorted(packages)
    assert not plan.simulated


KERNEL = {**MEMBERS, "linux-image-amd64": "6.12.1"}


@pytest.mark.parametrize(
    ("allow", "moves"), [([], False), (["kernel_change"], True)], ids=["kept", "allowed"]
)
def test_the_kernel_moves_only_with_leave(allow: list[str], moves: bool) -> None:
    plan = decide(facts(KERNEL, {"linux-image-amd64": ("6.12.2",)}), KERNEL, allow=allow)
    assert [p.name for p in plan.packages] == (["linux-image-amd64"] if moves else [])
    assert any("kernel stays" in note for note in plan.notes) is not moves


ASKED = [f"nvidia-smi={NEW}", f"libnvidia-ml1={NEW}"]
COME = (f"nvidia-smi {OLD} {NEW}", f"libnvidia-ml1 {OLD} {NEW}")
DKMS = {"dkms": [{"module": "nvidia", "version": "550", "state": "installed"}]}


@pytest.mark.parametrize(
    ("apt", "to", "wish", "more", "reason", "word"),
    [
        (said(ASKED, *COME, "linux-image-6.13-amd64 - 1"), "", {}, {}, "pulls_kernel", "6.13"),
        (said(ASKED, *COME, remove=("docker.io",)), "", {}, {}, "removes_runtime", "docker.io"),
        (said(ASKED, *COME, remove=("libcuda1",)), "", {}, {}, "removes_driver", "libcuda1"),
        (said(ASKED, *COME, remove=("slurmd",)), "", {}, {}, "removes", "slurmd"),
        (said(ASKED, *COME, "linux-image-6.13-amd64 - 1"), "", {"allow": ["kernel_change"]}, DKMS,
         "no_headers", "6.13-amd64"),
        ({**said(ASKED), "state": "failed", "problem": "broken"}, "", {}, {}, "apt_cannot",
         "broken"),
        (None, "590", {}, {}, "not_offered", "590"),
        (None, "550.1", {}, {}, "not_offered", "550.1"),
        (None, "580", {"branch": "550"}, {}, "other_wish", "driver.branch: 550"),
        (None, "550.200.01", {"branch": "550.163.01"}, {}, "other_wish", "550.163.01"),
        (None, "580", {}, {"simulated": False, "virtualization": {"container": "docker"},
                           "module": {"loaded": True, "version": "550.163.01"}},
         "host_decides", "container"),
    ],
)  # fmt: skip
def test_what_is_refused(
    apt: dict[str, Any] | None, to: str, wish: dict[str, Any], more: dict[str, Any], reason: str,
    word: str,
) -> None:  # fmt: skip
    plan = decide(facts(MEMBERS, BOTH, apt=apt, **more), to=to, **wish)
    assert plan.refusal is not None
    assert (plan.refusal.reason, word in plan.refusal.sentence) == (reason, True)
    assert plan.refusal.options


def test_nothing_is_moved_where_nothing_is_frozen() -> None:
    plan = plan_upgrade(facts(MEMBERS, BOTH), MEMBERS, {}, Wish())
    assert plan.refusal is not None
    assert plan.refusal.reason == "not_frozen"


def test_all_that_apt_would_do_is_in_the_moves() -> None:
    apt = said(ASKED, *COME, "libc6 2.40 2.41", "libnew - 1")
    use = {"use": {"containers": [{"id": "a", "name": "train"}], "containers_state": "ok"}}
    plan = decide(facts(MEMBERS, BOTH, apt=apt, **use))
    assert [str(move) for move in plan.moves] == [
        f"nvidia-smi {OLD} -> {NEW}",
        f"libnvidia-ml1 {OLD} -> {NEW}",
        "libc6 2.40 -> 2.41",
        "libnew (absent) -> 1",
    ]
    assert plan.simulated
    assert plan.disturbs == ["container train"]


@pytest.mark.parametrize(
    ("more", "reboot"),
    [
        ({}, False),
        ({"simulated": False, "module": {"loaded": True, "version": "550.163.01"},
          "library": {"version": "550.163.01"}}, True),
        ({"virtualization": {"container": "docker"}, "module": {"loaded": True}}, False),
    ],
)  # fmt: skip
def test_a_loaded_module_of_another_version_needs_a_reboot(
    more: dict[str, Any], reboot: bool
) -> None:
    plan = decide(facts(MEMBERS, BOTH, apt=said(ASKED, *COME), **more))
    assert plan.refusal is None
    assert plan.reboot is reboot


def test_a_package_with_its_branch_in_the_name_may_give_way_to_the_next() -> None:
    apt = said(ASKED, *COME, "nvidia-utils-580 - 1", remove=("nvidia-utils-550",))
    plan = decide(facts(MEMBERS, BOTH, apt=apt))
    assert plan.refusal is None
    assert [m.name for m in plan.moves if not m.new] == ["nvidia-utils-550"]


UBUNTU = "580.126.09-0ubuntu0.24.04.1"
OF_535 = {"libnvidia-compute-535-server": "535.309.01-1", "nvidia-utils-535-server": "535.309.01-1"}
OF_580 = ("nvidia-dkms-580-server-open", "nvidia-kernel-common-580-server",
          "libnvidia-compute-580-server", "nvidia-compute-utils-580-server",
          "nvidia-utils-580-server")  # fmt: skip
PREBUILT = "linux-modules-nvidia-580-server-open-6.8.0-79-generic"


def on_ubuntu(*apt: dict[str, Any]) -> Facts:
    """535 works, and the next branch has a module for this kernel."""
    return facts(
        OF_535, {**dict.fromkeys(OF_580, (UBUNTU,)), PREBUILT: ("6.8.0-79.79+1",)},
        simulated=False, simulations=list(apt),
        os={"id": "ubuntu", "version_id": "24.04"},
        kernel={"release": "6.8.0-79-generic", "headers_installed": True},
        module={"loaded": True, "version": "535.309.01", "flavour": "open"},
        library={"version": "535.309.01"}, nvidia_smi={"state": "ok", "code": 0},
    )  # fmt: skip


def test_another_branch_is_built_here_where_apt_cannot_install_its_prebuilt_module() -> None:
    plan = decide(on_ubuntu(), OF_535, to="580")
    assert PREBUILT in [p.name for p in plan.packages]
    failed = {**said([p.argument for p in plan.packages]), "state": "failed", "problem": "unmet"}
    plan = decide(on_ubuntu(failed), OF_535, to="580")
    assert plan.refusal is None
    assert "nvidia-dkms-580-server-open" in [p.name for p in plan.packages]
    assert PREBUILT not in [p.name for p in plan.packages]


NEW_KERNEL = "linux-image-6.8.0-90-generic - 1"
HEADERS = "linux-headers-6.8.0-90-generic - 1"
MODULES = "linux-modules-nvidia-580-server-6.8.0-{}-generic"
BY_DKMS = {"nvidia-dkms-580-server": "580.1-1"}
BY_ARCHIVE = {MODULES.format(79): "6.8.0-79.79"}
LOADED = {"module": {"loaded": True, "version": "550.163.01"}}


@pytest.mark.parametrize(
    ("installed", "more", "coming", "reason"),
    [
        (BY_DKMS, {}, (), "no_headers"),
        (BY_DKMS, {}, (HEADERS,), None),
        # Headers that are there already count.
        ({**BY_DKMS, "linux-headers-6.8.0-90-generic": "1"}, {}, (), None),
        (BY_ARCHIVE, {}, (), "no_module"),
        # Nothing would build a module from headers.
        (BY_ARCHIVE, {}, (HEADERS,), "no_module"),
        (BY_ARCHIVE, {}, (f"{MODULES.format(90)} - 1",), None),
        # A module for another kernel, and another module of the same maker.
        (BY_ARCHIVE, {}, (f"{MODULES.format(91)} - 1",), "no_module"),
        (BY_ARCHIVE, {}, ("linux-modules-nvidia-fs-6.8.0-90-generic - 1",), "no_module"),
        ({**BY_ARCHIVE, **BY_DKMS}, {}, (HEADERS,), None),
        # Two kernels, and a module for one of them.
        (BY_ARCHIVE, {}, (f"{MODULES.format(90)} - 1", "linux-image-6.8.0-91-generic - 1"),
         "no_module"),
        ({}, DKMS, (), "no_headers"),
        ({}, LOADED, (HEADERS,), "no_module"),
        ({}, {}, (), None),
    ],
)  # fmt: skip
def test_a_kernel_that_comes_has_its_module_or_the_set_is_refused(
    installed: dict[str, str], more: dict[str, Any], coming: tuple[str, ...],
    reason: str | None,
) -> None:  # fmt: skip
    apt = said(ASKED, *COME, NEW_KERNEL, *coming)
    found = facts(
        {**MEMBERS, **installed}, BOTH, apt=apt,
        os={"id": "ubuntu", "version_id": "24.04"}, kernel={"release": "6.8.0-79-generic"}, **more,
    )  # fmt: skip
    plan = decide(found, allow=["kernel_change"])
    assert (plan.refusal.reason if plan.refusal else None) == reason, plan
    if plan.refusal:
        assert "6.8.0-9" in plan.refusal.sentence


@pytest.mark.parametrize(
    ("kernel", "module", "reason"),
    [
        ("6.13.1-amd64", "550.163.01-2", None),
        ("6.17.8-amd64", "550.163.01-2", "kernel_too_new"),
        # NVIDIA still maintains that branch.
        ("7.3.4-amd64", "580.126.09-1", None),
    ],
)
def test_a_kernel_that_comes_is_one_that_the_module_follows(
    kernel: str, module: str, reason: str | None
) -> None:
    apt = said(ASKED, *COME, f"linux-image-{kernel} - 1", f"linux-headers-{kernel} - 1")
    found = facts({**MEMBERS, "nvidia-kernel-dkms": module}, BOTH, apt=apt)
    plan = decide(found, allow=["kernel_change"])
    assert (plan.refusal.reason if plan.refusal else None) == reason, plan
    assert not plan.refusal or f"nvidia-kernel-dkms {module} is known" in plan.refusal.sentence


def test_the_missing_modules_metapackage_is_named() -> None:
    found = facts(
        {**MEMBERS, **BY_ARCHIVE}, BOTH, apt=said(ASKED, *COME, NEW_KERNEL),
        os={"id": "ubuntu", "version_id": "24.04"}, kernel={"release": "6.8.0-79-generic"},
    )  # fmt: skip
    plan = decide(found, allow=["kernel_change"])
    assert plan.refusal is not None
    assert "linux-modules-nvidia-580-server-generic," in plan.refusal.options[0]
