"""The role container_toolkit: containers get exactly the server's GPUs."""

from gpuferry.checking.gpu.toolkit import cdi_fresh, in_container, package_versions
from gpuferry.checking.gpu.versions import container_versions
from gpuferry.checking.mark import check

REFRESH = "run: ./ferry ssh {server} -- sudo systemctl restart nvidia-cdi-refresh.service"


@check("container_toolkit.device", severity="critical", deadline_seconds=45)
def test_device(survey, containers, answer):
    """A container with --device nvidia.com/gpu=all lists exactly the server's GPUs."""
    answer(in_container(survey, "device", containers.get("device")))


@check("container_toolkit.runtime", severity="critical", deadline_seconds=45)
def test_runtime(survey, containers, answer):
    """A container of the runtime nvidia lists exactly the server's GPUs."""
    answer(in_container(survey, "runtime", containers.get("runtime")))


@check("container_toolkit.cdi_fresh", next_step=REFRESH, deadline_seconds=45)
def test_cdi_fresh(survey, answer):
    """The CDI specification is about the driver and the devices of now."""
    answer(cdi_fresh(survey))


@check("container_toolkit.versions", deadline_seconds=45)
def test_versions(survey, answer):
    """The toolkit's packages have one version."""
    answer(package_versions(survey))


@check("container_toolkit.running", deadline_seconds=45)
def test_running(survey, answer):
    """Running containers use the driver of now."""
    answer(container_versions(survey))
