"""Virtual machines: what is decided before one is started."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from gpuferry.nodes.local import host, machine
from gpuferry.nodes.local.capacity import Capacity, refusal
from gpuferry.nodes.local.docker import ContainerFile
from gpuferry.nodes.local.vm import acceleration, guest
from gpuferry.nodes.local.vm.inside import clock, probe_kvm, qemu
from gpuferry.nodes.local.vm.machine import clock_address, configuration, mac
from gpuferry.operate.resizing import Sizes, plan
from gpuferry.spec import parse_spec

CONFIG = {"cpus": 2, "memory_mib": 2048, "secure_boot": False, "accelerator": "tcg"}
DISKS = [{"file": "/a", "format": "raw", "serial": "system"}]


def spec(**fields: Any) -> Any:
    server = {"name": "gpu-1", "kind": "vm", **fields}
    return parse_spec({"gpuferry:servers": [server]}, "Pulumi.x.yaml")


def arguments(**fields: Any) -> machine.MachineArgs:
    fixed = dict.fromkeys(("host_private_key", "host_public_key", "authorized_key"), "x")
    subnets = {"subnet4": "10.213.7.0/24", "subnet6": "fd00::/64"}
    place = {"stack": "s", "name": "gpu-1", "image": "debian-13", "host_number": 11}
    sizes = {"cpus": 2, "memory_gib": 2}
    return machine.MachineArgs(**{**fixed, **subnets, **place, **sizes, **fields})


@pytest.mark.parametrize(
    ("change", "present", "absent"),
    [
        ({}, ["q35,smm=off", "-cpu Nehalem", "tcg,thread=multi", "OVMF_CODE_4M.fd"], ["secboot"]),
        ({"accelerator": "kvm"}, ["-accel kvm -cpu host"], ["tcg", "Nehalem"]),
        (
            {"secure_boot": True},
            ["smm=on", "OVMF_CODE_4M.secboot.fd", "property=secure,value=on", "variables-ms.fd"],
            ["OVMF_CODE_4M.fd", "variables-plain.fd"],
        ),
        ({"cpus": 3, "memory_mib": 1536}, ["-smp 3", "-m 1536M"], []),
    ],
)
def test_the_command_line_follows_the_configuration(
    change: dict[str, Any], present: list[str], absent: list[str]
) -> None:
    text = " ".join(qemu.command({**CONFIG, **change}, DISKS, []))
    assert [word for word in present if word not in text] == []
    assert [word for word in absent if word in text] == []


def test_only_the_first_disk_is_booted_from() -> None:
    second = {"file": "/b", "format": "raw", "serial": "data"}
    text = " ".join(qemu.command(CONFIG, [*DISKS, second], []))
    assert "serial=system,bootindex=0" in text
    assert text.count("bootindex") == 1


def test_the_host_key_comes_last_in_the_seed() -> None:
    """Its presence says that a first boot took everything."""
    identity = [
        ContainerFile(guest.HOST_KEY, "secret"),
        ContainerFile("home/ferry/.ssh", None, 0o700, 1000),
        ContainerFile("home/ferry/.ssh/authorized_keys", "key", 0o600, 1000),
    ]
    network = guest.network_files(
        "gpu-1", "02:42:0a:d5:07:0b", ["10.0.0.2/24"], ["10.0.0.1"], [], "c"
    )
    with tarfile.open(fileobj=io.BytesIO(guest.seed(identity, network))) as tar:
        members = tar.getmembers()
    assert members[-1].name == guest.HOST_KEY
    assert members[-1].mode == 0o600
    names = [member.name for member in members]
    assert names.index("home/ferry/.ssh") < names.index("home/ferry/.ssh/authorized_keys")


def test_the_network_is_static_and_bound_to_the_one_interface() -> None:
    files = guest.network_files(
        "gpu-1",
        mac("10.213.7.11"),
        ["10.213.7.11/24", "fd00::b/64"],
        ["10.213.7.1"],
        ["9.9.9.9"],
        "169.254.7.11",
    )
    text = {file.path: str(file.text) for file in files}
    unit = text["etc/systemd/network/10-provider.network"]
    assert "MACAddress=02:42:0a:d5:07:0b" in unit
    assert unit.count("Address=") == 3
    assert "NTP=169.254.7.11\n\n[Route]\nDestination=169.254.7.11/32\nScope=link\n" in unit
    assert text["etc/resolv.conf"] == "nameserver 9.9.9.9\n"
    assert "fd00::b gpu-1" in text["etc/hosts"]


@pytest.mark.parametrize(
    ("own", "upstream", "expected"),
    [
        (
            "nameserver 192.0.2.1\nsearch x\nnameserver 2001:db8::1\n",
            "",
            ["192.0.2.1", "2001:db8::1"],
        ),
        ("nameserver 127.0.0.53\n", "nameserver 192.0.2.2\n", ["192.0.2.2"]),
        ("nameserver ::1\nnameserver fe80::1%eth0\n", "", []),
        ("# nameserver 192.0.2.1\n", "", []),
    ],
)
def test_servers_get_resolvers_that_are_not_this_machines_loopback(
    tmp_path: Path, own: str, upstream: str, expected: list[str]
) -> None:
    for name, text in (("etc", own), ("run/systemd/resolve", upstream)):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "resolv.conf").write_text(text)
    assert host.nameservers(tmp_path) == expected


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ("echo; printf 'gpu-1 login: '; sleep 60", "boots"),
        ("echo 'KVM internal error. Suberror: 1'; sleep 60", "dies in early boot"),
        ("echo 'could not set MSR'; exit 1", "QEMU ended: could not set MSR"),
        ("exit 1", "QEMU ended: without a word"),
        ("echo booting; sleep 60", "did not boot within 1 s"),
    ],
)
def test_the_probe_judges_by_what_a_guest_does(script: str, answer: str) -> None:
    command = ["sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        found = probe_kvm.watch(process, 1)
        process.kill()
    assert answer in found


def test_a_device_alone_is_no_proof_and_a_finding_lasts_one_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    device = tmp_path / "kvm"
    absent = acceleration.known(device)
    assert absent is not None
    assert absent.accelerator == "tcg"
    device.touch()
    assert acceleration.known(device) is None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    record = tmp_path / "gpuferry/kvm.json"
    record.parent.mkdir()
    for boot_id, known in ((boot, True), ("another", False)):
        record.write_text(json.dumps({"accelerator": "kvm", "reason": "r", "boot_id": boot_id}))
        assert (acceleration.known(device) is not None) is known
    record.write_text("half a fi")
    assert acceleration.known(device) is None
    assert acceleration.judge("boots").accelerator == "kvm"
    assert acceleration.judge("a guest did not boot").accelerator == "tcg"


def test_memory_of_virtual_machines_counts_with_what_qemu_needs() -> None:
    has = Capacity(cpus=4, memory_gib=8, disk_gib=100)
    assert refusal(spec(memory_gib=7.5).servers, has) is None
    assert "8.4 GiB of memory in all (0.4 for each QEMU)" in str(
        refusal(spec(memory_gib=8).servers, has)
    )
    assert "extra_disks_gib: 120 GiB" in str(refusal(spec(extra_disks_gib=[60, 60]).servers, has))


def test_sizes_and_secure_boot_change_in_place_and_the_kind_does_not() -> None:
    one = arguments(kind="vm")
    other = arguments(kind="vm", cpus=4, memory_gib=8, secure_boot=True, extra_disks=1)
    assert one.identity() == other.identity()
    assert configuration(one, "tcg") != configuration(other, "tcg")
    assert one.identity() != arguments(kind="container").identity()
    assert one.identity() != arguments(kind="vm", packages=["dkms"]).identity()


def test_another_server_like_the_last_one_has_its_disks_and_firmware() -> None:
    last = spec(secure_boot=True, extra_disks_gib=[1, 2])
    changes, removed = plan(last, None, Sizes(), 2)
    assert removed == []
    assert ("servers[1].kind", "vm") in changes
    assert ("servers[1].secure_boot", "true") in changes
    assert ("servers[1].extra_disks_gib[1]", "2") in changes


def test_every_server_of_a_stack_has_a_time_server_address_of_its_own() -> None:
    assert clock_address("10.213.7.11") == "169.254.7.11"
    assert clock_address("10.213.7.12") != clock_address("10.213.7.11")


def test_the_time_server_answers_with_the_time_it_was_given() -> None:
    """Fields of RFC 4330: mode, stratum, the client's own stamp sent back, seconds since 1900."""
    request = bytes([0b00_100_011]) + bytes(39) + b"CLIENTTX"
    answer = clock.reply(request, 1.5)
    assert len(answer) == 48
    assert (answer[0], answer[1]) == (0b00_100_100, 10)
    assert answer[24:32] == b"CLIENTTX"
    for at in (16, 32, 40):
        whole, fraction = struct.unpack("!II", answer[at : at + 8])
        assert (whole, fraction) == (2_208_988_801, 1 << 31)
