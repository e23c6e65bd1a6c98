"""What the role puts on a server: the agent, its locked packages as they were installed."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible.errors import AnsibleError

from agent.config import parse
from gpuferry import desired
from gpuferry.errors import SpecError
from gpuferry.paths import REPOSITORY
from gpuferry.spec import parse_spec
from gpuferry.spec.node_agent import NAMES


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    path = REPOSITORY / "playbooks/lookup_plugins/agent_files.py"
    module = ModuleType("agent_files")
    module.__file__ = str(path)
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    return module


def test_what_is_delivered_runs_by_itself(plugin: ModuleType, tmp_path: Path) -> None:
    """Isolated from everything else that is installed."""
    for file in plugin.LookupModule().run([str(tmp_path)]):
        path = Path(file["path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file["content"])
    code = (
        f"import sys; sys.path = [{str(tmp_path)!r}, *[p for p in sys.path if 'site-' not in p]]; "
        "import agent.run, agent.nvml.child, pynvml, prometheus_client; "
        "print(pynvml.__file__, prometheus_client.__file__, len(agent.run.xid.catalogue("
        "agent.run.CATALOGUE)['codes']))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second, codes = done.stdout.split()
    assert first.startswith(str(tmp_path))
    assert second.startswith(str(tmp_path))
    assert int(codes) > 90


def test_the_lock_and_the_environment_have_the_same_versions(plugin: ModuleType) -> None:
    lock = plugin.locked((REPOSITORY / "requirements/agent.txt").read_text())
    assert set(lock) == {"nvidia-ml-py", "prometheus-client"}
    controller = plugin.locked((REPOSITORY / "requirements/run.txt").read_text())
    assert lock.items() <= controller.items()


def test_another_version_is_refused(plugin: ModuleType) -> None:
    with pytest.raises(AnsibleError, match=r"asks for 0\.1"):
        plugin.package("nvidia-ml-py", "0.1")


def test_a_package_that_was_changed_is_refused(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = importlib.metadata.distribution("nvidia-ml-py")
    changed = tmp_path / "pynvml.py"
    changed.write_text("evil = True\n")
    file = next(f for f in own.files or [] if str(f) == "pynvml.py")
    monkeypatch.setattr(type(file), "locate", lambda self: changed)
    with pytest.raises(AnsibleError, match="was changed after it was installed"):
        plugin.package("nvidia-ml-py", own.version)


def test_only_servers_with_gpus_get_it_and_know_how_many() -> None:
    spec = parse_spec(
        {"gpuferry:servers": [{"name": "a", "gpu": {"model": "L4", "count": 3}}, {"name": "b"}]}
    )
    with_gpus, without = spec.servers
    assert "agent" in desired.roles(with_gpus)
    assert "agent" not in desired.roles(without)
    found = desired.role_variables(spec, with_gpus, desired.StackFacts())
    assert found["agent_expected_gpus"] == 3
    assert "agent_expected_gpus" not in desired.role_variables(spec, without, desired.StackFacts())


def test_every_threshold_of_the_stack_file_is_one_that_the_agent_starts_with() -> None:
    said = {"thresholds": dict.fromkeys(NAMES, 3)}
    servers = [{"name": "a", "gpu": {"model": "L4", "count": 1}}]
    spec = parse_spec({"gpuferry:servers": servers, "gpuferry:agent": said})
    found = desired.role_variables(spec, spec.servers[0], desired.StackFacts())
    config = parse({"thresholds": json.loads(json.dumps(found["agent_thresholds"]))})
    assert vars(config.thresholds) == dict.fromkeys(NAMES, 3)


def test_what_the_stack_file_says_reaches_the_agent() -> None:
    said = {"thresholds": {"hung_seconds": 600}, "progress_files": ["/data/*.log"]}
    servers = [{"name": "a", "gpu": {"model": "L4", "count": 1}}]
    spec = parse_spec({"gpuferry:servers": servers, "gpuferry:agent": said})
    found = desired.role_variables(spec, spec.servers[0], desired.StackFacts())
    config = {key: found[f"agent_{key}"] for key in (*said, "sample_seconds", "expected_gpus")}
    assert parse(config).thresholds.hung_seconds == 600
    assert config["progress_files"] == ["/data/*.log"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"thresholds": {"hung_secs": 1}}, "'hung_secs' is no threshold; accepted: "),
        ({"thresholds": {"hung_seconds": -1}}, "accepted: 0 or more"),
        ({"thresholds": {"hung_seconds": 3600}}, "accepted: 0 to 1800"),
        ({"sample_seconds": 0.1}, "sample_seconds"),
        ({"progress_files": ["x"]}, "progress_files"),
    ],
)
def test_a_mistake_in_it_is_named_before_anything_is_done(said: dict[str, Any], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        parse_spec({"gpuferry:servers": [{"name": "a"}], "gpuferry:agent": said})


def test_another_agent_is_another_input_of_its_role(tmp_path: Path) -> None:
    from gpuferry.converge.proof import inputs_digest

    for folder in ("roles/agent/meta", "playbooks", "agent", "requirements"):
        (tmp_path / folder).mkdir(parents=True)
    owns = (REPOSITORY / "roles/agent/meta/owns.yml").read_text()
    (tmp_path / "roles/agent/meta/owns.yml").write_text(owns)
    (tmp_path / "agent/run.py").write_text("one")
    before = inputs_digest("agent", {}, tmp_path)
    (tmp_path / "agent/run.py").write_text("two")
    assert inputs_digest("agent", {}, tmp_path) != before


@pytest.mark.parametrize("part", ["requirements/agent.txt", "gpuferry/driver/rules/xid.yaml"])
def test_other_packages_and_another_xid_catalogue_are_another_input(
    tmp_path: Path, part: str
) -> None:
    from gpuferry.content import roles_digest, tree_digest
    from gpuferry.converge.proof import inputs_digest, owns

    assert part in owns("agent").sources
    delivered = (*owns("agent").sources, *owns("log_shipping").sources)
    assert tree_digest("roles", "playbooks", *delivered) == roles_digest()
    for path, text in (
        ("roles/agent/meta/owns.yml", (REPOSITORY / "roles/agent/meta/owns.yml").read_text()),
        (part, "one"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    before = inputs_digest("agent", {}, tmp_path)
    (tmp_path / part).write_text("two")
    assert inputs_digest("agent", {}, tmp_path) != before


def test_the_reader_is_no_gpu_work(monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.nvml.child import NAME

    sys.path.insert(0, str(REPOSITORY / "playbooks/module_utils"))
    try:
        import disturb  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    reader = {"pid": 7, "name": NAME.decode(), "gpus": [0]}
    assert len(NAME) <= 15, "the kernel cuts names"
    assert disturb.work({"holders": [reader]}) == []
    assert disturb.work({"holders": [{**reader, "name": "python3"}]}) != []


def test_the_catalogue_is_plain_json(plugin: ModuleType) -> None:
    assert json.loads(plugin.modules()["agent/xid.json"])["codes"]["79"]["action"] == "reboot"
