"""What `ferry check` asks of a running agent, asked of one whose second GPU is lost."""

from __future__ import annotations

import ast
import json
import subprocess
import threading
from pathlib import Path

import pytest

from agent.config import Config
from agent.run import Agent, clock
from agent.samples import Driver
from agent.server import Server, ensure_token
from gpuferry.paths import REPOSITORY


def ask() -> str:
    """What the check runs on the server; the module itself is for pytest on a node."""
    tree = ast.parse((REPOSITORY / "checks/test_agent.py").read_text())
    (found,) = (n.value for n in tree.body if isinstance(n, ast.Assign)
                and isinstance(n.targets[0], ast.Name) and n.targets[0].id == "ASK")  # fmt: skip
    return str(ast.literal_eval(found))


@pytest.mark.parametrize(("lost", "answering"), [(False, 2), (True, 1)])
def test_a_lost_gpu_does_not_count_as_one_that_is_seen(
    tmp_path: Path, lost: bool, answering: int
) -> None:
    ensure_token(tmp_path / "token")
    agent = Agent(Config(kernel_logs=(), state_file=str(tmp_path / "state.json")))
    gpus = [{"index": n, "uuid": f"GPU-{n}", "name": "L4", "pci": ""} for n in range(2)]
    agent.observer.hello({"driver": "570", "gpus": gpus})
    agent.observer.driver = Driver("ok")
    second = {"error": 15, "text": "lost"} if lost else {"values": {}}
    told = {"took": 0.1, "xids": [], "gpus": {"GPU-0": {"values": {}}, "GPU-1": second}}
    agent.observer.sample(told, clock())
    pages = {"/metrics": agent._exposition.text, "/state": agent.state}
    server = Server("127.0.0.1", 0, str(tmp_path / "token"), pages, print)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = {
        "listen": "127.0.0.1", "port": server.server_address[1],
        "token_file": str(tmp_path / "token"),
    }  # fmt: skip
    (tmp_path / "agent.json").write_text(json.dumps(config))
    script = ask().replace("/etc/gpuferry/agent.json", str(tmp_path / "agent.json"))
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=False, text=True)
    server.shutdown()
    server.server_close()
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["stranger"] == 401
    assert said["state"]["visible"] == 2
    assert said["answering"] == answering
