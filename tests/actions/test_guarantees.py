"""Histories of random small clusters follow docs/guarantees.md, as the oracle beside reads it.

`python -m tests.actions.guarantees_campaign` plays many more by seed.
"""

import copy
from itertools import product

import pytest
from hypothesis import given, note
from msgspec.structs import replace
from phalanx.model.api.pod_groups import Disruption
from phalanx.model.names import QueueName
from phalanx.model.resources import CPU, GPU

from tests.actions.guarantees_cases import (
    Case,
    Kind,
    begin,
    cases,
    chooser_of_seed,
    make_case,
    world_of,
)
from tests.actions.guarantees_exchanges import held_not_preemptible
from tests.actions.guarantees_history import Finding, History, findings
from tests.actions.guarantees_oracle import COUNTED, Work, World
from tests.builders import Scenario
from tests.examples import holds

CONTENDED = Kind(is_fitting=True, has_flavors=False)
SURE_TO_HOLD = Kind(has_flavors=False, with_priorities=False, is_fitting=True)
NOT_PREEMPTIBLE = Kind(only_not_preemptible=True, starts_empty=True, has_flavors=False)


def contradictions(case: Case) -> list[Finding]:
    """Play a case and describe it in the report of the test."""
    for line in case.lines:
        note(line)
    history = History(case).play()
    found = list(findings(history))
    for line in history.log:
        note(line)
    return found


@given(cases())
@holds(15)
def test_every_eviction_is_allowed_and_every_right_is_granted(case: Case) -> None:
    assert contradictions(case) == []


@given(cases(CONTENDED))
@holds(15)
def test_the_same_where_the_guarantees_of_siblings_are_small(case: Case) -> None:
    assert contradictions(case) == []


@given(cases(Kind(has_guarantees=False, has_flavors=False)))
@holds(10)
def test_the_same_where_only_fair_shares_count(case: Case) -> None:
    assert contradictions(case) == []


@given(cases(Kind(has_flavors=True)))
@holds(10)
def test_the_same_with_guarantees_of_flavors(case: Case) -> None:
    assert contradictions(case) == []


# --- one's own guarantee ----------------------------------------------------------------------------------


@given(cases(SURE_TO_HOLD))
@holds(10)
def test_a_guarantee_never_delays_the_only_gang_of_its_queue(case: Case) -> None:
    """The guarantees fit. Several gangs of a queue can delay each other, so there is only one."""
    for work in world_of(case.scenario.snapshot()).works.values():
        before, after = copy.deepcopy(case), copy.deepcopy(case)
        if not _is_alone(world_of(case.scenario.snapshot()), work):
            continue
        _guarantee(after, work)
        if _is_scaled(world_of(after.scenario.snapshot())):
            continue
        plain, raised = History(before).play(), History(after).play()
        name = work.name.removeprefix("team/")
        note(f"{name}: {case.lines}\n{plain.log}\n{raised.log}")
        never = len(plain.cycles) + len(raised.cycles)
        assert raised.started.get(name, never) <= plain.started.get(name, never)


def _is_alone(world: World, work: Work) -> bool:
    """A preemptible gang that waits in a queue without others, and may evict."""
    same = [each for each in world.works.values() if each.queue == work.queue]
    return len(same) == 1 and not work.held and work.is_preemptible and work.may_evict


def _is_scaled(world: World) -> bool:
    """Whether some guarantee is less than written: another queue may then have no right that helped."""
    return any(
        world.guarantee(queue, name) < world.written(queue, name)
        for queue in world.accounts
        for name in COUNTED
    )


def _guarantee(case: Case, work: Work) -> None:
    """Guarantee the queue of the gang all that the gang requests."""
    queue = case.scenario._queues[QueueName(work.queue)]
    more = {
        name: max(queue.guarantee.get(name, 0), amount * len(work.members))
        for name, amount in work.each.items()
        if amount
    }
    case.scenario._queues[queue.name] = replace(queue, guarantee={**queue.guarantee, **more})


# --- gangs that are not preemptible -----------------------------------------------------------------------


@given(cases(NOT_PREEMPTIBLE))
@holds(15)
def test_some_gang_that_is_not_preemptible_starts_if_one_fits_its_written_guarantee(case: Case) -> None:
    for line in case.lines:
        note(line)
    world = world_of(case.scenario.snapshot())
    could = [work.name for work in world.works.values() if world.could_ever_start(work)]
    history = History(case).play()
    note(f"could start: {could}; {history.log}")
    assert bool(could) <= bool(history.started)
    for queue in world.accounts:
        for name in COUNTED:
            if world.names_guarantee(queue, name):
                assert held_not_preemptible(history.end, queue, name) <= world.written(queue, name)


@given(cases(NOT_PREEMPTIBLE))
@holds(15)
def test_such_gangs_wait_for_what_is_written_or_for_capacity_only(case: Case) -> None:
    for line in case.lines:
        note(line)
    _waits_for_a_reason(case)


@pytest.mark.parametrize("runs", [False, True])
def test_a_sibling_without_a_guarantee_of_devices_keeps_nobody_waiting(runs: bool) -> None:
    """The guarantees of GPUs are 10, of 8. The gang of b uses a GPU of which its queue names nothing."""
    scenario = Scenario().nodes("n", 2, gpu=4, cpu=8).nodes("m", 1, gpu=0, cpu=8)
    scenario.queue("p", limit={CPU: 2000}).queue("q", guarantee={CPU: 0})
    scenario.queue("a", parent="p", guarantee={GPU: 4, CPU: 5000}).queue(
        "b", parent="p", guarantee={CPU: 1000}
    )
    scenario.queue("c", parent="q", guarantee={GPU: 5, CPU: 0}).queue("d", parent="q", guarantee={GPU: 1})
    common = {"cpu": 1, "memory": 0, "disruption": Disruption(preemptible=False)}
    scenario.gang("g0", 1, gpu=1, queue="b", on=["n-0"] if runs else [], **common)
    scenario.gang("g1", 1, gpu=4, queue="a", **common)
    begin(scenario)
    assert "g1" in _waits_for_a_reason(Case(scenario, [])).started


def _waits_for_a_reason(case: Case) -> History:
    """Play a case, and compare what gangs that are not preemptible hold in the end with what is written."""
    history = History(case).play()
    assert list(findings(history)) == [], history.log
    world = history.end
    for queue, name, scope in product(world.accounts, COUNTED, world.scopes()):
        if world.names_guarantee(queue, name, scope):
            held = held_not_preemptible(world, queue, name, scope)
            assert held <= world.written(queue, name, scope)
    return history


# --- found on paper ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", [0, 2])
def test_a_large_gang_of_higher_priority_does_not_use_a_small_one_as_bait(guarantee: int) -> None:
    """Each queue has a gang of 2 GPUs on one node, within its right, and one of 4 pods of 1 GPU beyond it."""
    scenario = Scenario().nodes("big", 1, gpu=2).nodes("small", 2, gpu=1)
    for queue in "ab":
        scenario.queue(queue, guarantee={GPU: guarantee} if guarantee else {})
    on = ["big-0", "big-0", "small-0", "small-1"]
    for queue in "ab":
        common = {"cpu": 0, "memory": 0, "queue": queue}
        scenario.gang(f"{queue}-high", 4, gpu=1, priority=9, on=on if queue == "a" else [], **common)
        scenario.gang(f"{queue}-low", 1, gpu=2, **common)
    begin(scenario)
    history = History(Case(scenario, [])).play()
    assert {each.property for each in findings(history)} & {"finite", "twice"} == set()


def test_a_covered_gang_evicts_siblings_although_its_parent_is_above_the_share_that_others_lack() -> None:
    """p has a share of 5 GPUs, of 6; it uses 3, and 6 with the gang of 4. The guarantee of a covers that."""
    scenario = Scenario().nodes("n", 1, gpu=4).nodes("m", 1, gpu=2)
    scenario.queue("p").queue("a", parent="p", guarantee={GPU: 4}).queue("b", parent="p").queue("q")
    common = {"cpu": 0, "memory": 0}
    scenario.gang("b0", 1, gpu=1, queue="b", on=["n-0"], **common)
    scenario.gang("b1", 1, gpu=2, queue="b", on=["m-0"], **common)
    scenario.gang("q0", 1, gpu=4, queue="q", preemption_policy="Never", **common)
    begin(scenario)
    assert scenario.gang("a0", 1, gpu=4, queue="a", **common).decide().evicted() == ["b0-0"]


def test_a_gang_covered_in_a_device_does_not_replace_the_cores_that_its_own_queue_took_from_it() -> None:
    """d takes no more than its share of 4 cores for d1, which evicts d0. d0 may not evict a0 in turn."""
    scenario = Scenario().nodes("n", 1, gpu=4, cpu=8).queue("a").queue("d", guarantee={GPU: 1})
    scenario.gang("d0", 1, gpu=1, cpu=1, memory=0, queue="d", priority=1, on=["n-0"])
    scenario.gang("d1", 1, gpu=0, cpu=4, memory=0, queue="d", priority=2, on=["n-0"])
    scenario.gang("a0", 1, gpu=0, cpu=4, memory=0, queue="a")
    begin(scenario)
    assert list(findings(History(Case(scenario, [])).play())) == []


def test_the_first_surplus_members_are_covered() -> None:
    scenario = Scenario().nodes("n", 1, gpu=4).queue("a", guarantee={GPU: 2}).queue("b", guarantee={GPU: 2})
    scenario.gang("a0", 4, min=1, gpu=1, cpu=0, memory=0, queue="a", on=["n-0"] * 4)
    begin(scenario)
    decided = scenario.gang("b0", 2, gpu=1, cpu=0, memory=0, queue="b").decide()
    assert sorted(decided.evicted()) == ["a0-2", "a0-3"]


def test_queues_with_different_common_ancestors_lose_gangs_by_different_conditions() -> None:
    """The last gang brings a below its share of 3 GPUs: b stays within its own. c keeps its share of 2."""
    scenario = Scenario().nodes("n", 1, gpu=3).nodes("m", 1, gpu=5)
    scenario.queue("p", weight=3).queue("a", parent="p").queue("b", parent="p").queue("c")
    for name, gpus, node in (("a0", 2, "n-0"), ("a1", 2, "m-0"), ("c0", 1, "n-0"), ("c1", 3, "m-0")):
        scenario.gang(name, 1, gpu=gpus, cpu=0, memory=0, queue=name[0], on=[node])
    scenario.gang("b0", 1, gpu=3, cpu=0, memory=0, queue="b", selector={"group": "n"})
    begin(scenario)
    history = History(Case(scenario, []))
    assert list(findings(history.play())) == []
    assert [*history.cycles[0].evicted.values()] == [["a0-0", "c0-0"]]


def test_a_limit_of_cores_does_not_keep_devices_beyond_the_share() -> None:
    """Cores are not short. c has a share of 0 GPUs, and of less than the core to which it is limited."""
    scenario = Scenario().nodes("n", 1, gpu=4, cpu=8).nodes("m", 1, gpu=2, cpu=4)
    scenario.queue("a", weight=2, guarantee={GPU: 0, CPU: 0})
    scenario.queue("b", weight=6, guarantee={GPU: 2, CPU: 0}).queue("c", limit={CPU: 1000})
    common = {"cpu": 1, "memory": 0}
    scenario.gang("g0", 1, gpu=1, queue="c", on=["n-0"], **common)
    scenario.gang("g1", 1, gpu=4, queue="a", **common)
    scenario.gang("g2", 1, gpu=1, queue="c", on=["n-0"], **common)
    scenario.gang("g3", 6, gpu=1, queue="b", **common)
    begin(scenario)
    history = History(Case(scenario, []))
    assert list(findings(history.play())) == []
    assert "g3" in history.started


def test_seed_40312() -> None:
    """c runs 16 cores, limited to 2. It has no share of GPUs, and keeps none for cores that nobody lacks."""
    assert list(findings(History(make_case(chooser_of_seed(40312))).play())) == []
