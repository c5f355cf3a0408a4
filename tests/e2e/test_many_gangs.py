"""A hundred nodes, four hundred pods. `bench/` has more of both."""

import time
from collections.abc import Callable

import pytest

from tests.e2e.conftest import Cluster
from tests.e2e.findings import spans
from tests.e2e.outcome import assert_whole
from tests.e2e.pod_history import watching
from tests.e2e.scheduler_process import scheduler
from tests.e2e.workloads import create_cluster, create_gangs

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("e2e")]

NODES, GANGS, SIZE = 100, 20, 20
BINDS_IN_FLIGHT = 64
"""On a busy machine one of these may be slow while others proceed."""


async def test_twenty_gangs_of_twenty_are_bound_completely_and_fit(
    own_cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    plane = own_cluster.plane
    await create_cluster(plane, count=NODES, cpu=20, space="many")
    async with watching(plane) as history:
        sizes = await create_gangs(plane, space="many", count=GANGS, size=SIZE, cpu=("1", "2"))
        await history.until(lambda: len(history.pods) == GANGS * SIZE)
        began = time.time()
        async with scheduler(plane, own_cluster.kubeconfig):
            await history.until_bound(GANGS * SIZE)
        times = [seen.at for seen in history.bound.values()]
        found = spans(history.events, sizes=sizes)
    await assert_whole(own_cluster, history, sizes=sizes)
    assert own_cluster.audit.denied() == []
    assert len(found) == GANGS
    record_property("pods/s from the scheduler's start", round(len(times) / (max(times) - began)))
    record_property("pods/s from first to last bind", round(len(times) / (max(times) - min(times))))
    record_property("longest bind round in ms", round(1000 * max(span.seconds for span in found)))
    passed = sorted(span.others for span in found)
    assert passed[GANGS * 9 // 10] <= 2 * BINDS_IN_FLIGHT, "gangs waited while others were bound"
