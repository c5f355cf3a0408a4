"""SpreadEvictions: evictions cost more in queues that borrowed less."""

import pytest
from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.names import GangId
from phalanx_plugins.spread_evictions import SpreadEvictions, SpreadEvictionsArguments

from tests.builders import Scenario


def tenants(first: int, second: int) -> Scenario:
    """Two queues use these numbers of twelve GPUs; a third one has demand. Each is entitled to four."""
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
def test_the_cost_depends_on_the_use_above_the_fair_share(
    first: int, second: int, costs: tuple[int, int]
) -> None:
    scenario = tenants(first, second)
    assert (cost(scenario, "a0"), cost(scenario, "b0")) == costs


def test_the_cost_is_zero_without_contention() -> None:
    scenario = tenants(3, 5)
    del scenario._gangs["c"]
    assert (cost(scenario, "a0"), cost(scenario, "b0")) == (0, 0)


def test_victims_are_chosen_in_the_queue_that_borrowed_most() -> None:
    """Without this plugin the other queue would cost less: its gangs started ten minutes later."""
    scenario = tenants(7, 5).remove("c").gang("c", 2, gpu=1, queue="c").gang("d", 2, gpu=1, queue="c")
    scenario.now = 60_000_000_000
    for name in [f"a{index}" for index in range(7)]:
        (pod,) = scenario.members(name)
        scenario.change(name, members=(replace(pod, running_since=scenario.now // 1000 - 600),))
    scenario.change("d", preemption_policy="Never")
    assert [name[0] for name in scenario.decide().evicted()] == ["a", "a"]
