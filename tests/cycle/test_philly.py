"""The Philly benchmark: its replay and its figures, on weeks with results known by hand."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx_simulator.campaigns.jobs import TraceJob
from phalanx_simulator.lab.engine.cluster import Tenancy
from phalanx_simulator.lab.engine.fairness import fair_shares, jain
from phalanx_simulator.lab.engine.jobs import DAY_MS, Job, Window, busiest, declared_runtime_s
from phalanx_simulator.lab.engine.play import GRACE_MS, Scheduler

from bench.philly.__main__ import played
from bench.philly.replay import phalanx, play
from bench.philly.simple import PodByPod, StrictFifo
from bench.philly.week import Cluster, cluster_for, week_of

HOUR = 3_600_000


def job(number: int, *, pods: int = 1, gpus: int = 8, at: int = 0, runs: int = 1, tenant: str = "a") -> Job:
    """Times in hours."""
    whole = Job(number, f"j{number}", tenant, pods, gpus, at * HOUR, runs * HOUR, is_new=True)
    limit_s = declared_runtime_s(whole.run_ms)
    return replace(whole, limit_s=limit_s, cpu_milli=4000 * gpus, memory_mib=32768 * gpus)


def week(*jobs: Job) -> Window:
    """One day of these jobs."""
    return Window(0, 1, jobs, 0.0, {"a": 1.0, "b": 1.0})


def two_nodes(a: int = 8, b: int = 8) -> Cluster:
    return Cluster(2, {"a": a, "b": b})


EVERY = pytest.mark.parametrize(
    "make",
    [
        StrictFifo,
        lambda cluster: phalanx(cluster, {"backfill": "Easy"}),
        lambda cluster: phalanx(cluster, {"backfill": "None"}),
    ],
)


@EVERY
def test_all_jobs_start_and_no_gpu_is_assigned_twice(make: type[StrictFifo]) -> None:
    jobs = [job(i, pods=1 + i % 2, gpus=1 + 3 * i % 8, at=i // 3, runs=1 + i % 4) for i in range(24)]
    outcome = play(week(*jobs), two_nodes(), make(two_nodes()), period_ms=1000)
    assert outcome.never_started == 0
    assert sum(each.jobs for each in outcome.waits.values()) == len(jobs)


def test_partly_placed_gangs_start_in_the_end() -> None:
    jobs = (job(0, runs=1), job(1, pods=2, gpus=5, at=0), job(2, pods=2, gpus=5, at=0), job(3, at=1))
    outcome = play(week(*jobs), two_nodes(), PodByPod(two_nodes()), period_ms=1)
    assert outcome.never_started == 0


def waits(scheduler: Scheduler, *jobs: Job, cluster: Cluster | None = None) -> dict[str, float]:
    outcome = play(week(*jobs), cluster or two_nodes(), scheduler, period_ms=1)
    return {size: each.mean_s / 3600 for size, each in outcome.waits.items()}


BLOCKED = (job(0, runs=4), job(1, pods=2, at=1, runs=1), job(2, gpus=1, at=2, runs=1))
"""On two nodes the second job waits until the first one has ended; the third one would end before."""


def test_a_strict_fifo_has_no_backfill() -> None:
    assert waits(StrictFifo(two_nodes()), *BLOCKED) == {"5-8": 0.0, "9+": 3.0, "1": 3.0}


def test_a_job_that_ends_before_the_reserved_start_is_backfilled() -> None:
    found = waits(phalanx(two_nodes(), {"backfill": "Easy"}), *BLOCKED)
    assert found == {"5-8": 0.0, "9+": 3.0, "1": 0.0}


def test_pods_of_a_partly_placed_gang_waste_gpu_hours() -> None:
    jobs = (job(0, runs=4), job(1, pods=2, at=1), job(2, at=1))
    whole = play(week(*jobs), two_nodes(), StrictFifo(two_nodes()), period_ms=1)
    torn = play(week(*jobs), two_nodes(), PodByPod(two_nodes()), period_ms=1)
    assert (whole.lost_gpu_hours, torn.lost_gpu_hours) == (0.0, 24.0)


def test_a_reclaimed_job_is_an_eviction_and_loses_its_run() -> None:
    jobs = (job(0, runs=10), job(1, runs=10), job(2, at=2, runs=1, tenant="b"))
    outcome = play(week(*jobs), two_nodes(), phalanx(two_nodes(), {"backfill": "None"}), period_ms=1000)
    assert (outcome.evictions, outcome.never_started) == (1, 0)
    assert outcome.lost_gpu_hours == round(8 * (2 + GRACE_MS / HOUR), 1)
    assert outcome.waits["5-8"].p95_s == pytest.approx(3600, abs=2), "it starts again an hour later"


def test_shares_are_relative_to_the_entitlement() -> None:
    jobs = (job(0, pods=2, runs=24), job(1, pods=2, runs=24, tenant="b"))
    outcome = play(week(*jobs), two_nodes(), StrictFifo(two_nodes()), period_ms=1)
    assert outcome.shares == {"a": 2.0, "b": 0.0}
    assert (outcome.jain, outcome.utilisation) == (0.5, 1.0)


amounts = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=6)


@given(amounts)
def test_entitlements_are_max_min_fair(tenants: list[tuple[int, int]]) -> None:
    wanted = {str(number): want for number, (want, _) in enumerate(tenants)}
    guaranteed = {str(number): kept for number, (_, kept) in enumerate(tenants)}
    gpus = sum(guaranteed.values()) + 7
    weights = {name: max(1, amount) for name, amount in guaranteed.items()}
    given_to = fair_shares(wanted, Tenancy(gpus, guaranteed, weights))
    assert sum(given_to.values()) == pytest.approx(min(gpus, sum(wanted.values())))
    levels = {
        name: (given_to[name] - min(wanted[name], guaranteed[name])) / max(1, guaranteed[name])
        for name in wanted
    }
    hungry = [name for name in wanted if given_to[name] < wanted[name] - 1e-6]
    for name in hungry:
        assert given_to[name] >= guaranteed[name] - 1e-6
        assert levels[name] >= max(levels.values()) - 1e-6, "no tenant gets more than one with unmet demand"


def test_jain() -> None:
    assert jain([]) == jain([0.5, 0.5]) == 1.0
    assert jain([1.0, 0.0, 0.0, 0.0]) == 0.25


def traced(*jobs: tuple[float, float]) -> Sequence[TraceJob]:
    """Jobs on one GPU, by the day of their submission and their run time in days."""
    return [
        TraceJob(f"t{index}", at * 86400, f"q{index % 2}", pods=1, gpus_per_pod=1, run_s=runs * 86400)
        for index, (at, runs) in enumerate(jobs)
    ]


def test_a_week_includes_jobs_that_run_since_before() -> None:
    trace = traced((0, 1), (1, 2.5), (2.5, 1), (3, 9), (4, 1))
    found = week_of(trace, first_day=2, days=2)
    assert [
        (each.name, each.submit_ms / DAY_MS, each.run_ms / DAY_MS, each.is_new) for each in found.jobs
    ] == [
        ("t1", 0, 1.5, False),
        ("t2", 0.5, 1, True),
        ("t3", 1, 9, True),
    ]
    assert found.wanted == (1.5 + 1 + 1) / 2
    assert found.part == {"q0": 3 * 86400.0, "q1": 11.5 * 86400}


def test_the_busiest_days_have_the_most_submitted_work() -> None:
    trace = traced((0, 1), (1, 1), (2.5, 1), (3, 9), (3.1, 1), (4, 1))
    submitted = [int(each.submit_s * 1000) for each in trace]
    assert [busiest(submitted, days) for days in (1, 2, 3)] == [3, 2, 1]


def test_the_cluster_size_follows_from_the_load() -> None:
    trace = traced(*[(0, 1)] * 38)
    found = week_of(trace, first_day=0, days=1)
    assert (cluster_for(found, 95).nodes, cluster_for(found, 110).nodes) == (5, 5)
    assert cluster_for(found, 80).guarantees == {"q0": 24, "q1": 24}


def test_users_name_round_run_times() -> None:
    assert [declared_runtime_s(ms) for ms in (1, 900_000, 900_001, 61 * DAY_MS)] == [
        900,
        900,
        3600,
        61 * 86400,
    ]


def test_finished_runs_are_not_played_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    few = week(job(0, at=0), job(1, at=25))
    first = list(played(few, period_s=60, jobs=1, finished=tmp_path))
    assert "1 of 1 days" in capfd.readouterr().err
    assert list(played(few, period_s=60, jobs=1, finished=tmp_path)) == first
    assert not capfd.readouterr().err
    other = week(job(0, at=0), job(1, at=26))
    list(played(other, period_s=60, jobs=1, finished=tmp_path))
    assert "1 of 1 days" in capfd.readouterr().err
