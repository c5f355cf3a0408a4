"""What it costs more to evict from a queue that borrowed less."""

import pytest
from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.names import GangId
from phalanx_plugins.spread_evictions import SpreadEvictions, SpreadEvictionsArguments

from tests.builders import Scenario


def tenants(first: int, second: int) -> Scenario:
    """Of twelve GPUs two queues hold so many in gangs of one; a third wants some. Four are due to each."""
    scenario = Scenario().nodes("n", 1, gpu=12)
    for name, count in (("a", first), ("b", second)):
        scenario.queue(name)
        for index in range(count):
            scenario.gang(f"{name}{index}", 1, gpu=1, queue=name, on=["n-0"])
    return scenario.queue("c").gang("c", 4, gpu=1, queue="c")


def cost(scenario: Scenario, gang: str) -> int:
    session = Session(scenario.snapshot(), SchedulerConfig())
    found = session.gangs[GangId(f"gang-{gang}")]
    return SpreadEvictions(SpreadEvictionsArguments(most=600)).eviction_cost(found, found.members, session)


@pytest.mark.parametrize(
    ("first", "second", "costs"), [(6, 6, (0, 0)), (8, 4, (0, 300)), (4, 8, (300, 0)), (5, 7, (136, 0))]
)
def test_by_the_part_that_is_beyond_the_share(first: int, second: int, costs: tuple[int, int]) -> None:
    scenario = tenants(first, second)
    assert (cost(scenario, "a0"), cost(scenario, "b0")) == costs


def test_where_nothing_is_short_nobody_pays() -> None:
    scenario = tenants(3, 5)
    del scenario._gangs["c"]
    assert (cost(scenario, "a0"), cost(scenario, "b0")) == (0, 0)


def test_who_borrowed_most_gives_back_first() -> None:
    """The work of the other queue is cheaper by itself: it began ten minutes later."""
    scenario = tenants(7, 5).remove("c").gang("c", 2, gpu=1, queue="c").gang("d", 2, gpu=1, queue="c")
    scenario.now = 60_000_000_000
    for name in [f"a{index}" for index in range(7)]:
        (pod,) = scenario.members(name)
        scenario.change(name, members=(replace(pod, running_since=scenario.now // 1000 - 600),))
    scenario.change("d", preemption_policy="Never")
    assert [name[0] for name in scenario.decide().evicted()] == ["a", "a"]
