"""Advice that is searched after a cycle is the advice that the cycle itself would have found."""

import random

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.cycle import Engine
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.retry import ADVICE_RENEWAL_MS
from phalanx.model.memory import Memory
from phalanx.model.reasons import CHANGE_FOR_ADVICE, WAIT_FOR_ADVICE, Reason, Verdict

from tests.builders import Decided, Scenario
from tests.cycle.test_engine_state import EVENTS, apply_event, cluster
from tests.solver.problems import bounded

CONFIG = SchedulerConfig()


def later() -> Engine:
    return Engine(CONFIG, defers_advice=True)


def search_all(engine: Engine, memory: Memory) -> Memory:
    """The memory with all advice."""
    while (advised := engine.advise()) is not None:
        assert not advised.errors
        memory = advised.memory
    return memory


def refused(memory: Memory) -> dict[str, Verdict]:
    every = [memory.refusals, *memory.refused_starts.values()]
    assert all(refusal.advice_pending_since is None for some in every for refusal in some.values())
    return {gang: refusal.verdict for some in every for gang, refusal in some.items() if refusal.explained}


def waiting() -> Scenario:
    """A gang that waits for the end of another one, and one that is too large."""
    scenario = Scenario().nodes("n", 2, gpu=8).gang("runs", 1, gpu=8, bound=1).gang("small", 2, gpu=8)
    return scenario.gang("large", 3, gpu=8)


@bounded(25)
@given(
    cycles=st.lists(st.lists(st.sampled_from(EVENTS), max_size=3), min_size=2, max_size=6),
    dice=st.randoms(use_true_random=False),
)
def test_it_is_the_advice_of_a_cycle_that_searches_it_at_once(
    cycles: list[list[str]], dice: random.Random
) -> None:
    scenario, engine, number = cluster(None), later(), 0
    for events in cycles:
        for what in events:
            number += 1
            apply_event(scenario, what, dice, number)
        scenario.now += ADVICE_RENEWAL_MS
        snapshot = scenario.snapshot()
        found = engine.decide(snapshot)
        assert msgspec.json.encode(found) == msgspec.json.encode(later().decide(snapshot))
        at_once = refused(Engine(CONFIG).decide(snapshot).memory)
        advised = search_all(engine, found.memory)
        assert refused(advised).items() >= at_once.items()
        scenario.take(Decided(replace(found, memory=advised)))


def test_a_cycle_gives_reason_and_evidence_and_the_next_one_shows_the_advice() -> None:
    scenario, engine = waiting(), later()
    first = engine.decide(scenario.snapshot())
    small, large = Decided(first).verdict("small"), Decided(first).verdict("large")
    assert (small.reason, large.reason) == (Reason.INSUFFICIENT_CAPACITY, Reason.ABOVE_CLUSTER_CAPACITY)
    assert small.message == "1 of 2 pods fit now; at least 8 nvidia.com/gpu missing"
    assert {small.next_step, large.next_step} == {WAIT_FOR_ADVICE, CHANGE_FOR_ADVICE}
    assert small.evidence
    assert large.evidence
    scenario.memory = search_all(engine, first.memory)
    second = engine.decide(scenario.snapshot())
    assert "Wait until gang team/runs ends" in Decided(second).verdict("small").next_step
    assert "add 1 node like n-0" in Decided(second).verdict("large").next_step
    assert engine.advise() is None, "nothing is searched twice"


def test_the_last_advice_stays_until_there_is_new_one() -> None:
    scenario, engine = waiting(), later()
    scenario.memory = search_all(engine, engine.decide(scenario.snapshot()).memory)
    advised = Decided(engine.decide(scenario.snapshot())).verdict("small")
    scenario.capacity_version += 1
    soon = engine.decide(scenario.snapshot())
    assert Decided(soon).verdict("small") == advised
    assert soon.wake_at == scenario.now + 2 * ADVICE_RENEWAL_MS
    assert engine.advise() is None
    scenario.memory, scenario.now = soon.memory, scenario.now + ADVICE_RENEWAL_MS
    again = engine.decide(scenario.snapshot())
    assert Decided(again).verdict("small") == advised
    found = engine.advise()
    assert found is not None
    assert not found.is_new
    assert again.memory.refused_starts["default"]["gang-small"].advice_pending_since == soon.cycle


def test_the_queues_take_turns() -> None:
    scenario = Scenario().nodes("n", gpu=8).queue("a").queue("b")
    for number in range(4):
        scenario.gang(f"a{number}", 1, gpu=9 + number, queue="a")
    scenario.gang("b0", 1, gpu=9, queue="b")
    engine = later()
    engine.decide(scenario.snapshot())
    advised: list[int] = []
    while (found := engine.advise()) is not None:
        starts = found.memory.refused_starts
        advised.append(sum(each.advice_pending_since is None for each in starts["b"].values()))
    assert advised.index(1) <= 1, "the one gang of b does not wait for the four gangs of a"


def test_no_search_is_asked_for_if_no_gang_is_refused() -> None:
    scenario = Scenario().nodes("n", 1, gpu=2).gang("a", 1, gpu=1)
    engine = Engine(SchedulerConfig(), defers_advice=True)
    assert not engine.may_advise, "no cycle has run"
    engine.decide(scenario.snapshot())
    assert not engine.may_advise
    engine.decide(scenario.gang("large", 1, gpu=4).snapshot())
    assert engine.may_advise
