"""What the observer records, when a run is over, and the figures of a run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.harness.figures import Spread, figures, percentile, spread, why_not_finished
from bench.harness.observation import QUIET_S, RUNNING_WAIT_S, Observation, Record
from bench.harness.workloads import Until
from tests.bench.builders import WORKER, line, workload

PODS = [
    "gang-00000-worker-00000",
    "gang-00000-worker-00001",
    "gang-00001-worker-00000",
    "gang-00001-worker-00001",
]


def recorded(*lines: tuple[float, object], until: Until = Until.BOUND) -> Record:
    record = Record(expected=len(PODS), until=until)
    for name in PODS:
        record.note(line("ADDED", name), now=10.0)
    for at, each in lines:
        record.note(each, now=at)  # type: ignore[arg-type]
    return record


def bound(name: str, node: str = "node-00000") -> object:
    return line("MODIFIED", name, node=node)


def test_all_pods_are_created_when_the_last_one_was_seen() -> None:
    record = Record(expected=2, until=Until.BOUND)
    record.note(line("ADDED", PODS[0]), now=1.0)
    record.note(line("MODIFIED", PODS[0]), now=2.0)
    assert not record.all_created
    record.note(line("ADDED", PODS[1]), now=3.0)
    assert record.all_created


def test_a_run_is_over_when_every_pod_is_bound() -> None:
    record = recorded(*((11.0, bound(name)) for name in PODS[:3]))
    assert not record.is_met(now=99.0)
    record.note(line("MODIFIED", PODS[3], node="node-00001"), now=12.0)
    assert record.is_met(now=12.0)


def test_the_observer_waits_for_bound_pods_to_run() -> None:
    record = recorded(*((12.0, bound(name)) for name in PODS))
    assert not record.is_complete(now=12.0)
    assert record.is_complete(now=12.0 + RUNNING_WAIT_S)
    for name in PODS:
        record.note(line("MODIFIED", name, node="node-00000", phase="Running"), now=12.5)
    assert record.is_complete(now=12.5)


def test_refused_pods_count_as_answers_and_late_binds_restart_the_wait() -> None:
    refusals = [(11.0, line("MODIFIED", name, refused="Unschedulable")) for name in PODS]
    record = recorded(*refusals, until=Until.ANSWERED)
    assert not record.is_met(now=11.0 + QUIET_S / 2)
    assert record.is_met(now=11.0 + QUIET_S)
    record.note(line("MODIFIED", PODS[0], node="node-00000"), now=13.0)
    assert not record.is_met(now=11.0 + QUIET_S)
    assert record.is_met(now=13.0 + QUIET_S)


def test_gated_pods_have_no_answer() -> None:
    refusals = [(11.0, line("MODIFIED", name, refused="SchedulingGated")) for name in PODS]
    assert not recorded(*refusals, until=Until.ANSWERED).is_met(now=99.0)


def test_the_first_observation_of_a_state_counts() -> None:
    record = recorded((11.0, bound(PODS[0])), (12.0, bound(PODS[0])))
    assert (record.pods[0].created, record.pods[0].bound) == (10.0, 11.0)


def test_figures_of_a_run() -> None:
    lines = [(10.5, bound(PODS[0])), (11.0, bound(PODS[1])), (11.5, bound(PODS[2])), (12.0, bound(PODS[3]))]
    found = figures(workload(), Observation(recorded(*lines).pods), started_at=10.0)
    assert (found.first_bind_s, found.last_bind_s) == (0.5, 2.0)
    assert (found.pods_per_s, found.rate_per_s) == (2.0, 2.0)
    assert (found.latency_p50_ms, found.latency_p99_ms) == (1000.0, 2000.0)
    assert (found.whole_gangs, found.pods_in_partial_gangs, found.overcommitted_nodes) == (2, 0, 0)
    # one core of eight for half a second each, then two, three: 0 + 1 + 2 + 3 halves of 8 x 2 core seconds
    assert found.mean_occupancy == pytest.approx(3 / 16)
    assert found.curve[0][1:] == (0, 0.0)
    assert found.curve[-1] == (2.0, 4, 0.5)


def test_pods_of_partial_gangs_are_counted() -> None:
    lines = [(11.0, bound(PODS[0])), (11.0, bound(PODS[1])), (11.0, bound(PODS[2]))]
    seen = recorded(*lines, (12.0, line("MODIFIED", PODS[3], refused="Unschedulable")))
    found = figures(workload(), Observation(seen.pods), started_at=10.0)
    assert (found.bound, found.whole_gangs, found.pods_in_partial_gangs, found.refused) == (3, 1, 1, 1)
    assert found.last_refusal_s == 2.0


def test_gangs_outside_their_level_are_counted() -> None:
    asked = workload(
        nodes={"count": 4, "rack": 2, "spine": 4}, gangs=[{"count": 2, "level": "rack", "roles": [WORKER]}]
    )
    where = zip(PODS, ("node-00000", "node-00001", "node-00001", "node-00002"), strict=True)
    seen = recorded(*((11.0, bound(name, node)) for name, node in where))
    assert figures(asked, Observation(seen.pods), started_at=10.0).torn_gangs == 1


def test_overcommitted_nodes_are_counted_unless_pods_end_in_time() -> None:
    asked = workload(nodes={"count": 2, "cores": 2})
    lines = [(11.0, bound(PODS[0])), (11.0, bound(PODS[1]))]
    third = (13.0, bound(PODS[2]))
    ends = (13.0, line("MODIFIED", PODS[0], node="node-00000", phase="Succeeded"))
    for added, expected in (([third], 1), ([ends, third], 0)):
        seen = Observation(recorded(*lines, *added).pods)
        assert figures(asked, seen, started_at=10.0).overcommitted_nodes == expected


def test_simultaneous_binds_have_no_rate() -> None:
    seen = Observation(recorded(*((12.0 + i / 100, bound(name)) for i, name in enumerate(PODS))).pods)
    found = figures(workload(), seen, started_at=10.0)
    assert found.rate_per_s is None
    assert found.pods_per_s == pytest.approx(4 / 2.03, abs=0.1)


def test_a_run_without_binds_has_no_figures() -> None:
    found = figures(workload(), Observation(recorded().pods), started_at=10.0)
    assert (found.bound, found.last_bind_s, found.rate_per_s, found.latency_p99_ms) == (0, None, None, None)
    assert found.curve == []


def test_the_reason_of_an_unfinished_run() -> None:
    seen = Observation(recorded((11.0, bound(PODS[0])), (11.0, line("MODIFIED", PODS[1], refused="No"))).pods)
    asked, answered = workload(limitSeconds=60), workload(limitSeconds=60, until="answered")
    assert why_not_finished(asked, seen, is_met=True, has_ended=True) == ""
    reason = why_not_finished(asked, seen, is_met=False, has_ended=False)
    assert reason == "not finished in 60 s: 1 of 4 pods bound"
    reason = why_not_finished(answered, seen, is_met=False, has_ended=True)
    assert reason == "the scheduler ended: 1 of 4 pods bound, 1 refused"


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=300), st.integers(1, 100))
def test_percentiles_use_the_nearest_rank(values: list[int], percent: int) -> None:
    found = percentile(values, percent)
    enough = [v for v in values if 100 * sum(other <= v for other in values) >= percent * len(values)]
    assert found == min(enough)


def test_a_spread_needs_a_value_of_every_run() -> None:
    assert spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert spread([1.0, 4.0]) == Spread(2.5, 1.0, 4.0)
    assert spread([1.0, None]) is None
    assert spread([]) is None
    assert percentile([], 50) is None
