"""Starts are given up over many cycles with constant demand: it ends, and starves nobody."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from phalanx.framework.config import ActionName, SchedulerConfig
from phalanx.model.api.pod_groups import Disruption
from phalanx.model.queues import Ordering
from phalanx.model.resources import GPU

from tests.actions.eviction_cases import eviction_case, given_up_in
from tests.actions.start_cases import described
from tests.builders import Scenario
from tests.examples import holds

CYCLES = 24
MOVING = SchedulerConfig(
    actions=(ActionName.RELEASE, ActionName.RECOVER, ActionName.CONSOLIDATE, ActionName.PREEMPT)
)


def varied(chance: Random) -> Scenario:
    """A random cluster; some queues are strict, and some gangs are elastic or not preemptible."""
    case = eviction_case(chance)
    note(described(case))
    scenario = case.scenario()
    for tenant in case.tenants:
        if chance.random() < 0.3:
            guarantee = {GPU: tenant.guarantee} if tenant.guarantee else {}
            more = {"parent": tenant.parent, "priority": tenant.priority, "ordering": Ordering.STRICT_FIFO}
            scenario.queue(tenant.name, guarantee=guarantee, **more)
    for work in case.works:
        if not work.on and chance.random() < 0.3:
            scenario.change(work.name, min_member=1)
        if chance.random() < 0.15:
            scenario.change(work.name, disruption=Disruption(preemptible=False))
    scenario.now = 36_000_000
    return scenario


@given(st.randoms(use_true_random=False))
@holds(15)
def test_giving_up_ends_and_no_gang_gives_up_its_start_for_the_same_gang_again(chance: Random) -> None:
    """Evicted gangs ask again at once. A gang that lost its own start or its pods may need others again."""
    scenario, step = varied(chance), chance.choice((1_000, 20_000, 60_000))
    config = chance.choice((None, None, MOVING))
    times: Counter[tuple[str, str]] = Counter()
    lost: Counter[str] = Counter()
    last = 0
    for cycle in range(CYCLES):
        decided = scenario.decide(config)
        given_up, evicted = given_up_in(decided), {each.gang for each in decided.result.evictions}
        assert not given_up or decided.placed() or evicted
        assert decided.result.stats.errors == ()
        times.update(given_up.items())
        lost.update(gang.removeprefix("gang-") for gang in (*evicted, *given_up))
        last = cycle if decided.placed() or evicted or given_up else last
        scenario.take(decided)
        scenario.now += step
        states = scenario.snapshot().nodes.values()
        assert all(amount >= 0 for state in states for amount in state.free.values())
    assert last < CYCLES // 2
    assert all(count <= 1 + lost[instead] for (_, instead), count in times.items())


@pytest.mark.parametrize("owners", [1, 2, 3])
def test_a_queue_whose_starts_are_given_up_starves_no_other(owners: int) -> None:
    """Queue a goes first, and its gangs of the whole node are given up for those of b, one in each cycle.

    Queue c needs the GPU that b leaves, and has no right to evict.
    """
    scenario = Scenario().nodes("n", gpu=owners + 1).queue("c")
    scenario.queue("a", priority=9).queue("b", guarantee={GPU: owners})
    for number in range(8):
        scenario.gang(f"a{number}", 1, gpu=owners + 1, queue="a")
    scenario.gang("c0", 1, gpu=1, queue="c", preemption_policy="Never")
    started: list[str] = []
    for number in range(owners):
        decided = scenario.gang(f"b{number}", 1, gpu=1, queue="b").decide()
        started += decided.placed()
        scenario.take(decided)
    started += scenario.decide().placed()
    assert sorted(started) == sorted(["c0", *(f"b{number}" for number in range(owners))])
