"""What runs with queues are made of: drawn by the seed, and of everything there is."""

from typing import Any

import pytest
from phalanx_simulator.embedded.manifests import Manifest
from phalanx_simulator.runs.scenarios import Request, scenario_of
from phalanx_simulator.runs.simulation import Scenario

SEEDS = range(40)


def drawn(seed: int, **options: Any) -> Scenario:
    wanted = {"nodes": 12, "hours": 0.2, "faults": "none", "load": 1.0, "workload": "queues", **options}
    return scenario_of(Request(seed=seed, **wanted), checks=())


@pytest.fixture(scope="module")
def runs() -> list[Scenario]:
    return [drawn(seed) for seed in SEEDS]


def of_kind(run: Scenario, kind: str) -> list[Manifest]:
    made = (*run.cluster, *(one for each in run.submissions for one in each.manifests))
    return [one for one in made if one["kind"] == kind]


def test_a_seed_draws_the_same_and_another_one_something_else() -> None:
    assert drawn(7) == drawn(7)
    assert drawn(7).submissions != drawn(8).submissions


def test_the_plain_workload_is_another_one() -> None:
    assert drawn(7, workload="plain") == drawn(7, workload="plain")
    assert {one["metadata"]["name"] for one in of_kind(drawn(7, workload="plain"), "Queue")} <= {
        f"tenant-{number}" for number in range(4)
    }


@pytest.mark.parametrize(
    "field", ["guarantee", "limit", "cells", "backfill", "reclaim", "parent", "priority"]
)
def test_queues_have_everything(runs: list[Scenario], field: str) -> None:
    having = [run for run in runs if any(field in one["spec"] for one in of_kind(run, "Queue"))]
    assert having
    assert field in ("guarantee", "limit", "parent") or len(having) < len(runs)


@pytest.mark.parametrize(
    "field",
    [
        *(
            "topology",
            "recovery",
            "priorityClassName",
            "preemptionPolicy",
            "disruption",
            "runtime",
            "startBy",
        ),
        *("roles", "startWhen"),
    ],
)
def test_gangs_have_everything(runs: list[Scenario], field: str) -> None:
    specs = [one["spec"] for run in runs for one in of_kind(run, "PodGroup")]
    assert 0 < sum(field in spec for spec in specs) < len(specs)


def test_some_gangs_name_the_topology_of_the_cluster(runs: list[Scenario]) -> None:
    named = []
    for run in runs:
        (known,) = [one["metadata"]["name"] for one in of_kind(run, "Topology")]
        topologies = [one["spec"].get("topology", {}) for one in of_kind(run, "PodGroup")]
        named += [topology.get("name") for topology in topologies]
        assert {topology.get("name", known) for topology in topologies} == {known}
    assert len(set(named)) == 2


def test_some_gangs_can_grow_and_none_needs_more_members_than_its_jobs_make(runs: list[Scenario]) -> None:
    grows = 0
    for run in runs:
        members: dict[str, int] = {}
        for job in of_kind(run, "Job"):
            group = job["spec"]["template"]["metadata"]["labels"]["scheduling.phalanx.dev/pod-group"]
            members[group] = members.get(group, 0) + job["spec"]["completions"]
        for group in of_kind(run, "PodGroup"):
            assert group["spec"]["minMember"] <= members[group["metadata"]["name"]]
            grows += group["spec"]["minMember"] < members[group["metadata"]["name"]]
    assert grows


def test_gangs_wait_in_leaves_and_budgets_guard_some(runs: list[Scenario]) -> None:
    for run in runs:
        queues = of_kind(run, "Queue")
        leaves = {one["metadata"]["name"] for one in queues} - {one["spec"].get("parent") for one in queues}
        assert {one["spec"]["queue"] for one in of_kind(run, "PodGroup")} <= leaves
        assert len(of_kind(run, "PodDisruptionBudget")) == 2


def test_some_move_gangs_and_some_do_not(runs: list[Scenario]) -> None:
    assert len({run.config.actions for run in runs}) == 2
