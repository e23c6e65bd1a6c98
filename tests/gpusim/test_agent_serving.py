"""Whom the node agent answers, and how."""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.agent import RunningAgent, refused
from tests.support.simulated import Simulated, wait_until


def test_only_who_has_the_token_is_told_and_a_new_one_counts_at_once(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4")
    token = gpus.folder / "token"
    token.write_text("one\n")
    agent = RunningAgent(gpus, token_file=str(token))
    assert [refused(agent, "/metrics", t) for t in ("", "two", "one")] == [401, 401, 200]
    assert refused(agent, "/state") == 401
    assert agent.get("/healthy") == "ok\n"
    assert refused(agent, "/none", "one") == 404
    token.write_text("two\n")
    assert [refused(agent, "/metrics", t) for t in ("one", "two")] == [401, 200]
    token.write_text("")
    assert refused(agent, "/metrics", "") == 401, "an empty token opens nothing"
    token.unlink()
    assert refused(agent, "/metrics", "two") == 401


def test_clients_that_only_sit_there_do_not_keep_others_out_for_long(
    gpus: Simulated, start: Callable[..., RunningAgent]
) -> None:
    gpus.make("L4")
    agent = start()
    sitting = [socket.create_connection(("127.0.0.1", agent.port)) for _ in range(40)]
    try:
        wait_until("an answer", lambda: answers(agent), 15)
    finally:
        for connection in sitting:
            connection.close()


def answers(agent: RunningAgent) -> bool:
    try:
        return bool(agent.metrics("node_agent_info"))
    except OSError:
        return False


def test_it_listens_on_nothing_else(gpus: Simulated, start: Callable[..., RunningAgent]) -> None:
    gpus.make("L4")
    agent = start()
    pids = [agent.process.pid, *agent.children()]
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            target = str(link.readlink()) if link.is_symlink() else ""
            inodes |= set(re.findall(r"socket:\[(\d+)\]", target))
    listening = [
        words[1]
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        if (words := line.split())[3] == "0A" and words[9] in inodes
    ]
    assert listening == [f"0100007F:{agent.port:04X}"]


def test_a_wrong_configuration_ends_with_one_sentence(gpus: Simulated, tmp_path: Path) -> None:
    config = tmp_path / "bad.json"
    config.write_text(json.dumps({"listen": "0.0.0.0"}))
    done = gpus.run([sys.executable, "-m", "agent", str(config)])
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "0.0.0.0" in done.stderr


def test_it_can_be_asked_from_a_shell(gpus: Simulated) -> None:
    gpus.make("L4")
    agent = RunningAgent(gpus, token_file=str(gpus.folder / "token"))
    assert (gpus.folder / "token").stat().st_mode & 0o777 == 0o600
    asking = [sys.executable, "-m", "agent", "ask"]
    config = str(gpus.folder / "agent.json")
    assert "node_agent_info" in gpus.run([*asking, "/metrics", config]).stdout
    assert json.loads(gpus.run([*asking, "/state", config]).stdout)["driver"]
    assert gpus.run([*asking, "/none", config]).returncode == 2
    agent.stop()
    done = gpus.run([*asking, "/state", config])
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "systemctl status gpuferry-agent" in done.stderr
