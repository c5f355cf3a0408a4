"""Starts that guarantees would cover go before those of other queues that they would not cover."""

from random import Random

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from phalanx.actions.demands.demand import Demand
from phalanx.actions.demands.demand_queue import Charges, DemandQueue
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.names import GangId, QueueName
from phalanx.model.reasons import Objection
from phalanx.model.resources import GPU

from tests.actions.start_cases import StartCase, Tenant, Work, described, disorders, start_case
from tests.builders import Scenario, demands_of
from tests.examples import holds


@given(st.randoms(use_true_random=False))
@holds(100)
def test_no_start_goes_before_one_that_guarantees_cover_further(chance: Random) -> None:
    case = start_case(chance)
    note(described(case))
    assert disorders(case) == []


def test_a_gang_that_starts_are_given_up_for_was_tried_in_its_turn() -> None:
    """That of b takes the node first. That of a does not fit, that of d does; then b's start is given up."""
    tenants = (Tenant("a", 6), Tenant("b", 1, priority=1), Tenant("d", 1))
    works = (Work("d0", "d", 1, 2), Work("a0", "a", 2, 3), Work("b0", "b", 2, 3))
    case = StartCase({"m-0": 2, "n-0": 6}, tenants, works)
    assert case.scenario().decide().placed() == ["d0", "a0"]
    assert disorders(case) == []


def test_a_start_inside_the_guarantee_goes_before_one_that_would_exceed_it() -> None:
    """The use after the start counts: before it, both queues use half of their guarantee."""
    scenario = Scenario().nodes("n", gpu=4).queue("a", guarantee={GPU: 2}).queue("b", guarantee={GPU: 2})
    scenario.gang("a0", 1, gpu=1, queue="a", on=["n-0"]).gang("b0", 1, gpu=1, queue="b", on=["n-0"])
    scenario.gang("a1", 1, gpu=2, queue="a").gang("b1", 1, gpu=1, queue="b")
    decided = scenario.decide()
    assert (decided.placed(), decided.evicted()) == (["b1"], [])


def test_the_guarantee_of_an_ancestor_counts_below_the_common_one() -> None:
    """Both leaves stay inside their guarantees, but the start of a would exceed that of its parent."""
    scenario = (
        Scenario().nodes("n", gpu=8).queue("top", guarantee={GPU: 3}).queue("other", guarantee={GPU: 4})
    )
    scenario.queue("a", parent="top", guarantee={GPU: 2}).queue("c", parent="top", limit={GPU: 2})
    scenario.queue("b", parent="other", guarantee={GPU: 4})
    scenario.gang("c0", 1, gpu=2, queue="c", on=["n-0"]).gang("b0", 1, gpu=3, queue="b", on=["n-0"])
    scenario.gang("a1", 1, gpu=2, queue="a").gang("b1", 1, gpu=1, queue="b")
    assert scenario.decide().placed() == ["b1", "a1"]


def test_a_guarantee_above_the_common_ancestor_does_not_count() -> None:
    """The start of a would exceed the guarantee of the parent that both share; a has the lower share."""
    scenario = Scenario().nodes("n", gpu=8).queue("top", guarantee={GPU: 3})
    scenario.queue("a", parent="top").queue("b", parent="top")
    scenario.gang("b0", 1, gpu=2, queue="b", on=["n-0"])
    scenario.gang("a1", 1, gpu=2, queue="a").gang("b1", 1, gpu=1, queue="b")
    assert scenario.decide().placed() == ["a1", "b1"]


def test_siblings_compare_the_gangs_that_are_next_below_them() -> None:
    """In org-1 the next gang is that of y, the lowest share, although the one of x would stay inside."""
    scenario = (
        Scenario().nodes("n", gpu=12).queue("org-1", guarantee={GPU: 3}).queue("org-2", guarantee={GPU: 3})
    )
    for leaf, parent in (("x", "org-1"), ("y", "org-1"), ("z", "org-2")):
        scenario.queue(leaf, parent=parent, guarantee={GPU: 3} if leaf == "z" else {})
    scenario.gang("x0", 1, gpu=1, queue="x", on=["n-0"]).gang("z0", 1, gpu=2, queue="z", on=["n-0"])
    scenario.gang("x1", 1, gpu=1, queue="x").gang("y1", 1, gpu=3, queue="y").gang("z1", 1, gpu=1, queue="z")
    assert scenario.decide().placed() == ["z1", "y1", "x1"]


@pytest.mark.parametrize(
    ("holder", "order"), [("", ["a1", "b1"]), ("run", ["b1", "a1"]), ("a1", ["a1", "b1"])]
)
def test_capacity_that_is_held_for_other_gangs_counts_as_used(holder: str, order: list[str]) -> None:
    """With one GPU held in queue a, the start of a1 would exceed its guarantee, unless it is held for a1."""
    scenario = Scenario().nodes("n", gpu=4).queue("a", guarantee={GPU: 2}).queue("b", guarantee={GPU: 2})
    scenario.gang("b0", 1, gpu=1, queue="b", on=["n-0"])
    scenario.gang("a1", 1, gpu=2, queue="a").gang("b1", 1, gpu=1, queue="b")
    session = Session(scenario.snapshot(), SchedulerConfig())
    found = [demands_of(session.gangs[GangId(f"gang-{name}")]) for name in ("a1", "b1")]
    demands = [demand for each in found if not isinstance(each, Objection) for demand in each]
    charges: Charges = {(QueueName("a"), None): {GPU: -1}}
    held = {GangId(f"gang-{holder}"): charges} if holder else {}
    queue = DemandQueue(session, demands, held=held)
    assert [demand.gang.id for demand in queue] == [f"gang-{name}" for name in order]


def test_more_demands_of_a_queue_are_compared_with_those_of_others() -> None:
    """Queue a gets its gangs one by one; each of them is compared with the next one of queue b."""
    scenario = Scenario().nodes("n", gpu=8).queue("a", guarantee={GPU: 2}).queue("b", guarantee={GPU: 2})
    scenario.gang("a1", 1, gpu=1, queue="a").gang("a2", 1, gpu=3, queue="a").gang("a3", 1, gpu=1, queue="a")
    scenario.gang("b1", 1, gpu=2, queue="b").gang("b2", 1, gpu=3, queue="b")
    session = Session(scenario.snapshot(), SchedulerConfig())
    demands = {
        name: found
        for name in ("a1", "a2", "a3", "b1", "b2")
        if not isinstance(found := demands_of(session.gangs[GangId(f"gang-{name}")]), Objection)
    }
    later = [demands["a3"], demands["a2"]]

    def more(queue: QueueName) -> tuple[Demand, ...]:
        return later.pop() if queue == "a" and later else ()

    queue = DemandQueue(session, [*demands["a1"], *demands["b1"], *demands["b2"]], more=more)
    assert [demand.gang.id for demand in queue] == [f"gang-{name}" for name in ("a1", "b1", "a2", "a3", "b2")]
