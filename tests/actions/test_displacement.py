"""Starts of a cycle are given up before anything that runs is evicted; the order of starts avoids both."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from phalanx.framework.config import ActionName, SchedulerConfig
from phalanx.model.api.pod_groups import Disruption
from phalanx.model.queues import Backfill, Ordering
from phalanx.model.reasons import Evidence, Reason
from phalanx.model.resources import GPU

from tests.actions.start_cases import described, regrets, start_case
from tests.builders import Decided, Scenario
from tests.examples import holds


@given(st.randoms(use_true_random=False))
@holds(40)
def test_no_gang_is_evicted_or_passed_where_other_starts_would_avoid_it(chance: Random) -> None:
    case = start_case(chance)
    note(described(case))
    assert regrets(case) == []


def two_queues(a: dict[str, Any], b: dict[str, Any], *nodes: int) -> Scenario:
    """Nodes "n0-0", "n1-0"… with these GPUs; the fields of the queues, where `guarantee` is in GPUs."""
    scenario = Scenario()
    for number, gpus in enumerate(nodes):
        scenario.nodes(f"n{number}", gpu=gpus)
    for name, fields in (("a", a), ("b", b)):
        guarantee = fields.pop("guarantee", 0)
        scenario.queue(name, guarantee={GPU: guarantee} if guarantee else {}, **fields)
    return scenario


def on_node(number: int) -> dict[str, Any]:
    return {"selector": {"group": f"n{number}"}}


# --- the order of starts ----------------------------------------------------------------------------------


def test_a_start_inside_the_guarantee_goes_before_one_that_would_exceed_it() -> None:
    """The use after the start counts: before it, both queues use half of their guarantee."""
    scenario = two_queues({"guarantee": 2}, {"guarantee": 2}, 4)
    scenario.gang("a0", 1, gpu=1, queue="a", on=["n0-0"]).gang("b0", 1, gpu=1, queue="b", on=["n0-0"])
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
    """In org-1 the next gang is that of x, the lowest share, although the one of y would stay inside."""
    scenario = (
        Scenario().nodes("n", gpu=12).queue("org-1", guarantee={GPU: 3}).queue("org-2", guarantee={GPU: 3})
    )
    for leaf, parent in (("x", "org-1"), ("y", "org-1"), ("z", "org-2")):
        scenario.queue(leaf, parent=parent, guarantee={GPU: 3} if leaf == "z" else {})
    scenario.gang("y0", 1, gpu=1, queue="y", on=["n-0"]).gang("z0", 1, gpu=2, queue="z", on=["n-0"])
    scenario.gang("x1", 1, gpu=3, queue="x").gang("y1", 1, gpu=1, queue="y").gang("z1", 1, gpu=1, queue="z")
    assert scenario.decide().placed() == ["z1", "x1", "y1"]


# --- starts that are given up ------------------------------------------------------------------------------


def test_a_start_on_borrowed_capacity_is_given_up_instead_of_an_eviction() -> None:
    """Queue a is served first by its priority. Without displacement its running gang would be evicted."""
    scenario = two_queues({"priority": 1}, {"guarantee": 2}, 4)
    scenario.gang("a0", 1, gpu=2, queue="a", on=["n0-0"]).gang("a1", 1, gpu=2, queue="a")
    decided = scenario.gang("b1", 1, gpu=2, queue="b").decide()
    assert (decided.placed(), decided.evicted()) == (["b1"], [])
    assert decided.reasons() == {"a1": Reason.INSUFFICIENT_CAPACITY}
    finding = "team/b1 starts instead: queue a uses more than its guarantee"
    assert Evidence("gang team/a1", finding) in decided.verdict("a1").evidence


def test_what_is_given_up_does_not_depend_on_its_protection() -> None:
    """Nothing of it has been sent; a gang that runs would be protected."""
    scenario = two_queues({"priority": 1, "reclaim_min_runtime_ms": 60_000}, {"guarantee": 2}, 2)
    disruption = Disruption(preemptible=False)
    scenario.gang("a1", 1, gpu=2, queue="a", disruption=disruption).gang("b1", 1, gpu=2, queue="b")
    assert scenario.decide().placed() == ["b1"]


def test_only_as_much_is_given_up_as_is_in_the_way() -> None:
    scenario = two_queues({"priority": 1}, {"guarantee": 2}, 2, 2)
    for number in range(4):
        scenario.gang(f"a{number}", 1, gpu=1, queue="a")
    decided = scenario.gang("b1", 1, gpu=1, queue="b").decide()
    assert sorted(decided.placed()) == ["a0", "a1", "a2", "b1"]


def test_a_start_inside_its_guarantee_is_not_given_up() -> None:
    """Of the two starts of a, the first one stays inside the guarantee, the second one does not."""
    scenario = two_queues({"guarantee": 1, "priority": 1}, {"guarantee": 1}, 2)
    scenario.gang("a1", 1, gpu=1, queue="a").gang("a2", 1, gpu=1, queue="a")
    decided = scenario.gang("b1", 1, gpu=1, queue="b").decide()
    assert sorted(decided.placed()) == ["a1", "b1"]


def test_a_start_that_follows_one_beyond_the_guarantee_may_still_be_inside() -> None:
    """a1 of 2 GPUs exceeds the guarantee of 1, a2 does not; they are decided in this order."""
    scenario = two_queues({"guarantee": 1, "priority": 1}, {"guarantee": 2}, 3)
    scenario.gang("a1", 1, gpu=2, queue="a").gang("a2", 1, gpu=1, queue="a")
    decided = scenario.gang("b1", 1, gpu=2, queue="b").decide()
    assert sorted(decided.placed()) == ["a2", "b1"]


def test_a_gang_without_coverage_displaces_nothing_that_another_queue_needs_for_its_share() -> None:
    """The shares are 1 and 2: without a1 its queue would be below its share."""
    scenario = two_queues({"priority": 1}, {"guarantee": 1}, 3)
    scenario.gang("a1", 1, gpu=2, queue="a").gang("b1", 1, gpu=3, queue="b")
    assert scenario.decide().placed() == ["a1"]


def test_a_gang_displaces_what_another_queue_has_beyond_its_share() -> None:
    scenario = two_queues({"priority": 1}, {}, 4)
    scenario.gang("a0", 1, gpu=2, queue="a", on=["n0-0"]).gang("a1", 1, gpu=1, queue="a")
    decided = scenario.gang("b1", 1, gpu=2, queue="b").decide()
    assert (decided.placed(), decided.evicted()) == (["b1"], [])


def test_a_gang_with_preemption_policy_never_displaces_nothing() -> None:
    scenario = two_queues({"priority": 1}, {"guarantee": 2}, 2)
    scenario.gang("a1", 1, gpu=2, queue="a").gang("b1", 1, gpu=2, queue="b", preemption_policy="Never")
    assert scenario.decide().placed() == ["a1"]


@pytest.mark.parametrize("actions", [(), (ActionName.RELEASE, ActionName.RECOVER)])
def test_nothing_is_displaced_where_nothing_is_evicted(actions: tuple[ActionName, ...]) -> None:
    scenario = two_queues({"priority": 1}, {"guarantee": 2}, 2)
    scenario.gang("a1", 1, gpu=2, queue="a").gang("b1", 1, gpu=2, queue="b")
    assert scenario.decide(SchedulerConfig(actions=actions)).placed() == ["a1"]


def test_lost_members_are_not_given_up() -> None:
    scenario = two_queues({"priority": 1}, {"guarantee": 2}, 4)
    scenario.gang("a0", 2, gpu=2, queue="a", on=["n0-0", "n0-0"]).lose("a0")
    decided = scenario.gang("b1", 1, gpu=2, queue="b").decide()
    assert (decided.placed(), decided.evicted()) == (["a0"], [])


def test_surplus_is_given_up_but_not_the_minimum_inside_the_guarantee() -> None:
    scenario = two_queues({"guarantee": 1, "priority": 1}, {"guarantee": 1}, 2)
    scenario.gang("a1", 2, min=1, gpu=1, queue="a", priority=5)
    decided = scenario.gang("b1", 1, gpu=1, queue="b").decide()
    assert decided.nodes("a1") == ["n0-0"]
    assert decided.nodes("b1") == ["n0-0"]


def test_the_surplus_of_a_start_that_is_given_up_waits_with_it() -> None:
    """The surplus alone would not have to go: it runs on another node."""
    scenario = two_queues({"priority": 1}, {"guarantee": 2}, 2, 1)
    scenario.gang("a1", 0, min=1, queue="a", priority=5, started=False)
    scenario.role("a1", 1, role="main", gpu=2, min=1).role(
        "a1", 1, role="more", gpu=1, selector={"group": "n1"}
    )
    decided = scenario.gang("b1", 1, gpu=2, queue="b").decide()
    assert decided.placed() == ["b1"]
    assert "a1" in decided.reasons()


def test_gangs_that_may_not_be_displaced_start_on_other_nodes() -> None:
    """The start of b is packed on the node that `high` needs, and would cost the gang that runs there."""
    scenario = two_queues({}, {"guarantee": 1}, 3, 4)
    scenario.gang("low", 1, gpu=2, queue="a", on=["n0-0"])
    scenario.gang("b1", 1, gpu=1, queue="b").gang("high", 1, gpu=1, queue="a", priority=9, **on_node(0))
    decided = scenario.decide()
    assert decided.evicted() == []
    assert (decided.nodes("b1"), decided.nodes("high")) == (["n1-0"], ["n0-0"])


def test_a_gang_is_not_displaced_where_not_all_others_could_start_again() -> None:
    scenario = two_queues({}, {"guarantee": 1}, 3)
    scenario.gang("low", 1, gpu=2, queue="a", on=["n0-0"])
    scenario.gang("b1", 1, gpu=1, queue="b").gang("high", 1, gpu=1, queue="a", priority=9)
    decided = scenario.decide()
    assert (decided.placed(), decided.evicted()) == (["b1"], ["low-0"])


def test_no_gang_becomes_a_victim_because_of_a_start_of_its_queue() -> None:
    """Only with a1, which starts where b1 may not run, queue a would use more than its fair share."""
    scenario = two_queues({"priority": 1}, {}, 2, 2)
    scenario.gang("a0", 1, gpu=2, queue="a", on=["n0-0"]).gang("a1", 1, gpu=2, queue="a", **on_node(1))
    decided = scenario.gang("b1", 1, gpu=2, queue="b", **on_node(0)).decide()
    assert (decided.placed(), decided.evicted()) == (["a1"], [])
    assert decided.result.wake_at == scenario.now


def test_starts_beside_the_chosen_victims_stay() -> None:
    scenario = two_queues({"priority": 1}, {"guarantee": 4}, 4, 2)
    scenario.gang("a0", 1, gpu=3, queue="a", on=["n0-0"])
    scenario.gang("a1", 1, gpu=1, queue="a", **on_node(0)).gang("a2", 1, gpu=2, queue="a")
    decided = scenario.gang("b1", 1, gpu=4, queue="b").decide()
    assert (decided.placed(), decided.evicted()) == (["a2"], ["a0-0"])
    assert set(decided.reasons()) == {"a1", "b1"}


@pytest.mark.parametrize(("has_victims", "first"), [(False, "old"), (True, "urgent")])
def test_a_strict_fifo_keeps_its_order_unless_a_running_gang_would_be_evicted(
    has_victims: bool, first: str
) -> None:
    scenario = Scenario().queue("q", ordering=Ordering.STRICT_FIFO).nodes("n", gpu=2)
    scenario.gang("runs", 1, gpu=1, queue="q", on=["n-0"], priority=0 if has_victims else 9)
    scenario.gang("old", 1, gpu=1, queue="q").gang("urgent", 1, gpu=1, queue="q", priority=9)
    decided = scenario.decide()
    assert (decided.placed(), decided.evicted()) == ([first], [])


def test_a_higher_priority_of_the_same_queue_displaces_a_gang_that_displaced_another() -> None:
    """Only `small` is inside the guarantee and displaces a1; `high`, tried before it, may not do that."""
    scenario = two_queues({"priority": 1}, {"guarantee": 2}, 4).gang("a1", 1, gpu=3, queue="a")
    scenario.gang("small", 1, gpu=2, queue="b").gang("high", 1, gpu=4, queue="b", priority=5)
    decided = scenario.decide()
    assert decided.placed() == ["high"]
    assert displaced_in(decided) == ["team/a1", "team/small"]


def test_a_displaced_gang_has_its_reserved_start_again() -> None:
    scenario = two_queues({"priority": 1, "backfill": Backfill.EASY}, {"guarantee": 2}, 2)
    scenario.gang("a0", 1, gpu=1, queue="a", on=["n0-0"]).gang("a1", 1, gpu=2, queue="a")
    first = scenario.decide()
    assert list(first.result.memory.reserved_starts) == ["gang-a1"]
    scenario.take(first).remove("a0").gang("b1", 1, gpu=2, queue="b")
    second = scenario.decide()
    assert second.placed() == ["b1"]
    before, after = (each.result.memory.reserved_starts["gang-a1"] for each in (first, second))  # type: ignore[index]
    assert before.reserved_in == after.reserved_in


def test_displacement_ends_while_the_same_gangs_ask_for_capacity() -> None:
    """Each gang that runs ends after three cycles and asks again: every cycle displaces, none for ever."""
    scenario = two_queues({"priority": 1}, {"guarantee": 2}, 2)
    scenario.gang("a1", 1, gpu=2, queue="a").gang("b1", 1, gpu=1, queue="b").gang("b2", 1, gpu=1, queue="b")
    started = [run(scenario) for _ in range(3)]
    assert started == [["b1", "b2"], [], []]


def run(scenario: Scenario) -> list[str]:
    """Run a cycle and apply its decisions; the gangs that start."""
    decided = scenario.decide()
    scenario.take(decided)
    scenario.now += 60_000
    return decided.placed()


@given(st.randoms(use_true_random=False))
@holds(15)
def test_no_gang_is_displaced_more_often_than_others_start(chance: Random) -> None:
    """Cycles with constant demand: evicted gangs ask again at once."""
    case = start_case(chance)
    note(described(case))
    scenario, displaced, started = case.scenario(), dict[str, int](), 0
    for _ in range(12):
        decided = scenario.decide()
        lost = displaced_in(decided)
        assert not lost or decided.placed() or decided.evicted()
        for name in lost:
            displaced[name] = displaced.get(name, 0) + 1
        started += len(set(decided.placed()))
        scenario.take(decided)
        scenario.now += 60_000
    assert not lost
    assert max(displaced.values(), default=0) <= started


def displaced_in(decided: Decided) -> list[str]:
    return [
        verdict.group
        for verdict in decided.result.verdicts
        if any(" starts instead" in each.finding for each in verdict.evidence)
    ]
