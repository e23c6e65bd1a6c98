"""What counts as a readable secret, and what does not; nothing that is found is repeated."""

from __future__ import annotations

import base64
import urllib.parse

import pytest

from gpuferry.checking.leaks import match
from gpuferry.checking.leaks.judge import judge

# Made up here, so that no scanner takes this file for a leak.
LONG = "Zz0Yy1Xx2Ww3Vv4Uu5Tt6Ss7Rr8Qq9Pp0Oo1Nn2Mm3Ll4Kk5Jj6Ii7Hh8Gg9Ff0"
PEM = f"-----BEGIN OPENSSH {'PRIVATE'} KEY-----\n{LONG}\n"
KNOWN = match.known_forms({"hf-token": "s3cr3t value+here", "short": "abc"})


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"hf_{LONG[:34]}", "a Hugging Face token"),
        (f"x=ghp_{LONG[:36]};", "a GitHub token"),
        (f"github_pat_{LONG[:60]}", "a GitHub token"),
        (f"glpat-{LONG[:20]}", "a GitLab token"),
        ("AKIA" + "ABCDEFGH12345678", "an AWS access key"),
        (f"sk-ant-{LONG[:40]}", "an API key (sk-)"),
        (f"eyJ{LONG[:20]}.eyJ{LONG[:20]}.{LONG[:30]}", "a JSON web token"),
        (PEM, "a private key"),
        ("https://ferry:hunter22@example.org/x", "a password in a URL"),
        ("before s3cr3t value+here after", "the secret hf-token"),
        (urllib.parse.quote("s3cr3t value+here", safe=""), "the secret hf-token"),
        (base64.b64encode(b"s3cr3t value+here and more").decode(), "the secret hf-token"),
    ],
)
def test_it_is_found_whatever_it_stands_in_and_never_repeated(text: str, kind: str) -> None:
    found = match.in_text(text.encode(), KNOWN)
    assert len(found) == 1
    assert found[0].startswith(kind)
    assert not any(text[i : i + 8] in found[0] for i in range(len(text) - 8) if kind[:3] != "the")


@pytest.mark.parametrize(
    "text",
    [
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE1 user@host",
        "https://example.org/user@host",
        "https://user:$PASSWORD@example.org",
        "grep -- '-----BEGIN PRIVATE KEY-----' file",
        "abc is shorter than what can be told from a word",
        "task-runner sk-short hf_short",
        "",
    ],
)
def test_what_is_none_is_left_alone(text: str) -> None:
    assert match.in_text(text.encode(), KNOWN) == []


@pytest.mark.parametrize(
    ("variable", "found"),
    [
        ("HF_TOKEN=something", True),
        ("POSTGRES_PASSWORD=example", True),
        ("AWS_SECRET_ACCESS_KEY=x/y+z12", True),
        ("db.password=hunter2", True),
        ("WANDB_API_KEY=0123456789abcdef", True),
        ("PLAIN=s3cr3t value+here", True),
        ("HF_TOKEN_PATH=/run/secrets/hf-token", False),
        ("POSTGRES_PASSWORD_FILE=/run/secrets/pg", False),
        ("HF_TOKEN=/run/secrets/hf-token", False),
        ("HF_TOKEN=", False),
        ("TOKEN=${TOKEN}", False),
        ("TOKENIZERS_PARALLELISM=false", False),
        ("MONKEY=banana", False),
        ("PASSWORD_MIN_LENGTH=12", False),
        ("SSH_AUTH_SOCK=/tmp/agent", False),
        ("no assignment", False),
    ],
)
def test_a_variable_is_judged_by_its_name_and_its_value(variable: str, found: bool) -> None:
    assert bool(match.in_variables([variable], KNOWN)) is found


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("train --token abcdef123", True),
        ("train --api-key=abcdef123", True),
        ("mysql --password=hunter2", True),
        ("env DB_PASSWORD=hunter2 app", True),
        ("train --token-file /run/secrets/x", False),
        ("train --token /run/secrets/x", False),
        ("train --password --verbose", False),
        ("ssh -F /dev/shm/config host", False),
        ("python3 -c print(1)", False),
    ],
)
def test_a_command_line_is_judged_by_its_options(command: str, found: bool) -> None:
    assert bool(match.in_arguments(command.split(), {})) is found


LOOKED = {"containers": 1, "images": 2}
FOUND = {"place": "container a: variable TOKEN", "what": "a GitHub token (40 characters)"}


@pytest.mark.parametrize(
    ("findings", "missed", "status"),
    [
        ([], [], "pass"),
        ([FOUND], [], "fail"),
        ([FOUND], ["image x: time was up"], "fail"),
        ([], ["image x: time was up"], "not_measured"),
    ],
)
def test_what_was_not_looked_at_is_no_pass(
    findings: list[dict[str, str]], missed: list[str], status: str
) -> None:
    answer = judge({"findings": findings, "missed": missed, "looked": LOOKED})
    assert answer.status == status
    assert "1 containers, 2 images" in answer.evidence
    assert all(sentence in answer.evidence for sentence in missed)
