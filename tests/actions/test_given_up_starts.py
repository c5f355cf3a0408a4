"""Starts of a cycle are given up before anything that runs is evicted."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.actions import allocate, enqueue
from phalanx.actions.backlog.backlogs import Backlogs
from phalanx.actions.context import Cycle
from phalanx.actions.given_up_starts import give_up
from phalanx.actions.nodes.node_classes import ClassTableCache
from phalanx.actions.preemption import starts
from phalanx.actions.preemption.starts import StartPool
from phalanx.framework.config import ActionName, SchedulerConfig
from phalanx.framework.evictions import Beneficiary
from phalanx.framework.session import Session
from phalanx.model.api.pod_groups import Disruption, Recovery, RecoveryMode, Traffic
from phalanx.model.gangs import RoleSpec
from phalanx.model.names import GangId, QueueName
from phalanx.model.pods import PodShape
from phalanx.model.queues import Backfill, Ordering
from phalanx.model.reasons import Reason
from phalanx.model.resources import CPU, GPU
from phalanx.model.supplies.gpu_shares.devices import GPU_SHARE, device_name
from phalanx.solver.answer_cache import AnswerCache

from tests.actions.eviction_cases import eviction_case, regrets
from tests.actions.start_cases import described
from tests.builders import CONTROLLER, Decided, Scenario, numa, term
from tests.examples import holds


@given(st.randoms(use_true_random=False))
@holds(60)
def test_no_gang_is_evicted_where_starts_of_the_cycle_would_do(chance: Random) -> None:
    case = eviction_case(chance)
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


MOVING = SchedulerConfig(
    actions=(ActionName.RELEASE, ActionName.RECOVER, ActionName.CONSOLIDATE, ActionName.PREEMPT)
)


def on_node(number: int) -> dict[str, Any]:
    return {"selector": {"group": f"n{number}"}}


def given_up_in(decided: Decided) -> list[str]:
    """The gangs that gave up their starts."""
    return [each.group for each in decided.result.verdicts if "its start was given up" in each.message]


# --- what is given up -------------------------------------------------------------------------------------


def test_a_start_on_borrowed_capacity_is_given_up_instead_of_an_eviction() -> None:
    """Queue a is served first by its priority."""
    scenario = two_queues({"priority": 1}, {"guarantee": 2}, 4)
    scenario.gang("a0", 1, gpu=2, queue="a", on=["n0-0"]).gang("a1", 1, gpu=2, queue="a")
    decided = scenario.gang("b1", 1, gpu=2, queue="b").decide()
    assert (decided.placed(), decided.evicted()) == (["b1"], [])
    assert decided.reasons() == {"a1": Reason.PREEMPTED}
    assert "for gang team/b1: queue a uses more than its guarantee" in decided.verdict("a1").message
    assert decided.result.wake_at == scenario.now
    queues = decided.result.queues
    assert [queues[name].allocated[GPU] for name in ("a", "b")] == [2, 2]
    assert (queues["a"].pending_gangs, queues["b"].pending_gangs) == (1, 0)
    assert not decided.result.memory.nominations


def test_a_gang_whose_start_was_given_up_starts_elsewhere_in_the_next_cycle() -> None:
    """Joint admission does not move gangs with traffic."""
    scenario = two_queues({"priority": 1}, {"guarantee": 2}, 2, 3)
    scenario.gang("a1", 1, min=2, gpu=1, queue="a", role="ps").role("a1", 1, gpu=1, role="worker")
    scenario.change("a1", traffic=(Traffic("worker", "ps"),))
    first = scenario.gang("b1", 1, gpu=2, queue="b", **on_node(0)).decide()
    assert (first.nodes("b1"), first.nodes("a1"), given_up_in(first)) == (["n0-0"], [], ["team/a1"])
    second = scenario.take(first).decide()
    assert second.nodes("a1") == ["n1-0", "n1-0"]


def test_a_start_that_the_guarantee_covers_is_not_given_up() -> None:
    scenario = two_queues({"guarantee": 1, "priority": 1}, {"guarantee": 1}, 2)
    scenario.gang("a1", 1, gpu=1, queue="a").gang("a2", 1, gpu=1, queue="a")
    decided = scenario.gang("b1", 1, gpu=1, queue="b").decide()
    assert sorted(decided.placed()) == ["a1", "b1"]


def test_as_few_starts_as_possible_are_given_up_of_the_lowest_priorities() -> None:
    scenario = two_queues({"priority": 1}, {"guarantee": 2}, 4)
    for number, priority in enumerate((3, 2, 1, 0)):
        scenario.gang(f"a{number}", 1, gpu=1, queue="a", priority=priority)
    decided = scenario.gang("b1", 1, gpu=1, queue="b").decide()
    assert (sorted(decided.placed()), given_up_in(decided)) == (["a0", "a1", "a2", "b1"], ["team/a3"])


def test_starts_and_running_gangs_are_chosen_together() -> None:
    """The gang of priority 9 is tried first, and the one of 2 GPUs then takes what it cannot use alone."""
    scenario = Scenario().nodes("n", gpu=4).queue("q")
    scenario.gang("r0", 1, gpu=1, queue="q", on=["n-0"]).gang("r1", 1, gpu=1, queue="q", on=["n-0"])
    decided = scenario.gang("s", 1, gpu=2, queue="q").gang("d", 1, gpu=3, queue="q", priority=9).decide()
    assert (decided.placed(), len(decided.evicted()), given_up_in(decided)) == ([], 1, ["team/s"])
    victims = decided.result.memory.nominations[GangId("gang-d")].victims
    assert list(victims) == [each.pod for each in decided.result.evictions]
    assert decided.reasons()["d"] == Reason.EVICTION_IN_PROGRESS


@pytest.mark.parametrize(("priority", "evicted"), [(5, []), (9, ["r-0"])])
def test_a_start_goes_before_a_running_gang_of_lower_priority(priority: int, evicted: list[str]) -> None:
    """A strict queue starts it first. It is not given up if its priority is that of the gang that waits."""
    scenario = Scenario().nodes("n", gpu=2).queue("q", ordering=Ordering.STRICT_FIFO)
    scenario.gang("r", 1, gpu=1, queue="q", on=["n-0"]).gang("s", 1, gpu=1, queue="q", priority=priority)
    assert scenario.gang("d", 1, gpu=1, queue="q", priority=9).decide().evicted() == evicted


def test_a_start_is_given_up_before_a_gang_whose_eviction_would_leave_its_queue_its_guarantee() -> None:
    """The eviction of c0 would leave its queue above its guarantee. Without a1, queue a is below its own."""
    scenario = two_queues({"guarantee": 1, "priority": 1}, {"guarantee": 3}, 4).queue("c")
    scenario.gang("c0", 1, gpu=2, queue="c", on=["n0-0"]).gang("a1", 1, gpu=2, queue="a")
    decided = scenario.gang("b1", 1, gpu=2, queue="b").decide()
    assert (decided.placed(), decided.evicted(), given_up_in(decided)) == (["b1"], [], ["team/a1"])
    decided = scenario.remove("b1").gang("b1", 1, gpu=3, queue="b").decide()
    assert (decided.evicted(), given_up_in(decided)) == (["c0-0"], ["team/a1"])


def test_gangs_that_did_not_fit_before_are_tried_again_at_once() -> None:
    """b1 is served first, and gives its start up for a1: its queue uses more than its fair share."""
    scenario = two_queues({}, {}, 2, 3, 3).gang("b1", 2, gpu=3, queue="b")
    for name, on in (("a1", []), ("a2", ["n0-0"]), ("a3", []), ("a4", ["n0-0"])):
        scenario.gang(name, 1, gpu=1, queue="a", on=on)
    first = scenario.decide()
    assert (first.placed(), given_up_in(first)) == (["a1"], ["team/b1"])
    assert first.reasons()["a3"] is Reason.NOT_TRIED_YET
    assert first.result.wake_at == scenario.now
    assert scenario.take(first).decide().placed() == ["a3"]


def test_a_start_is_given_up_before_more_gangs_of_lower_priority_are_evicted() -> None:
    scenario = Scenario().nodes("n", gpu=3).queue("q")
    scenario.gang("r0", 1, gpu=1, queue="q", on=["n-0"]).gang("r1", 1, gpu=1, queue="q", on=["n-0"])
    scenario.gang("s", 1, gpu=1, queue="q", priority=5).gang("d", 1, gpu=2, queue="q", priority=9)
    decided = scenario.decide()
    assert (len(decided.evicted()), given_up_in(decided)) == (1, ["team/s"])


def test_a_start_is_given_up_although_its_queue_falls_below_its_guarantee() -> None:
    """Without a1, queue a is below its guarantee, which would be a reason to evict gangs of c instead."""
    scenario = two_queues({"guarantee": 1, "priority": 1}, {"guarantee": 4}, 6).queue("c")
    scenario.gang("c0", 1, gpu=2, queue="c", on=["n0-0"]).gang("c1", 1, gpu=2, queue="c", on=["n0-0"])
    decided = scenario.gang("a1", 1, gpu=2, queue="a").gang("b1", 1, gpu=4, queue="b").decide()
    assert (len(decided.evicted()), given_up_in(decided)) == (1, ["team/a1"])


def test_a_strict_queue_keeps_its_order_where_nothing_is_evicted() -> None:
    scenario = Scenario().nodes("n", gpu=1).queue("q", ordering=Ordering.STRICT_FIFO)
    scenario.gang("old", 1, gpu=1, queue="q").gang("urgent", 1, gpu=1, queue="q", priority=9)
    assert scenario.decide().placed() == ["old"]


def test_a_start_is_given_up_also_after_another_gang_has_got_victims() -> None:
    """As many pods are assumed to end for c3 as starts were assumed not to exist just before."""
    scenario = Scenario().nodes("n0", gpu=4).nodes("n1", gpu=4).nodes("n2", gpu=1)
    scenario.queue("a", priority=1).queue("b", guarantee={GPU: 1}, priority=1).queue("c", guarantee={GPU: 5})
    scenario.gang("c0", 1, gpu=3, queue="c", on=["n1-0"])
    scenario.gang("a0", 2, gpu=1, queue="a", priority=2, on=["n0-0", "n0-0"])
    scenario.gang("b0", 1, gpu=1, queue="b", on=["n2-0"])
    scenario.gang("c1", 1, gpu=1, queue="c", on=["n1-0"])
    scenario.gang("a1", 1, gpu=1, queue="a").gang("a2", 1, gpu=2, queue="a").gang("b1", 1, gpu=1, queue="b")
    scenario.gang("c2", 1, gpu=1, queue="c").gang("c3", 2, gpu=2, queue="c", priority=2)
    decided = scenario.decide()
    assert decided.evicted() == ["c0-0", "c1-0"]
    assert given_up_in(decided) == ["team/a1"]


def test_a_start_is_given_up_together_with_an_eviction_for_a_fair_share() -> None:
    """Without the start one running gang may be evicted, whatever the start takes."""
    scenario = two_queues({}, {}, 8)
    for number in range(5):
        scenario.gang(f"a{number}", 1, gpu=1, queue="a", on=["n0-0"])
    scenario.gang("a5", 1, gpu=3, queue="a").gang("b0", 1, gpu=4, queue="b")
    decided = scenario.decide()
    assert (given_up_in(decided), len(decided.evicted())) == (["team/a5"], 1)
    assert not scenario.take(decided).decide().evicted()


def test_no_gang_becomes_a_victim_because_its_queue_has_just_started_another() -> None:
    """Only with a1, which starts where b1 may not run, queue a uses more than its fair share."""
    scenario = two_queues({"priority": 1}, {}, 2, 2)
    scenario.gang("a0", 1, gpu=2, queue="a", on=["n0-0"]).gang("a1", 1, gpu=2, queue="a", **on_node(1))
    decided = scenario.gang("b1", 1, gpu=2, queue="b", **on_node(0)).decide()
    assert (decided.placed(), decided.evicted(), given_up_in(decided)) == (["a1"], [], [])
    assert decided.result.wake_at == scenario.now


@pytest.mark.parametrize("is_entitled", [True, False])
def test_a_start_is_given_up_before_a_gang_is_moved(is_entitled: bool) -> None:
    """With a0 on the other node, b1 would have a whole one. Without its guarantee it has no right to a1's."""
    scenario = two_queues({"priority": 1}, {"guarantee": 2 if is_entitled else 0}, 2, 2)
    scenario.gang("a0", 1, gpu=1, queue="a", on=["n0-0"]).gang("a1", 1, gpu=1, queue="a", **on_node(1))
    scenario.change("a0", members=tuple(replace(pod, running_since=1) for pod in scenario.members("a0")))
    scenario.now = 36_000_000
    decided = scenario.gang("b1", 1, gpu=2, queue="b").decide(MOVING)
    if is_entitled:
        assert (decided.placed(), decided.evicted(), given_up_in(decided)) == (["b1"], [], ["team/a1"])
    else:
        assert (decided.placed(), decided.evicted(), given_up_in(decided)) == (["a1"], ["a0-0"], [])


def test_a_queue_keeps_the_amount_that_its_guarantee_covered_beside_a_start() -> None:
    """The guarantee of 2 covers r-0 and r-1. b1 takes r-1 and r-2: the large gang makes up the amount."""
    scenario = two_queues({"guarantee": 2}, {}, 3, 3, 1)
    scenario.gang("r", 3, min=1, gpu=1, queue="a", on=["n0-0", "n0-0", "n0-0"])
    scenario.gang("large", 1, gpu=3, queue="a", on=["n1-0"]).gang("a1", 1, gpu=1, queue="a", **on_node(2))
    scenario.gang("b1", 1, gpu=2, queue="b", **on_node(0))
    scenario.gang("b2", 1, gpu=1, queue="b", preemption_policy="Never", **on_node(0))
    first = scenario.decide()
    assert (first.placed(), sorted(first.evicted())) == (["a1"], ["r-1", "r-2"])
    assert given_up_in(first) == []


def test_lost_members_that_the_cycle_replaces_are_covered_as_if_they_ran() -> None:
    """With both members of a0 the guarantee does not cover a1. They stay, so b1 need not wait a cycle."""
    scenario = two_queues({"guarantee": 2}, {"guarantee": 1}, 3)
    scenario.gang("a0", 2, gpu=1, queue="a", on=["n0-0", "n0-0"]).lose("a0")
    scenario.gang("a1", 1, gpu=1, queue="a", on=["n0-0"])
    decided = scenario.gang("b1", 1, gpu=1, queue="b").decide()
    assert (decided.placed(), decided.evicted()) == (["a0"], ["a1-0"])


# --- protection -------------------------------------------------------------------------------------------


def test_run_times_and_budgets_do_not_protect_a_start() -> None:
    disruption = Disruption(min_runtime="5m")
    scenario = two_queues({"priority": 1, "reclaim_min_runtime_ms": 60_000}, {"guarantee": 2}, 2)
    scenario.gang("a1", 1, gpu=2, queue="a", disruption=disruption, labels={"app": "x"})
    assert scenario.budget("none", app="x").gang("b1", 1, gpu=2, queue="b").decide().placed() == ["b1"]


@pytest.mark.parametrize("preemptible", [True, False])
def test_a_start_that_is_not_preemptible_is_protected_like_a_running_gang(preemptible: bool) -> None:
    """The other gang would evict the running one otherwise."""
    scenario = Scenario().nodes("n", 2, gpu=2).queue("q", guarantee={GPU: 2}, ordering=Ordering.STRICT_FIFO)
    scenario.gang("r", 1, gpu=2, queue="q", on=["n-1"])
    scenario.gang("s", 1, gpu=2, queue="q", disruption=Disruption(preemptible=preemptible))
    decided = scenario.gang("d", 1, gpu=2, queue="q", priority=9).decide()
    assert (decided.placed(), decided.evicted()) == ((["d"], []) if preemptible else (["s"], ["r-0"]))


def test_a_gang_with_preemption_policy_never_has_nothing_given_up() -> None:
    scenario = two_queues({"priority": 1}, {"guarantee": 2}, 2)
    scenario.gang("a1", 1, gpu=2, queue="a").gang("b1", 1, gpu=2, queue="b", preemption_policy="Never")
    assert scenario.decide().placed() == ["a1"]


@pytest.mark.parametrize("actions", [(), (ActionName.RELEASE, ActionName.RECOVER)])
def test_nothing_is_given_up_where_nothing_is_evicted(actions: tuple[ActionName, ...]) -> None:
    scenario = two_queues({"priority": 1}, {"guarantee": 2}, 2)
    scenario.gang("a1", 1, gpu=2, queue="a").gang("b1", 1, gpu=2, queue="b")
    assert scenario.decide(SchedulerConfig(actions=actions)).placed() == ["a1"]


def test_lost_members_are_not_given_up() -> None:
    scenario = two_queues({"priority": 1}, {"guarantee": 2}, 4)
    scenario.gang("a0", 2, gpu=2, queue="a", on=["n0-0", "n0-0"]).lose("a0")
    decided = scenario.gang("b1", 1, gpu=2, queue="b").decide()
    assert (decided.placed(), given_up_in(decided)) == (["a0"], [])


def test_a_gang_that_gave_up_its_start_does_not_evict_the_other_one() -> None:
    """The guarantee is moved to the other queue before the next cycle."""
    scenario = two_queues({"priority": 1}, {"guarantee": 2}, 2)
    first = scenario.gang("a1", 1, gpu=2, queue="a").gang("b1", 1, gpu=2, queue="b").decide()
    assert (first.placed(), given_up_in(first)) == (["b1"], ["team/a1"])
    scenario.take(first).queue("a", guarantee={GPU: 2}).queue("b")
    assert scenario.decide().evicted() == []
    scenario.memory = replace(scenario.memory, preempted={}, refusals={})
    assert scenario.decide().evicted() == ["b1-0"]


@pytest.mark.parametrize("is_needed", [True, False])
def test_a_start_stays_whose_pods_another_start_requires_near_it(is_needed: bool) -> None:
    scenario = two_queues({"priority": 1}, {"guarantee": 2}, 4)
    scenario.gang("a1", 1, gpu=2, queue="a", labels={"app": "x"}, priority=9)
    scenario.gang("a2", 1, gpu=2, queue="a", near=[term(app="x")] if is_needed else (), priority=5)
    decided = scenario.gang("b1", 1, gpu=2, queue="b", apart=[term(app="y")]).decide()
    assert given_up_in(decided) == ["team/a2"]
    decided = scenario.remove("b1").gang("b1", 1, gpu=2, queue="b", apart=[term(app="x")]).decide()
    assert (sorted(decided.placed()), given_up_in(decided)) == (
        (["a1", "a2"], []) if is_needed else (["a2", "b1"], ["team/a1"])
    )


@pytest.mark.parametrize("most", [0, 500])
def test_no_gang_is_evicted_because_the_guarantee_covers_a_start_that_stays(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the start of a1, which stays for a2 or as one of too many, the guarantee covers a0."""
    monkeypatch.setattr(starts, "STARTS_GIVEN_UP_MAX", most)
    scenario = two_queues({"guarantee": 2, "priority": 1}, {"guarantee": 2}, 4)
    scenario.gang("a0", 1, gpu=2, queue="a", on=["n0-0"])
    scenario.gang("a1", 1, gpu=2, queue="a", labels={"app": "x"}, priority=9)
    scenario.gang("a2", 1, gpu=0, queue="a", near=[term(app="x")], priority=5)
    first = scenario.gang("b1", 1, gpu=2, queue="b").decide()
    assert (sorted(first.placed()), first.evicted(), given_up_in(first)) == (["a1", "a2"], [], [])
    assert first.result.wake_at == scenario.now
    assert scenario.take(first).decide().evicted() == ["a0-0"]


# --- surplus, reserved members, reserved starts ------------------------------------------------------------


def test_surplus_is_given_up_one_by_one_and_the_covered_minimum_stays() -> None:
    scenario = two_queues({"guarantee": 1, "priority": 1}, {"guarantee": 1}, 3)
    scenario.gang("a1", 3, min=1, gpu=1, queue="a", priority=5)
    decided = scenario.gang("b1", 1, gpu=1, queue="b").decide()
    assert sorted(bind for bind in decided.binds) == ["a1-0", "a1-1", "b1-0"]
    assert given_up_in(decided) == ["team/a1"]


def test_the_surplus_of_a_start_is_given_up_with_it() -> None:
    """The surplus alone would not have to go: it is on another node."""
    scenario = two_queues({"priority": 1}, {"guarantee": 2}, 2, 1)
    scenario.gang("a1", 0, min=1, queue="a", priority=5, started=False)
    scenario.role("a1", 1, role="main", gpu=2, min=1).role("a1", 1, role="more", gpu=1, **on_node(1))
    decided = scenario.gang("b1", 1, gpu=2, queue="b").decide()
    assert (decided.placed(), given_up_in(decided)) == (["b1"], ["team/a1"])


def test_a_minimum_is_not_given_up_without_surplus_that_a_guarantee_covers() -> None:
    """With the mode Single each pod is covered alone: the guarantee of 1 covers the surplus member."""
    scenario = two_queues({"guarantee": 1, "priority": 1}, {"guarantee": 2}, 3)
    scenario.gang("a1", 0, min=1, queue="a", priority=5, started=False, disruption=Disruption(mode="Single"))
    scenario.role("a1", 1, role="main", gpu=2, min=1).role("a1", 1, role="more", gpu=1)
    decided = scenario.gang("b1", 1, gpu=2, queue="b").decide()
    assert (sorted(decided.binds), given_up_in(decided)) == (["a1-0", "a1-1"], [])


def test_surplus_members_have_starts_given_up_one_by_one() -> None:
    """The other surplus member is tried again in the next cycle."""
    scenario = two_queues({"priority": 1}, {"guarantee": 3}, 3)
    scenario.gang("b1", 3, min=1, gpu=1, queue="b", on=["n0-0"])
    scenario.gang("a1", 1, gpu=1, queue="a").gang("a2", 1, gpu=1, queue="a")
    first = scenario.decide()
    assert (first.placed().count("b1"), len(given_up_in(first))) == (1, 1)
    assert "b1" in first.reasons()


def test_surplus_of_a_running_gang_is_given_up_and_the_gang_runs_on() -> None:
    scenario = two_queues({"priority": 1}, {"guarantee": 1}, 2)
    scenario.gang("a1", 2, min=1, gpu=1, queue="a", priority=5, on=["n0-0"])
    decided = scenario.gang("b1", 1, gpu=1, queue="b").decide()
    assert (decided.placed(), decided.evicted(), given_up_in(decided)) == (["b1"], [], ["team/a1"])
    assert decided.result.memory.preempted == {}


def test_what_a_start_reserved_for_members_to_come_is_given_up_with_it() -> None:
    """The other gang needs the GPUs that were reserved. Later the gang starts, and reserves them again."""
    scenario = Scenario().nodes("n", 2, gpu=4).queue("q", ordering=Ordering.STRICT_FIFO)
    scenario.gang("r", 1, gpu=4, queue="q", on=["n-1"]).gang(
        "s", 1, min=4, gpu=1, queue="q", role="w", reserves=True, started=False
    )
    shape = scenario.members("s")[0].shape
    scenario.change("s", roles=(RoleSpec("w", 4, 0, shape=PodShape(key=shape.key, requests=shape.requests)),))
    assert "gang-s" in scenario.decide().result.memory.compositions
    first = scenario.gang("d", 1, gpu=4, queue="q", priority=9).decide()
    assert (first.placed(), given_up_in(first)) == (["d"], ["team/s"])
    assert "gang-s" not in first.result.memory.compositions
    assert first.result.queues["q"].allocated[GPU] == 8
    again = scenario.take(first).remove("d").decide()
    assert (again.placed(), "gang-s" in again.result.memory.compositions) == (["s"], True)


def test_a_gang_that_gave_up_its_start_has_its_reserved_start_again() -> None:
    scenario = two_queues({"priority": 1, "backfill": Backfill.EASY}, {"guarantee": 2}, 2)
    scenario.gang("a0", 1, gpu=1, queue="a", on=["n0-0"]).gang("a1", 1, gpu=2, queue="a")
    first = scenario.decide()
    scenario.take(first).remove("a0").gang("b1", 1, gpu=2, queue="b")
    second = scenario.decide()
    assert (second.placed(), given_up_in(second)) == (["b1"], ["team/a1"])
    before, after = (each.result.memory.reserved_starts[GangId("gang-a1")] for each in (first, second))
    assert before.reserved_in == after.reserved_in


# --- nothing is left of a start ---------------------------------------------------------------------------


def with_shares(scenario: Scenario) -> Scenario:
    scenario.nodes("s", 2, shared=2, used={GPU_SHARE: 400, device_name(0): 400})
    return scenario.gang("s1", 3, min=2, share=300, queue="a").gang("s2", 1, share=600, queue="a")


def with_zones(scenario: Scenario) -> Scenario:
    half = {GPU: 2, CPU: 4000}
    scenario.nodes("z", gpu=4, cpu=8, numa=numa(half, half))
    part = {GPU: 1, CPU: 1000}
    return scenario.gang("z1", 2, gpu=1, containers=[part], queue="a", selector={"group": "z"})


def with_affinity(scenario: Scenario) -> Scenario:
    scenario.nodes("f", 3, gpu=2)
    scenario.gang("f1", 2, gpu=1, queue="a", labels={"app": "x"}, apart=[term(app="x")])
    return scenario.gang("f2", 1, gpu=1, queue="a", apart=[term(app="x")])


def with_reserved_members(scenario: Scenario) -> Scenario:
    scenario.nodes("r", gpu=4)
    scenario.gang("r1", 1, min=4, gpu=1, queue="a", role="w", reserves=True, started=False)
    shape = scenario.members("r1")[0].shape
    role = RoleSpec("w", 4, 0, shape=PodShape(key=shape.key, requests=shape.requests))
    return scenario.change("r1", roles=(role,))


def state_of(session: Session) -> object:
    """Everything that a start changes, as values."""
    index = session.affinity_index
    pods = [pod for gang in session.gangs.values() for pod in gang.members]
    return (
        {node: {name: each for name, each in session.free(node).items() if each} for node in session.nodes},
        [session.pod_state(pod) for pod in pods],
        [session.gang_state(gang) for gang in session.gangs.values()],
        [
            {name: each for name, each in session.ledger.usage(queue.name).items() if each}
            for queue in session.queues
        ],
        [[index.conflict(pod, node) for node in session.nodes] for pod in pods] if index else None,
        [session.eligibility(pod).rejected.keys() for pod in pods],
        (session.placements, session.capacity_holds, session.evictions),
    )


@pytest.mark.parametrize(
    "add", [with_shares, with_zones, with_affinity, with_reserved_members, lambda _: None]
)
def test_a_session_whose_starts_are_given_up_is_as_before(add: Callable[[Scenario], object]) -> None:
    scenario = two_queues({}, {}, 4, 2)
    scenario.gang("a1", 4, min=1, gpu=1, queue="a").gang("a2", 1, gpu=1, queue="a")
    add(scenario)
    snapshot, config = scenario.snapshot(), SchedulerConfig()
    session = Session(snapshot, config)
    cycle = Cycle(session, Backlogs(config).begin(snapshot), ClassTableCache(), AnswerCache())
    enqueue.execute(cycle)
    before = state_of(session)
    allocate.execute(cycle)
    placed = {bind.pod for each in session.placements for bind in each.binds}
    assert len(placed) == sum(len(gang.members) for gang in session.gangs.values())
    high = Beneficiary(replace(session.gangs[GangId("gang-a2")], id=GangId("other"), priority=9), {GPU: 1})
    starts = StartPool(session, cycle.outcome, moved=()).starts_for(high)
    assert {pod.uid for start in starts for pod in start.pods} == placed
    give_up(cycle, starts, high.gang, {start.gang.id: "why" for start in starts})
    assert state_of(session) == before
    assert cycle.outcome.steps == []
    assert cycle.outcome.failures.keys() == session.gangs.keys()


# --- the gang that starts instead --------------------------------------------------------------------------


def test_a_gang_that_also_needs_what_terminates_waits_for_it_and_starts_then() -> None:
    scenario = two_queues({"priority": 1}, {"guarantee": 4}, 4)
    scenario.gang("old", 1, gpu=2, queue="a", on=["n0-0"]).gang("keep", 1, gpu=1, queue="a", on=["n0-0"])
    scenario.change(
        "old", members=tuple(replace(pod, deleting=True, ended=1000) for pod in scenario.members("old"))
    )
    scenario.gang("a1", 1, gpu=1, queue="a").gang("b1", 1, gpu=3, queue="b")
    first = scenario.decide()
    assert (first.placed(), first.evicted(), given_up_in(first)) == ([], [], ["team/a1"])
    second = scenario.take(first).decide()
    assert second.placed() == []
    third = scenario.take(second).remove("old").decide()
    assert third.placed() == ["b1"]


@pytest.mark.parametrize("controller", [CONTROLLER, None])
def test_a_gang_of_which_the_cycle_evicts_members_starts_others_in_the_next_one(controller: object) -> None:
    """A surplus member on a lost node is replaced; without a controller the verdict names it instead."""
    scenario = two_queues({"priority": 1}, {"guarantee": 3}, 1, 1).nodes("lost", gpu=1)
    recovery = Recovery(on_node_loss=RecoveryMode.REPLACE, grace_period="0s")
    on = ["n0-0", "lost-0"]
    scenario.gang("b1", 3, min=1, gpu=1, queue="b", on=on, recovery=recovery, controller=controller)
    scenario.nodes("lost", gpu=1, conditions={"Ready": "Unknown"}).gang("a1", 1, gpu=1, queue="a")
    first = scenario.decide()
    assert (first.placed(), given_up_in(first), first.result.stats.errors) == ([], ["team/a1"], ())
    assert first.evicted() == (["b1-1"] if controller else [])
    assert "b1-2" in scenario.take(first).decide().binds


def test_what_was_nominated_for_a_gang_is_free_for_its_start() -> None:
    """One gang is evicted for each of b1 and a1. A pod of another scheduler takes a GPU of those for b1."""
    scenario = two_queues({}, {"guarantee": 2}, 2, 1)
    scenario.gang("r0", 1, gpu=1, queue="a", on=["n0-0"])
    scenario.gang("r1", 1, gpu=1, cpu=8, queue="a", on=["n1-0"])
    scenario.gang("b1", 2, gpu=1, queue="b").gang("a1", 1, gpu=1, queue="a", priority=5, **on_node(1))
    first = scenario.decide()
    assert list(first.result.memory.nominations[GangId("gang-b1")].usage) == ["n0-0"]
    assert sorted(first.evicted()) == ["r0-0", "r1-0"]
    scenario.take(first).remove("r0").remove("r1").foreign("Job other/x", "n0-0", gpu=1)
    second = scenario.decide()
    assert (second.nodes("b1"), given_up_in(second)) == (["n0-0", "n1-0"], ["team/a1"])
    assert second.result.queues["b"].allocated[GPU] == 2
    assert GangId("gang-b1") not in second.result.memory.nominations


def test_it_starts_beside_what_is_nominated_for_another_gang() -> None:
    """b2 would be packed on n1, where two GPUs are free now that b1 will use."""
    scenario = two_queues({"priority": 1}, {"guarantee": 5}, 3, 4)
    scenario.gang("low", 1, gpu=2, queue="a", on=["n1-0"])
    scenario.gang("a1", 1, gpu=2, queue="a", **on_node(1)).gang("a2", 1, gpu=3, queue="a", **on_node(0))
    decided = scenario.gang("b1", 1, gpu=4, queue="b").gang("b2", 1, gpu=1, queue="b").decide()
    assert (decided.evicted(), given_up_in(decided)) == (["low-0"], ["team/a1", "team/a2"])
    assert list(decided.result.memory.nominations[GangId("gang-b1")].usage) == ["n1-0"]
    assert (decided.placed(), decided.nodes("b2")) == (["b2"], ["n0-0"])


def test_the_certificate_of_the_start_is_proven() -> None:
    scenario = two_queues({"priority": 1}, {"guarantee": 2}, 2)
    scenario.gang("a1", 1, gpu=2, queue="a").gang("b1", 1, gpu=2, queue="b")
    (placement,) = scenario.decide().placements("b1")
    assert placement.certificate.proven
    assert (placement.cause, placement.queue) == ("start", QueueName("b"))
