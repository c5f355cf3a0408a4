"""A placed gang whose devices are being prepared ends for a gang that may evict it. Nothing is deleted."""

from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.framework.retry import EVICTION_CHECK_MS
from phalanx.model.api.pod_groups import Disruption
from phalanx.model.pods import PodPhase
from phalanx.model.resources import GPU

from tests.builders import Decided, Scenario

AWAITS: dict[str, Any] = {"assumed": True, "awaits_devices": True, "phase": PodPhase.PENDING}
ASSUMED: dict[str, Any] = {"assumed": True, "phase": PodPhase.PENDING}
RUNS: dict[str, Any] = {"assumed": False, "awaits_devices": False, "phase": PodPhase.RUNNING}
WAITS: dict[str, Any] = {**RUNS, "node": None, "phase": PodPhase.PENDING}


def state(scenario: Scenario, gang: str, *states: dict[str, Any]) -> Scenario:
    """Set the states of the members of a gang, in their order."""
    pods = zip(scenario.members(gang), states, strict=True)
    return scenario.change(gang, members=tuple(replace(pod, **fields) for pod, fields in pods))


def placed(*states: dict[str, Any], minimum: int | None = None, **fields: Any) -> Scenario:
    """A gang of two pods on both nodes, in these states."""
    scenario = Scenario().nodes("n", 2, gpu=4).gang("low", 2, min=minimum, gpu=4, on=["n-0", "n-1"], **fields)
    return state(scenario, "low", *states)


def ended(decided: Decided) -> tuple[list[str], list[str]]:
    """The pods whose placements end, and those that are evicted."""
    return sorted(each.name for each in decided.result.withdrawn), sorted(decided.evicted())


BOTH = ["low-0", "low-1"]


@pytest.mark.parametrize(
    ("states", "priority", "withdrawn", "evicted"),
    [
        pytest.param((AWAITS, AWAITS), 10, BOTH, [], id="as a whole"),
        pytest.param((AWAITS, AWAITS), 0, [], [], id="not for the same priority"),
        pytest.param((ASSUMED, ASSUMED), 10, [], [], id="binds may be sent"),
        pytest.param((AWAITS, ASSUMED), 10, [], [], id="the bind of one may be sent"),
        pytest.param((AWAITS, RUNS), 10, [], [], id="one runs"),
        pytest.param((RUNS, RUNS), 10, [], BOTH, id="all run"),
    ],
)
@pytest.mark.parametrize("minimum", [1, 2])
def test_a_gang_that_waits_for_devices_ends_as_a_whole(
    states: tuple[dict[str, Any], ...], priority: int, withdrawn: list[str], evicted: list[str], minimum: int
) -> None:
    scenario = placed(*states, minimum=minimum).gang("high", 2, gpu=4, priority=priority)
    assert ended(scenario.decide()) == (withdrawn, evicted)


@pytest.mark.parametrize(("guarantee", "withdrawn"), [(0, []), (8, BOTH)])
def test_a_queue_gets_its_guarantee_from_a_gang_that_waits_for_devices(
    guarantee: int, withdrawn: list[str]
) -> None:
    scenario = placed(AWAITS, AWAITS, queue="a").queue("a").queue("b", guarantee={GPU: guarantee})
    assert ended(scenario.gang("due", 2, gpu=4, queue="b").decide()) == (withdrawn, [])


def test_a_gang_that_is_not_preemptible_keeps_its_devices() -> None:
    scenario = placed(AWAITS, AWAITS, disruption=Disruption(preemptible=False))
    assert ended(scenario.gang("high", 2, gpu=4, priority=10).decide()) == ([], [])


@pytest.mark.parametrize(("priority", "withdrawn", "evicted"), [(0, BOTH[:1], []), (5, [], ["runs-0"])])
def test_it_ends_before_a_running_gang_of_its_priority_is_evicted(
    priority: int, withdrawn: list[str], evicted: list[str]
) -> None:
    scenario = Scenario().nodes("n", 2, gpu=4).gang("low", 1, gpu=4, on=["n-0"], priority=priority)
    state(scenario, "low", AWAITS).gang("runs", 1, gpu=4, on=["n-1"])
    assert ended(scenario.gang("high", 1, gpu=4, priority=10).decide()) == (withdrawn, evicted)


def test_the_other_gang_starts_next() -> None:
    """The gang that has ended does not take its place again."""
    scenario = placed(AWAITS, AWAITS).gang("high", 2, gpu=4, priority=10)
    scenario.take(scenario.decide())
    state(scenario, "low", WAITS, WAITS).capacity_version += 1
    decided = scenario.decide()
    assert decided.placed() == ["high"]
    assert ended(scenario.take(decided).decide()) == ([], [])


@pytest.mark.parametrize(("min_runtime", "evicted"), [("0m", BOTH), ("5m", [])])
def test_a_gang_whose_devices_were_ready_first_is_evicted_later(min_runtime: str, evicted: list[str]) -> None:
    """Its binds were sent before its placement could end. Now its minimum run time protects it."""
    scenario = placed(AWAITS, AWAITS, disruption=Disruption(min_runtime=min_runtime))
    first = scenario.gang("high", 2, gpu=4, priority=10).decide()
    assert ended(first) == (BOTH, [])
    state(scenario.take(first), "low", *[{**RUNS, "bound_since": scenario.now // 1000}] * 2)
    scenario.now += EVICTION_CHECK_MS
    assert ended(scenario.decide()) == ([], evicted)
