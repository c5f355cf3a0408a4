"""What surplus members of gangs may take from whom: the table of docs/guarantees.md."""

import pytest
from phalanx.model.resources import GPU

from tests.actions.test_no_thrash import evictions, run
from tests.builders import Scenario


def grows(scenario: Scenario, name: str, held: int, total: int, **fields: object) -> Scenario:
    """A gang of which `held` members run and its minimum is one."""
    return scenario.gang(name, total, min=1, gpu=1, on=["n-0"] * held, **fields)


def placed(scenario: Scenario, name: str) -> int:
    return sum(pod.node is not None for pod in scenario.members(name))


@pytest.mark.parametrize(("guarantee", "holds"), [(4, 4), (2, 2), (1, 1), (0, 1)])
def test_surplus_takes_borrowed_capacity_up_to_the_guarantee(guarantee: int, holds: int) -> None:
    scenario = Scenario().queue("a").queue("b", guarantee={GPU: guarantee}).nodes("n", 1, gpu=6)
    for index in range(5):
        scenario.gang(f"a{index}", 1, gpu=1, queue="a", on=["n-0"])
    decisions = run(grows(scenario, "b", 1, 4, queue="b"))
    assert placed(scenario, "b") == holds
    assert len(evictions(decisions)) == holds - 1


def test_surplus_takes_nothing_that_a_guarantee_covers() -> None:
    scenario = Scenario().nodes("n", 1, gpu=4).queue("a", guarantee={GPU: 3}).queue("b", guarantee={GPU: 1})
    scenario.gang("a", 1, gpu=3, queue="a", on=["n-0"])
    assert evictions(run(grows(scenario, "b", 1, 4, queue="b"))) == []


@pytest.mark.parametrize(("priority", "holds"), [(5, 4), (0, 2)])
def test_surplus_of_higher_priority_takes_surplus_of_its_queue(priority: int, holds: int) -> None:
    scenario = grows(Scenario().nodes("n", 1, gpu=5), "low", 3, 3)
    decisions = run(grows(scenario, "high", 2, 9, priority=priority))
    assert (placed(scenario, "high"), placed(scenario, "low")) == (holds, 5 - holds)
    assert len(evictions(decisions)) == holds - 2


def test_surplus_never_takes_the_minimum_of_a_gang_of_its_queue() -> None:
    scenario = Scenario().nodes("n", 1, gpu=4).gang("low", 2, gpu=1, on=["n-0"] * 2)
    assert evictions(run(grows(scenario, "high", 2, 9, priority=5))) == []


def test_surplus_takes_no_fair_share() -> None:
    scenario = Scenario().queue("a").queue("b").nodes("n", 1, gpu=4)
    for index in range(3):
        scenario.gang(f"a{index}", 1, gpu=1, queue="a", on=["n-0"])
    assert evictions(run(grows(scenario, "b", 1, 4, queue="b"))) == []
