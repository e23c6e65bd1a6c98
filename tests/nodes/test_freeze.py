"""The frozen set against real apt, real unattended-upgrades and real needrestart."""

import pytest

from gpuferry.checking import run_checks
from tests.support.marks import slow
from tests.support.packages import ORIGIN, publish, versions

STACK = [
    "nvidia-kernel-999-dkms",
    "libnvidia-compute-999",
    "cuda-cudart-99-1",
    "linux-image-9.99.0-gpu",
    "nvidia-fabricmanager-999",
    "docker-ce",
    "containerd.io",
]
ALL = [*STACK, "harmless"]
UNATTENDED = f"""
cat > /etc/apt/apt.conf.d/52test <<'END'
Unattended-Upgrade::Origins-Pattern {{ "origin={ORIGIN}"; }};
END
unattended-upgrade
"""


def offer(node, version):
    publish(node, dict.fromkeys(ALL, version))


def moved(node, version):
    return {name for name, found in versions(node, *ALL).items() if found == version}


@pytest.fixture(scope="module")
def node(image, new_node):
    node = new_node(image)
    offer(node, "1.0")
    node.run(f"apt-get -q -y install {' '.join(ALL)} unattended-upgrades needrestart", 300)
    return node


@pytest.fixture
def verdicts(node):
    def judge():
        expected = {"hostname": "node", "user": node.server.user, "roles": ["freeze"]}
        found = run_checks(
            [node.server], {node.server.name: {**expected, "kind": "container"}}, select=["freeze"]
        )
        return {v.id: v for v in found if v.id.startswith("freeze.")}

    return judge


def test_without_the_role_everything_moves(node, verdicts):
    """What makes the other tests able to fail."""
    found = verdicts()
    assert found.pop("freeze.upgrade_finished").status == "pass"
    assert {v.status for v in found.values()} == {"fail"}
    offer(node, "1.1")
    node.run(UNATTENDED, 300)
    assert moved(node, "1.1") == set(ALL)


def test_freezing_changes_once(node, verdicts):
    assert node.play("freeze", check_only=True).changed(node.server.name) == 1
    assert node.changed("freeze") == 1
    assert node.changed("freeze") == 0
    assert {v.status for v in verdicts().values()} == {"pass"}, verdicts()


@pytest.mark.parametrize(
    ("left", "undo"),
    [
        ("hold, pin and blacklist", "true"),
        *slow(
            ("the pin alone", "apt-mark unhold '*' >/dev/null"),
            ("the hold alone", "rm /etc/apt/preferences.d/60-gpuferry-freeze"),
        ),
    ],
)
def test_a_full_upgrade_moves_no_member_with(node, left, undo):
    node.run(undo)
    offer(node, "1.2")
    node.run("apt-get -q -y dist-upgrade", 300)
    assert moved(node, "1.2") == {"harmless"}
    assert node.changed("freeze") == (0 if undo == "true" else 1)


@pytest.mark.slow
def test_unattended_upgrades_move_no_member_with_the_blacklist_alone(node):
    node.run("apt-mark unhold '*' >/dev/null; rm /etc/apt/preferences.d/60-gpuferry-freeze")
    offer(node, "1.3")
    node.run(UNATTENDED, 300)
    assert moved(node, "1.3") == {"harmless"}
    assert node.changed("freeze") == 1


@pytest.mark.slow
def test_a_member_that_moved_is_named_and_stays_named(node, verdicts):
    node.run("apt-get -q -y --allow-change-held-packages install containerd.io=1.3")
    node.run("apt-mark hold containerd.io")
    for _ in range(2):
        found = verdicts()["freeze.members"]
        assert found.status == "fail"
        assert "containerd.io is 1.3, frozen at 1.1" in found.measured
        assert node.changed("freeze") == 0
    assert node.changed("freeze", freeze_renew=True) == 1
    assert {v.status for v in verdicts().values()} == {"pass"}


@pytest.mark.slow
def test_a_new_member_joins_with_the_next_converge(node, verdicts):
    publish(node, {"libnvidia-encode-999": "1.0"})
    node.run("apt-get -q -y install libnvidia-encode-999")
    assert "outside the set" in verdicts()["freeze.members"].measured
    assert node.changed("freeze") == 1
    assert verdicts()["freeze.members"].status == "pass"


def test_needrestart_leaves_the_services_of_jobs_alone(node):
    asked = """
    perl -e 'our %nrconf; do "/etc/needrestart/needrestart.conf"; die $@ if $@;
    for my $unit (@ARGV) { my ($hit) = grep { $unit =~ /$_/ } keys %{$nrconf{override_rc}};
      print "$unit ", (defined $hit ? $nrconf{override_rc}{$hit} : "restart"), "\\n"; }' \
      docker.service containerd.service nvidia-persistenced.service nginx.service
    """
    assert node.run(asked).splitlines() == [
        "docker.service 0",
        "containerd.service 0",
        "nvidia-persistenced.service 0",
        "nginx.service restart",
    ]
