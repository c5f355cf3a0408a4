"""SpreadEvictions: gangs of the queues that borrowed most are evicted first."""

import pytest
from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.names import GangId
from phalanx_plugins.spread_evictions import SpreadEvictions

from tests.builders import Scenario


def tenants(first: int, second: int) -> Scenario:
    """Two queues use these numbers of twelve GPUs; a third one has demand. Each is entitled to four."""
    scenario = Scenario().nodes("n", 1, gpu=12)
    for name, count in (("a", first), ("b", second)):
        scenario.queue(name)
        for index in range(count):
            scenario.gang(f"{name}{index}", 1, gpu=1, queue=name, on=["n-0"])
    return scenario.queue("c").gang("c", 4, gpu=1, queue="c")


def rank(scenario: Scenario, gang: str) -> int:
    session = Session(scenario.snapshot(), SchedulerConfig())
    found = session.gangs[GangId(f"gang-{gang}")]
    return SpreadEvictions().eviction_rank(found, session)


@pytest.mark.parametrize(
    ("first", "second", "ranks"),
    [(6, 6, (667, 667)), (8, 4, (500, 1000)), (4, 8, (1000, 500)), (5, 7, (800, 572))],
)
def test_the_rank_depends_on_the_use_above_the_fair_share(
    first: int, second: int, ranks: tuple[int, int]
) -> None:
    scenario = tenants(first, second)
    assert (rank(scenario, "a0"), rank(scenario, "b0")) == ranks


def test_the_ranks_are_equal_without_contention() -> None:
    scenario = tenants(3, 5)
    del scenario._gangs["c"]
    assert rank(scenario, "a0") == rank(scenario, "b0")


def test_victims_are_chosen_in_the_queue_that_borrowed_most() -> None:
    """Without this plugin the other queue would cost less: its gangs started ten minutes later."""
    scenario = tenants(7, 5).remove("c").gang("c", 2, gpu=1, queue="c").gang("d", 2, gpu=1, queue="c")
    scenario.now = 60_000_000_000
    for name in [f"a{index}" for index in range(7)]:
        (pod,) = scenario.members(name)
        scenario.change(name, members=(replace(pod, running_since=scenario.now // 1000 - 600),))
    scenario.change("d", preemption_policy="Never")
    assert [name[0] for name in scenario.decide().evicted()] == ["a", "a"]
