"""One cluster with real kubelets and the image of this checkout, for all tests of this folder."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from phalanx_controlplane.run_folder import RunFolder

from deploy.image import build
from tests.cluster.availability import Unavailable, prepare
from tests.cluster.real_cluster import RealCluster, real_cluster


@pytest.fixture(scope="session")
def image() -> build.Image:
    """The image of this checkout. Where there can be no real nodes, the test is skipped with one line."""
    try:
        return prepare(lambda _line: None)
    except Unavailable as reason:
        pytest.skip(f"no real nodes: {reason}")


@pytest.fixture(scope="session")
def in_memory() -> Iterator[Path]:
    """A folder in memory if there is space: each node unpacks thousands of files. Its path is short too."""
    folder = RunFolder()
    try:
        yield folder.path
    finally:
        folder.remove()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(image: build.Image, in_memory: Path) -> AsyncIterator[RealCluster]:
    """Two nodes, on which nothing is installed."""
    async with real_cluster(in_memory / "shared", image.archive) as running:
        yield running
