"""Declared GPUs. Nothing measures them in this version, and nothing may look as if it did."""

from gpuferry.checking.mark import check


@check("gpu.declared", severity="critical", next_step="wait for a version that checks GPUs")
def test_declared(expectations, verdict):
    """The declared GPUs are there and work."""
    gpu = expectations.gpu
    verdict.not_measured(
        "this version has no GPU checks", expected=f"{gpu.count} x {gpu.model} (declared)"
    )
