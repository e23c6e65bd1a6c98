"""GPU checks run where a GPU is declared, and nowhere else."""

from __future__ import annotations

from gpuferry import desired
from gpuferry.checking.expectations import Expectations
from gpuferry.spec import parse_spec


def test_the_check_runs_only_where_a_gpu_is_declared() -> None:
    servers = [{"name": "a", "gpu": {"model": "L4", "count": 2}}, {"name": "b"}]
    spec = parse_spec({"gpuferry:servers": servers})
    facts = desired.StackFacts()
    with_gpu, without = (
        Expectations.model_validate(desired.expectations(spec, server, "ferry", "server", facts))
        for server in spec.servers
    )
    assert "gpu" in with_gpu.concerns
    assert "gpu" not in without.concerns
