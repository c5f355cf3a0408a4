"""Outcomes of a run: restarts and their causes, and the cost of faults compared with the run without
faults."""

from typing import Any, Final

import pytest
from msgspec.structs import replace
from phalanx_simulator.embedded.kubelets.kubelet import FAILS_AFTER_SECONDS
from phalanx_simulator.embedded.manifests import job, node, pod_group
from phalanx_simulator.faults.fault import Fault
from phalanx_simulator.runs.outcomes import Cost, Outcomes
from phalanx_simulator.runs.simulation import Scenario, Submission, Summary, simulate, with_twin
from phalanx_simulator.runs.totals import Adder

EIGHT: Final = {"nvidia.com/gpu": "8"}
ONE: Final = {"nvidia.com/gpu": "1"}
NODES: Final = tuple(f"n{number}" for number in range(3))
RUN_S: Final = 1990.0
"""Long enough that a gang restarted after minutes does not finish before the end of the run."""

pytestmark = pytest.mark.usefixtures("quiet")


def gang(name: str, *, members: int = 2, **annotations: str) -> tuple[dict[str, Any], ...]:
    made = job(name, members=members, group=name, requests=EIGHT, run_s=RUN_S)
    made["spec"]["template"]["metadata"]["annotations"] |= annotations
    return (pod_group(name, min_member=members), made)


def scenario(*faults: Fault, work: tuple[dict[str, Any], ...] | None = None) -> Scenario:
    """A gang of two whole nodes on three, for six minutes of faults and half an hour of rest."""
    return Scenario(
        seed=1,
        seconds=360,
        cluster=tuple(node(name) for name in NODES),
        submissions=(Submission(0.0, work or gang("train")),),
        faults=faults,
    )


def on_all(kind: str, at_s: float, seconds: float = 0.0, **settings: str | int) -> Fault:
    return Fault("F6", kind, at_s, NODES, seconds, settings)


def outcomes(*faults: Fault, work: tuple[dict[str, Any], ...] | None = None) -> Outcomes:
    return simulate(scenario(*faults, work=work)).outcomes


def counts(out: Outcomes) -> tuple[int, int, int, int]:
    return out.gangs_broken, out.gangs_whole_again, out.restarts, out.faults_met


def test_a_restart_is_timed_from_the_beginning_of_its_fault() -> None:
    out = outcomes(on_all("pod-gpu-failure", 60, detect_s=40))
    assert counts(out) == (1, 1, 1, 1)
    assert (out.restarts_per_fault, out.pods_lost, out.pods_lost_by_faults) == (1.0, 2, 2)
    assert out.whole_again_p50_s is not None
    assert out.whole_after_fault_p50_s == pytest.approx(out.whole_again_p50_s + 40, abs=0.01)
    assert sum(out.whole_after_fault.values()) == sum(out.whole_again.values()) == 1


def test_the_time_until_pods_of_a_lost_node_are_deleted_counts_only_after_the_fault() -> None:
    """Kubernetes' own controllers take 350 s, and Jobs wait until the pods are deleted."""
    long = replace(scenario(Fault("F6", "node-lost", 10, NODES[:2], 600.0)), seconds=700)
    out = simulate(long).outcomes
    assert out.restarts == 1
    assert out.whole_again_p50_s is not None
    assert out.whole_after_fault_p50_s is not None
    assert out.whole_after_fault_p50_s > out.whole_again_p50_s + 300


def test_a_fault_without_a_loss_is_met_and_causes_no_restart() -> None:
    out = outcomes(on_all("node-cordon", 60, 60))
    assert counts(out) == (0, 0, 0, 1)
    assert out.restarts_per_fault == 0.0


def test_a_fault_where_no_gang_runs_is_not_met() -> None:
    alone = job("alone", members=1, requests=ONE, run_s=RUN_S)
    out = outcomes(
        on_all("pod-gpu-failure", 60), on_all("node-taint", 60, 60, effect="NoExecute"), work=(alone,)
    )
    assert counts(out) == (0, 0, 0, 0)
    assert out.restarts_per_fault is None
    assert out.pods_lost == out.pods_lost_by_faults >= 1


def test_a_member_that_fails_by_itself_is_not_a_restart() -> None:
    work = gang("train", **{FAILS_AFTER_SECONDS: "200"})
    out = outcomes(on_all("node-cordon", 30, 30), work=work)
    assert out.gangs_broken > out.restarts == 0
    assert out.pods_lost > out.pods_lost_by_faults == 0


def test_the_outcomes_of_many_runs_are_added_up() -> None:
    adder = Adder()
    runs = [simulate(scenario(on_all("pod-gpu-failure", 60, detect_s=each))) for each in (2, 40)]
    for run in reversed(runs):
        adder.add(run)
    totals = adder.totals()
    assert (totals.restarts, totals.faults_met, totals.pods_lost) == (2, 2, 4)
    assert totals.whole_after_fault == {
        **runs[0].outcomes.whole_after_fault,
        **runs[1].outcomes.whole_after_fault,
    }
    assert totals.whole_after_fault_p99_s == 45
    assert totals.violations == ()


def test_without_faults_a_run_is_its_own_twin() -> None:
    calm = scenario()
    summary = with_twin(simulate(calm), calm)
    assert summary.twin == summary.outcomes
    assert summary.cost == Cost(jobs=0, gangs_broken=0, pods_lost=0, gpu_hours_lost=0.0, goodput=0.0)


def test_the_cost_of_faults_is_the_difference_from_the_twin() -> None:
    hit = scenario(on_all("pod-gpu-failure", 300))
    summary = with_twin(simulate(hit), hit)
    assert jobs_of(summary) == (0, 1)
    assert summary.cost is not None
    assert (summary.cost.jobs, summary.cost.gangs_broken, summary.cost.pods_lost) == (1, 1, 2)
    assert summary.cost.gpu_hours_lost == summary.outcomes.gpu_hours_lost == pytest.approx(1.3, abs=0.2)
    assert summary.cost.goodput is not None
    assert summary.cost.goodput > 0.1


def jobs_of(summary: Summary) -> tuple[int, int]:
    assert summary.twin is not None
    return summary.outcomes.jobs_finished, summary.twin.jobs_finished
