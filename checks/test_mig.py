"""The role mig: GPUs are cut into the declared MIG instances."""

from gpuferry.checking.gpu.mig import layout
from gpuferry.checking.mark import check

APPLY = "run: ./ferry converge {server}"


@check("mig.layout", next_step=APPLY, deadline_seconds=45)
def test_layout(survey, expectations, answer):
    """Every GPU has exactly the declared MIG instances."""
    answer(layout(survey, expectations.gpu))
