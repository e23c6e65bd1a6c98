"""`ferry plan driver`: the stack file's wish, facts from a folder, a table or JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from gpuferry.cli.app import app
from gpuferry.driver import wishes
from gpuferry.errors import SpecError
from gpuferry.paths import REPOSITORY
from gpuferry.spec import parse_spec

FIXTURES = REPOSITORY / "tests" / "fixtures" / "driver"


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.yaml").write_text("name: gpuferry\nruntime: python\n")
    driver = {"branch": 580, "source": "nvidia"}
    servers = [
        {"name": "gpu-1"},
        {"name": "gpu-2", "driver": {"flavour": "open"}, "gpu": {"model": "L4", "count": 2}},
    ]
    config = {"gpuferry:servers": servers, "gpuferry:driver": driver}
    (tmp_path / "Pulumi.local.yaml").write_text(json.dumps({"config": config}))
    return tmp_path


def run(stack: Path, *words: str) -> Any:
    return CliRunner().invoke(app, ["plan", "driver", "-C", str(stack), *words])


def test_a_report_is_planned_offline(stack: Path) -> None:
    result = run(stack, "gpu-1", "--facts", str(FIXTURES / "debian-13-l4-bare"))
    assert result.exit_code == 0, result.output
    for text in (
        "install",
        "nvidia 580 open",
        "NVIDIA's repository debian13/x86_64",
        "0000:01:00.0",
    ):
        assert text in result.stdout


def test_a_refusal_says_why_and_what_to_do_and_ends_with_1(stack: Path) -> None:
    result = run(stack, "gpu-2", "--facts", str(FIXTURES / "debian-12-v100-hung"))
    assert result.exit_code == 1
    assert "nvidia-smi did not answer" in result.stdout
    assert "reboot the server" in result.stdout


def test_json_holds_plan_verdict_and_facts_that_can_be_planned_again(
    stack: Path, tmp_path: Path
) -> None:
    result = run(stack, "gpu-2", "--json", "--facts", str(FIXTURES / "debian-13-h100-at-work"))
    answer = json.loads(result.stdout)
    assert answer["ok"]
    assert answer["plan"]["action"] == "leave"
    assert answer["verdict"]["status"] == "pass"
    (tmp_path / "facts.json").write_text(result.stdout)
    again = run(stack, "gpu-2", "--json", "--facts", str(tmp_path / "facts.json"))
    assert json.loads(again.stdout)["plan"] == answer["plan"]


def test_an_unknown_server_is_named(stack: Path) -> None:
    result = run(stack, "gpu-3", "--facts", str(FIXTURES / "debian-13-l4-bare"))
    assert isinstance(result.exception, SpecError)
    assert "it has: gpu-1, gpu-2" in str(result.exception)


def test_a_recording_never_overwrites(stack: Path, tmp_path: Path) -> None:
    result = run(stack, "gpu-1", "--record", str(tmp_path))
    assert isinstance(result.exception, SpecError)
    assert "does not exist yet" in str(result.exception)


def test_a_servers_driver_block_replaces_the_stacks(stack: Path) -> None:
    config = json.loads((stack / "Pulumi.local.yaml").read_text())["config"]
    spec = parse_spec(config)
    first, second = (wishes.of_server(spec, name) for name in ("gpu-1", "gpu-2"))
    assert (first.source, first.branch, first.flavour, first.gpus) == ("nvidia", "580", "auto", 0)
    assert (second.source, second.branch, second.flavour) == ("auto", None, "open")
    assert second.gpus == 2


@pytest.mark.parametrize(
    ("driver", "sentence"),
    [
        ({"branch": 580.1}, "gpuferry:driver.branch: 580.1 may have lost a digit; write the"),
        ({"branch": "latest"}, "driver.branch: 'latest' is no driver branch; accepted: three"),
        ({"flavour": "free"}, "driver.flavour: 'free' is not accepted; accepted: 'auto', 'open'"),
        ({"source": "runfile"}, "driver.source: 'runfile' is not accepted; accepted: 'auto'"),
        ({"cuda": {"runtime": [12.4]}}, "driver.cuda.runtime[0]: 12.4 may have lost a digit"),
        ({"cuda": {"toolkit": ["12"]}}, "driver.cuda.toolkit[0]: '12' is no CUDA version"),
        (
            {"cuda": {"toolkit": ["99.1"]}},
            "'99.1' is no CUDA version; accepted: 11.0 to 11.8, 12.0",
        ),
        ({"cuda": {"runtime": ["12.7"]}}, "'12.7' is no CUDA version"),
        ({"cuda": {"runtime": ["12.10"]}}, "'12.10' is no CUDA version"),
        ({"cuda": {"runtime": ["12.4", "12.4"]}}, "'12.4' is used 2 times"),
        (
            {"branch": "550", "cuda": {"toolkit": ["13.0"]}},
            "CUDA 13.0 needs driver branch 580 or later, and branch is 550; raise it, leave it out",
        ),
        ({"allow": ["everything"]}, "driver.allow[0]: 'everything' is not accepted"),
        ({"brach": "580"}, "driver.brach: unknown key; did you mean 'branch'?"),
    ],
)
def test_a_driver_that_cannot_be_had_is_refused_in_a_sentence(
    driver: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec({"gpuferry:servers": [{"name": "gpu-1"}], "gpuferry:driver": driver})
    assert sentence in str(caught.value)
    assert str(caught.value)[-1] in ".?)"


def test_a_cuda_that_is_newer_than_the_rules_is_left_to_the_server() -> None:
    wish = {"branch": "580", "cuda": {"runtime": ["13.99"], "toolkit": ["13.0"]}}
    spec = parse_spec({"gpuferry:servers": [{"name": "gpu-1"}], "gpuferry:driver": wish})
    assert wishes.of_server(spec, "gpu-1").cuda.runtime == ["13.99"]


def test_the_plan_shows_the_declared_mig_layout(stack: Path) -> None:
    gpu = {"model": "A100-80", "count": 2, "mig": {0: ["3g.40gb", "2g.20gb"], 1: []}}
    config = {"gpuferry:servers": [{"name": "gpu-1", "gpu": gpu}]}
    (stack / "Pulumi.local.yaml").write_text(yaml.safe_dump({"config": config}))
    result = run(stack, "gpu-1", "--facts", str(FIXTURES / "debian-13-h100-at-work"))
    assert "GPU 0: 3g.40gb + 2g.20gb" in result.output
    assert "GPU 1: whole" in result.output


def test_a_stack_file_that_names_no_cuda_does_not_pay_for_the_rules() -> None:
    """Every command reads one first, and so does every deployment."""
    program = (
        "import sys; from gpuferry.spec import parse_spec; "
        "gpu = {'model': 'L4', 'count': 2}; "
        "parse_spec({'gpuferry:servers': [{'name': 'gpu-1', 'gpu': gpu}], "
        "'gpuferry:driver': {'branch': '580'}}, 'x'); "
        "sys.exit('gpuferry.driver' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
