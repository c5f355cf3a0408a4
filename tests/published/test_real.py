"""Small cases on a real control plane, one after the other. `python -m bench.published` plays all of them."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bench.published.catalog import WORKFLOWS
from bench.published.deadlock import Deadlock
from bench.published.knavigator.case import Workflows
from bench.published.mpi import MpiJobs
from bench.published.places import OURS, clear, real_site
from bench.published.site import Play, Site
from bench.published.spark import Queries
from bench.published.workflow import Forecasts, Step
from tests.controlplane_fixture import require_binaries

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.xdist_group("published cases"),
    pytest.mark.asyncio(loop_scope="module"),
]

STEPS = (Step(name="prepare", pods=2, works_s=5), Step(name="run", pods=9, works_s=20, after=("prepare",)))
CASES: dict[str, Play] = {
    "deadlock": Deadlock(2, "in turn"),
    "workflow": Forecasts(2, STEPS),
    "mpi": MpiJobs("after the workers", jobs=2, workers=5, nodes=2),
    "spark": Queries(3, "reserved executors", nodes=1),
    "knavigator": Workflows(WORKFLOWS, ("topology.yaml",)),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[Site]:
    """A control plane with Phalanx."""
    require_binaries()
    async with real_site(OURS) as site:
        yield site


@pytest_asyncio.fixture(loop_scope="module")
async def site(cluster: Site) -> AsyncIterator[Site]:
    """The same, empty."""
    yield cluster
    await clear(cluster)


@pytest.mark.parametrize("name", CASES)
async def test_a_case_goes_as_it_must(name: str, site: Site) -> None:
    played = await CASES[name](site)
    assert played.wrong == (), played.figures
