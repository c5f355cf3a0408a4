"""Whose end lets a gang with affinity, spread constraints or ports start, and when that is expected."""

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.model.api.pod_groups import Runtime
from phalanx.model.queues import Backfill
from phalanx.model.supplies.ports import ALL_ADDRESSES

from tests.actions.test_completions import WITHOUT_PREEMPTION, named
from tests.builders import Scenario, term
from tests.examples import holds
from tests.plugins.test_topology_spread import spread

MINUTE = 60_000
WEB = ("TCP", 80, ALL_ADDRESSES)
RUNS: dict[str, dict[str, Any]] = {
    "avoided": {"labels": {"app": "noisy"}},
    "avoids": {"apart": [term(app="x")]},
    "counted": {"labels": {"app": "x"}},
    "port": {"ports": [WEB]},
    "large": {},
}
WAITS: dict[str, dict[str, Any]] = {
    "avoided": {"apart": [term(app="noisy")]},
    "avoids": {"labels": {"app": "x"}},
    "counted": {"labels": {"app": "x"}, "spread": [spread("group")]},
    "port": {"ports": [WEB]},
}


def blocked(kind: str) -> Scenario:
    """One node that a gang may use, where another gang blocks it by this rule; both end in 30 minutes."""
    scenario = Scenario().nodes("n", gpu=8).nodes("m").queue("q", backfill=Backfill.EASY)
    scenario.now = 1_000_000 * MINUTE
    scenario.gang("old", 1, gpu=1, on=["n-0"], queue="q", runtime=Runtime(max="30m"), **RUNS[kind])
    members = [replace(pod, running_since=scenario.now // 1000) for pod in scenario.members("old")]
    scenario.change("old", members=tuple(members))
    return scenario.gang("g", 1, gpu=1, queue="q", **WAITS[kind])


@pytest.mark.parametrize("kind", sorted(WAITS))
def test_the_expected_start_follows_from_the_end_of_the_gang_that_is_in_the_way(kind: str) -> None:
    verdict = blocked(kind).decide(WITHOUT_PREEMPTION).verdict("g")
    assert verdict.next_step.startswith("Wait until gang team/old ends")
    assert verdict.start is not None
    assert verdict.start.at == 1_000_030 * MINUTE
    assert verdict.start.method == "maximum run times"
    assert verdict.evidence[-1].subject == "gang team/old"


@st.composite
def crowded(draw: st.DrawFn) -> Scenario:
    """Up to three nodes; gangs of one pod that may be in the way of a gang of one or two pods."""
    kind = draw(st.sampled_from(sorted(WAITS)))
    scenario = Scenario().nodes("a", gpu=2).nodes("b", gpu=2).nodes("c", gpu=draw(st.integers(0, 1)))
    for index in range(draw(st.integers(1, 4))):
        fields = RUNS[draw(st.sampled_from((kind, kind, "large")))]
        node = draw(st.sampled_from(("a-0", "b-0")))
        scenario.gang(f"old{index}", 1, gpu=0 if fields else 1, on=[node], **fields)
    return scenario.gang("g", draw(st.integers(1, 2)), gpu=1, **WAITS[kind])


def starts_without(scenario: Scenario, ended: tuple[str, ...]) -> bool:
    gangs = dict(scenario._gangs)
    for name in ended:
        scenario.remove(name)
    placed = scenario.decide().placed()
    scenario._gangs = gangs
    return placed == ["g"]


@given(crowded())
@holds(15)
def test_the_named_gangs_are_sufficient_and_as_few_as_possible(scenario: Scenario) -> None:
    result = scenario.decide(WITHOUT_PREEMPTION)
    others = [name for name in scenario.gang_names if name != "g"]
    enough = [
        some
        for count in range(len(others) + 1)
        for some in combinations(others, count)
        if starts_without(scenario, some)
    ]
    assert ("g" in result.placed()) == (() in enough)
    if not enough or () in enough:
        return
    found = named(result.verdict("g"))
    if len(enough[0]) <= 2:
        assert len(found) == len(enough[0])
    assert not found or starts_without(scenario, tuple(found))
