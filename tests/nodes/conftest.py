"""Nodes for tests, kept apart from the user's, and removed whatever happens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.node import Node, NodeMaker, sweep_dead_runs

__all__ = ["Node", "NodeMaker"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which distributions are tested, where it is not both."""
    parser.addoption(
        "--images",
        default="debian-13",
        help="images for tests that want one, with commas: debian-13,debian-12",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The images of `--images`, for nodes of modules that do not choose theirs themselves."""
    if "image" in metafunc.fixturenames:
        images = metafunc.config.getoption("--images").split(",")
        metafunc.parametrize("image", images, scope="module")


@pytest.fixture(scope="session", autouse=True)
def _own_disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        sweep_dead_runs()
        yield


@pytest.fixture(scope="module")
def new_node() -> Iterator[NodeMaker]:
    """Return a function that makes a bare node; `image` is debian-13 or debian-12."""
    maker = NodeMaker("t")
    try:
        yield maker
    finally:
        maker.remove_all()
