"""A server on which secrets lie where they should not: each place is named, no value repeated."""

from __future__ import annotations

import pytest

from gpuferry.checking import run_checks
from gpuferry.verdict import Verdict
from tests.support.node import Node, NodeMaker

DECLARED = "decl4red-se3ret-9f"
# Taken apart, so that no scanner takes this file for a leak.
TOKEN = "hf_" + "Zz0Yy1Xx2Ww3Vv4Uu5Tt6Ss7Rr8Qq9Pp0O"
FILES = {"hf-token": {"name": "hf-token", "value": DECLARED, "uid": 0}}
DOCKERFILE = """
FROM scratch
COPY busybox /bin/busybox
COPY token /root/token
RUN ["/bin/busybox", "rm", "/root/token"]
ARG DB_PASSWORD
RUN ["/bin/busybox", "true"]
ENV WANDB_API_KEY=0123456789abcdef0123
CMD ["/bin/busybox", "sleep", "1000"]
"""
CLEAN = 'FROM scratch\nCOPY busybox /bin/busybox\nCMD ["/bin/busybox", "sleep", "1000"]\n'


def look(node: Node) -> Verdict:
    expected = {"hostname": "node", "user": node.server.user, "roles": [], "kind": "container"}
    found = run_checks([node.server], {node.server.name: expected}, select=["security.secrets"])
    return next(v for v in found if v.id == "security.secrets")


def build(node: Node, name: str, dockerfile: str, *options: str) -> None:
    node.run(
        f"mkdir -p /tmp/{name}; cd /tmp/{name}; cp /bin/busybox .; echo {TOKEN} > token\n"
        f"cat > Dockerfile <<'END'\n{dockerfile}\nEND\n"
        f"DOCKER_BUILDKIT=0 docker build -q {' '.join(options)} -t {name} . && rm -r /tmp/{name}"
    )


@pytest.fixture(scope="module")
def node(new_node: NodeMaker) -> Node:
    node = new_node()
    node.play("base", "docker", "secrets", secrets_files=list(FILES.values()))
    node.run("apt-get install -yqq busybox-static", 120)
    build(node, "clean", CLEAN)
    return node


def test_a_job_that_mounts_its_secret_is_clean(node: Node) -> None:
    node.run(
        "docker run -d --name job -v /run/gpuferry/secrets/hf-token:/run/secrets/hf-token:ro "
        "-e HF_TOKEN_PATH=/run/secrets/hf-token clean"
    )
    said = node.run("docker exec job /bin/busybox cat /run/secrets/hf-token")
    assert said == DECLARED
    verdict = look(node)
    assert (verdict.status, verdict.measured) == ("pass", "none found"), verdict
    assert "1 containers, 1 images" in verdict.evidence


@pytest.fixture(scope="module")
def found(node: Node) -> Verdict:
    build(node, "leaky", DOCKERFILE, "--build-arg DB_PASSWORD=hunter2hunter2")
    node.run(
        f"docker run -d --name by-value -e SETTING=x-{DECLARED}-x clean\n"
        "docker run -d --name by-label --label api.token=abcdefgh12345 clean\n"
        "docker run -d --name wrote clean\n"
        f"docker exec wrote /bin/busybox sh -c 'mkdir -p /root; echo {TOKEN} > /root/.token'\n"
        'printf \'[Service]\\nEnvironment="MODE=x" "S3_SECRET_KEY=abcdefgh12345"\\n'
        "EnvironmentFile=-/etc/job.env\\nExecStart=/bin/true --password hunter2hunter2\\n' "
        "> /etc/systemd/system/job.service\n"
        f"echo LOGIN={TOKEN} > /etc/job.env; chmod 600 /etc/job.env\n"
        "systemd-run -q --unit proc bash -c "
        f"'exec -a trainer python3 -c \"import time; time.sleep(999)\" --token={TOKEN}'\n"
        f"systemd-run -q --unit env -E PROXY=http://me:{DECLARED}@proxy:3128/ sleep 1000"
    )
    return look(node)


@pytest.mark.parametrize(
    "place",
    [
        "container by-value: variable SETTING: the secret hf-token",
        "container by-label: label api.token: a value of 13 characters under a secret's name",
        "container wrote: file /root/.token: a Hugging Face token (37 characters)",
        "image leaky:latest: variable WANDB_API_KEY",
        "image leaky:latest: history",
        "image leaky:latest: file /root/token: a Hugging Face token (37 characters)",
        "unit file /etc/systemd/system/job.service: a value of 13 characters",
        "unit file /etc/systemd/system/job.service: a value of 14 characters with --password",
        "environment file /etc/job.env: LOGIN: a Hugging Face token",
        "process sleep: variable PROXY",
        "process trainer: arguments: a Hugging Face token",
    ],
)
def test_each_place_is_named(found: Verdict, place: str) -> None:
    assert place in found.evidence, found.evidence.replace("; ", "\n")


def test_it_fails_and_repeats_no_value(found: Verdict) -> None:
    assert found.status == "fail"
    assert found.severity == "critical"
    text = found.model_dump_json()
    values = (DECLARED, TOKEN, "hunter2hunter2", "abcdefgh12345", "0123456789abcdef0123")
    assert not [value for value in values if value in text]
    assert "ferry secret set" in found.next_step
