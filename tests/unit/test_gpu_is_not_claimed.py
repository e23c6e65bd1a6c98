"""GPU checks run where a GPU is declared, and nowhere else."""

from __future__ import annotations

from gpuferry import desired
from gpuferry.checking.expectations import Expectations, ExpectedGpu
from gpuferry.checking.gpu.count import count
from gpuferry.checking.gpu.health import ecc
from gpuferry.checking.gpu.judgement import conclude
from gpuferry.spec import parse_spec
from tests.support.surveys import gpu, survey


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


def test_a_gpu_whose_name_says_simulated_is_never_told_as_a_real_one() -> None:
    """Also where nothing else on the server says so: a scenario file can be lost."""
    found = survey(gpu(0, name="NVIDIA L4 (simulated)"))
    assert "simulated" in count(found, ExpectedGpu(model="L4", count=1)).measured
    assert "simulated" in conclude(found, ecc(found)).measured
    assert "simulated" not in conclude(survey(gpu(0)), ecc(survey(gpu(0)))).measured
