"""One cluster with real kubelets and the image of this checkout, for all tests of this folder."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from phalanx_controlplane.nodes import programs

from deploy.image import build
from tests.cluster.real_cluster import RealCluster, real_cluster


def require_real_nodes() -> None:
    """Skip the test with one line where there can be none. CI as root must have all of it."""
    reason = programs.missing() or build.missing()
    if reason and os.getuid() == 0 and os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"no real nodes: {reason}")
    if reason:
        pytest.skip(f"no real nodes: {reason}")


@pytest.fixture(scope="session")
def image() -> build.Image:
    """The image of this checkout."""
    require_real_nodes()
    return build.build(lambda _line: None, tag="0.1.0")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(image: build.Image, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RealCluster]:
    """Two nodes, on which nothing is installed."""
    folder: Path = tmp_path_factory.mktemp("real-nodes")
    async with real_cluster(folder, image.archive) as running:
        yield running
