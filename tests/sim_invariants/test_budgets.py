"""S24 reports violations of a history, and nothing for a similar valid one."""

from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.model.decisions import CycleResult, Evict, EvictionReason
from phalanx_simulator.embedded.manifests import node, pod
from phalanx_simulator.invariants.preemptions import BUDGETS, BudgetsAreRespected

from tests.sim_invariants.stage import Actor, Stage, violations

GUARDED = {"guarded": "yes"}


def budget() -> dict[str, Any]:
    spec = {"minAvailable": 1, "selector": {"matchLabels": GUARDED}}
    metadata = {"name": "guard", "namespace": "default"}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def allow(stage: Stage, count: int) -> None:
    """Set the budget's status as the controller does."""
    stage.status("guard", BUDGETS, disruptionsAllowed=count, observedGeneration=1)


async def guarded(stage: Stage, allowed: int, *, phase: str = "Running") -> Actor:
    """Three pods of a budget, received by the leader."""
    stage.create(node("n1"), budget())
    for number in range(3):
        made = pod(f"a{number}", nodeName="n1")
        made["metadata"]["labels"] = GUARDED
        stage.create(made)
        stage.status(f"a{number}", phase=phase)
    allow(stage, allowed)
    host = await stage.leader()
    await stage.pass_time(4)
    return host


def choose(
    stage: Stage,
    host: Actor,
    *names: str,
    beneficiary: str = "default/other",
    reason: EvictionReason = EvictionReason.PREEMPTED,
) -> None:
    evictions = tuple(
        Evict(stage.uid(name), "default", name, "g", 1, reason, "", beneficiary=beneficiary)  # type: ignore[arg-type]
        for name in names
    )
    host.decided(CycleResult(cycle=1, evictions=evictions))


@pytest.mark.parametrize(("allowed", "expected"), [(2, []), (1, ["S24"]), (0, ["S24"])])
def test_more_evictions_than_a_budget_allows_violate(allowed: int, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        choose(stage, await guarded(stage, allowed), "a0", "a1")

    assert violations(history, BudgetsAreRespected) == expected


@pytest.mark.parametrize(("is_counted", "expected"), [(False, ["S24"]), (True, [])])
def test_a_second_eviction_before_the_status_counts_the_first_violates(
    is_counted: bool, expected: list[str]
) -> None:
    """The status may count the first eviction and allow another one by then."""

    async def history(stage: Stage) -> None:
        host = await guarded(stage, 1)
        choose(stage, host, "a0")
        stage.delete("a0")
        if is_counted:
            allow(stage, 0)
            allow(stage, 1)
        await host.receive()
        await stage.pass_time(4)
        choose(stage, host, "a1")

    assert violations(history, BudgetsAreRespected) == expected


def test_an_eviction_that_is_decided_twice_counts_once() -> None:
    async def history(stage: Stage) -> None:
        host = await guarded(stage, 1)
        choose(stage, host, "a0")
        choose(stage, host, "a0")

    assert violations(history, BudgetsAreRespected) == []


@pytest.mark.parametrize(("ago_s", "expected"), [(1, []), (4, ["S24"])])
def test_a_budget_that_shrank_during_the_cycle_does_not_violate(ago_s: float, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        host = await guarded(stage, 1)
        allow(stage, 0)
        await host.receive()
        await stage.pass_time(ago_s)
        choose(stage, host, "a0")

    assert violations(history, BudgetsAreRespected) == expected


def test_pods_that_do_not_run_do_not_count_for_a_budget() -> None:
    async def history(stage: Stage) -> None:
        choose(stage, await guarded(stage, 0, phase="Pending"), "a0")

    assert violations(history, BudgetsAreRespected) == []


@pytest.mark.parametrize(
    ("reason", "expected"), [(EvictionReason.PREEMPTED, []), (EvictionReason.CONSOLIDATED, ["S24"])]
)
def test_by_default_only_moves_keep_within_budgets(reason: EvictionReason, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        for check in stage.checks._checks:
            check.context = replace(check.context, hard_budgets=False)
        choose(stage, await guarded(stage, 0), "a0", reason=reason)

    assert violations(history, BudgetsAreRespected) == expected


def test_budgets_do_not_apply_to_a_release() -> None:
    async def history(stage: Stage) -> None:
        choose(stage, await guarded(stage, 0), "a0", beneficiary="")

    assert violations(history, BudgetsAreRespected) == []
