"""A real Prometheus scrapes real schedulers: every query of every board has data, every alert fires.

`make monitoring` runs it. The schedulers are processes of `phalanx run` with an embedded cluster of twelve
nodes. Each alert is silent before its fault and fires by it. Durations of the rules are shortened, except the
three minutes without an event after which a watch counts as outdated, so the run takes some minutes.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from phalanx_simulator.embedded import manifests

from tests.monitoring.faulty_plugin import SLOW_S
from tests.monitoring.programs import BOARDS, rules
from tests.monitoring.prometheus_server import PERIOD_S, WAIT_S, PrometheusServer
from tests.monitoring.site import (
    BINDS_FORBIDDEN,
    BINDS_UNAVAILABLE,
    NODES,
    PODS,
    QUEUES,
    STATUSES_FORBIDDEN,
    TOPOLOGIES,
    Scheduler,
    Site,
    scheduler,
    site,
)

pytestmark = pytest.mark.monitoring

NODE_COUNT: Final = 12
VARIABLES: Final = {"$__rate_interval": "15s", "$queue": ".*", "$resource": "nvidia.com/gpu"}
ZERO: Final = " or vector(0)"
"""What queries of boards end with if the metric has no sample before its first event."""
WATCH_FAILURES: Final = "phalanx_watch_failures_total"
FROZEN_S: Final = 6
"""More than the alert allows, and so much less than the ten seconds after which a leader gives up that a busy
machine can renew the Lease then."""

Query = tuple[str, str, str]
"""Board, panel, expression."""


async def test_boards_have_data_and_alerts_fire(tmp_path: Path) -> None:
    async with site(tmp_path) as (made, cluster), scheduler(made, "one") as one:
        faults = Faults(made)
        await made.prometheus.until_value("phalanx_leader == 1")
        await run_gangs(made)
        assert await made.prometheus.firing() == frozenset()
        await have_gangs_wait(faults)
        await every_query_has_data(made.prometheus, queries())
        await break_requests(faults)
        await break_schedulers(faults, one)
        await break_nodes(faults)
        await every_query_has_data(made.prometheus, without_zero())
        await stop_the_cluster(faults, cluster)
    assert faults.fired == {rule["alert"] for rule in rules()}


class Faults:
    """The faults of the test, and the alerts that fired by them."""

    def __init__(self, made: Site) -> None:
        self.made = made
        self.fired: set[str] = set()

    @asynccontextmanager
    async def firing(self, alert: str, *, within: float = WAIT_S) -> AsyncIterator[None]:
        """The alert is silent before what is done here, and fires by it, while it lasts."""
        assert alert not in await self.made.prometheus.firing(), alert
        yield
        await self.made.prometheus.until_firing(alert, within=within)
        self.fired.add(alert)


def queries() -> list[Query]:
    """Every query of every board, with values for its variables."""
    found = []
    for board in BOARDS:
        for panel in json.loads(board.read_text())["panels"]:
            for target in panel["targets"]:
                expression = target["expr"]
                for name, value in VARIABLES.items():
                    expression = expression.replace(name, value)
                found.append((board.stem, panel["title"], expression))
    return found


def without_zero() -> list[Query]:
    """The queries that show 0 before the first event, without this 0.

    Watches fail when the cluster stops.
    """
    return [
        (board, panel, expression.removesuffix(ZERO))
        for board, panel, expression in queries()
        if expression.endswith(ZERO) and WATCH_FAILURES not in expression
    ]


async def every_query_has_data(prometheus: PrometheusServer, empty: list[Query]) -> None:
    """Wait for each query; those that stay empty are named."""
    assert empty
    try:
        async with asyncio.timeout(WAIT_S / 2):
            while empty := [each for each in empty if not await prometheus.values(each[2])]:
                await asyncio.sleep(PERIOD_S)
    except TimeoutError:
        raise AssertionError(f"no data: {empty}") from None


async def run_gangs(made: Site) -> None:
    """Two queues use all GPUs, one of them within its guarantee."""
    made.ask("POST", QUEUES, manifests.queue("research", guarantee={"nvidia.com/gpu": "64"}))
    made.ask("POST", QUEUES, manifests.queue("other"))
    made.ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", manifests.priority_class("high", 1000))
    for number in range(NODE_COUNT):
        made.ask("POST", NODES, manifests.node(f"n{number:02}"))
    made.add_gang("train", 12, queue="research")
    made.add_gang("fill", 80, queue="other")
    await made.prometheus.until_value('phalanx_cluster_free{resource="nvidia.com/gpu"} == 4')


async def have_gangs_wait(faults: Faults) -> None:
    """A gang preempts another, a gang that is too large waits, and a node becomes faulty."""
    made = faults.made
    async with faults.firing("PhalanxLimitReached"), faults.firing("PhalanxGuaranteeUnmet"):
        made.add_gang("urgent", 8, queue="other", priority_class="high")
        await made.prometheus.until_value('phalanx_evictions_total{reason="Preempted"} > 0')
        made.add_gang("large", 100, queue="research")
        await made.prometheus.until_value('phalanx_queue_waiting_gangs{queue="research"} > 0')
    async with faults.firing("PhalanxGangsDegraded"):
        made.ask("DELETE", f"{PODS}/train-0")
    made.break_nodes("n11")
    await made.prometheus.until_value("phalanx_node_failure_score > 0")


async def break_requests(faults: Faults) -> None:
    """Faults of the API server, of its objects, and of rights."""
    made = faults.made
    broken = {**manifests.topology("broken"), "spec": {"levels": "as an older version of the CRD allows"}}
    async with faults.firing("PhalanxUnreadableObjects"):
        made.ask("POST", TOPOLOGIES, broken)
    made.ask("DELETE", f"{TOPOLOGIES}/broken")
    with made.refusing(BINDS_UNAVAILABLE):
        made.add_gang("retried", 1, queue="other", priority_class="high")
        await made.prometheus.until_value("phalanx_bind_retries_total > 0")
    with made.refusing(BINDS_FORBIDDEN):
        async with faults.firing("PhalanxBindsRefused"):
            made.add_gang("refused", 1, queue="other", priority_class="high")
    with made.refusing(STATUSES_FORBIDDEN):
        async with faults.firing("PhalanxWritesFail"):
            made.add_gang("untold", 40, queue="other")


async def break_schedulers(faults: Faults, one: Scheduler) -> None:
    """Faults of the scheduler, its configuration and its plugins."""
    made = faults.made
    async with AsyncExitStack() as second, faults.firing("PhalanxTwoLeaders"):
        await second.enter_async_context(scheduler(made, "two", lease_namespace="kube-system"))
    config = made.config.read_text()
    async with faults.firing("PhalanxConfigRefused"):
        made.config.write_text("plugins: [{name: no-such-plugin}]\n")
    made.config.write_text(config)
    await made.prometheus.until_value("phalanx_config_last_reload_successful == 1")
    with made.plugin_fault("error"):
        async with faults.firing("PhalanxSchedulerErrors"):
            made.add_gang("error", 1, queue="other")
    with made.plugin_fault("slow"):
        async with faults.firing("PhalanxCyclesSlow"):
            for number in range(3):
                made.add_gang(f"slow-{number}", 1, queue="other")
                await asyncio.sleep(SLOW_S)
    async with faults.firing("PhalanxLeaseRenewalSlow"):
        with one.frozen():
            await asyncio.sleep(FROZEN_S)


async def break_nodes(faults: Faults) -> None:
    """More than a tenth of the nodes, then more than half."""
    async with faults.firing("PhalanxManyFaultyNodes"):
        faults.made.break_nodes("n00", "n01")
    async with faults.firing("PhalanxBreakerOpen"):
        faults.made.break_nodes(*(f"n{number:02}" for number in range(2, 8)))


async def stop_the_cluster(faults: Faults, cluster: AsyncExitStack) -> None:
    """The API server ends: nobody leads, and the replicas that wait hear nothing."""
    async with (
        scheduler(faults.made, "standby"),
        faults.firing("PhalanxWatchOutdated", within=2 * WAIT_S),
        faults.firing("PhalanxNoLeader"),
    ):
        await cluster.aclose()
        await faults.made.prometheus.until_value(f"rate({WATCH_FAILURES}[15s]) > 0")
