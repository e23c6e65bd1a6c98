"""A configuration that is wrong is one sentence, and nobody outside is ever served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.config import MOST_SAMPLE_SECONDS, Config, ConfigError, load, parse
from agent.gpu import Gpu
from agent.nvml.periods import PERIODS
from agent.nvml.supervisor import Limits


@pytest.mark.parametrize("listen", ["127.0.0.1", "::1", "10.1.2.3", "192.168.0.7", "fd00::1"])
def test_loopback_and_private_addresses_are_accepted(listen: str) -> None:
    assert parse({"listen": listen}).listen == listen


@pytest.mark.parametrize("listen", ["0.0.0.0", "::", "8.8.8.8", "2001:4860::1", "localhost", ""])
def test_all_others_are_refused(listen: str) -> None:
    with pytest.raises(ConfigError, match=r"listen is .*accepted: 127\.0\.0\.1"):
        parse({"listen": listen})


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"prot": 1}, "'prot' is unknown; accepted: listen, port"),
        ({"port": 0}, "port is 0"),
        ({"port": "9750"}, "port cannot be '9750'"),
        ({"port": True}, "port cannot be True"),
        ({"sample_seconds": 0.1}, "accepted: 0.25 to 2"),
        ({"sample_seconds": 5.0}, "accepted: 0.25 to 2"),
        ({"nvml": 0}, "nvml cannot be 0"),
        ({"mounts": "/"}, "mounts cannot be '/'"),
        ({"expected_gpus": -1}, "expected_gpus"),
        ({"thresholds": {"hung_secs": 1}}, "thresholds: 'hung_secs' is unknown"),
        ({"thresholds": {"hung_seconds": "5m"}}, "hung_seconds cannot be '5m'"),
        ({"thresholds": {"hung_seconds": 3600}}, "hung_seconds is 3600; accepted: 0 to 1800"),
        ({"thresholds": []}, "thresholds cannot be"),
    ],
)
def test_a_mistake_is_named(data: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says.replace("(", r"\(")):
        parse(data)


@pytest.mark.parametrize("reading", sorted(PERIODS))
def test_no_reading_is_stale_before_it_comes_again(reading: str) -> None:
    """At the longest period that is accepted, one sample late."""
    period = MOST_SAMPLE_SECONDS
    due = PERIODS[reading] * period + period
    gpu = Gpu("GPU-1", 0)
    gpu.take({"values": {reading: 1.0}}, at=100.0)
    assert gpu.value(reading, 100.0 + due) == 1.0
    assert due < Limits().silence or PERIODS[reading] > 1, "else the reader is taken for hung"


def test_values_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    path.write_text(json.dumps({"mounts": ["/x"], "thresholds": {"hung_seconds": 20}}))
    config = load(path)
    assert config.mounts == ("/x",)
    assert config.thresholds.hung_seconds == 20
    assert parse({}) == Config()


def test_a_file_that_is_no_json_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Converge the server"):
        load(tmp_path / "none.json")
