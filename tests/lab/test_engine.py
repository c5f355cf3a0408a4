"""The engine of the laboratory with the real scheduler, on few jobs with results known by hand."""

from typing import Any

import pytest
from phalanx_simulator.lab.engine.cluster import Pool, QueueSetup, Setup
from phalanx_simulator.lab.engine.jobs import DAY_MS, Job, Window
from phalanx_simulator.lab.engine.outcome import Outcome, Waits, quantiles
from phalanx_simulator.lab.engine.play import GRACE_MS, play
from phalanx_simulator.lab.engine.product import Product
from phalanx_simulator.lab.engine.timeline import TIMELINE_STEPS, TimelineSums

HOUR = 3_600_000


def job(number: int, *, pods: int = 1, gpus: int = 8, at: int = 0, runs: int = 1, **more: Any) -> Job:
    """Times in hours."""
    fields = {"tenant": "a", "is_new": True, "cpu_milli": 1000, **more}
    return Job(
        number=number,
        name=f"j{number}",
        pods=pods,
        gpus=gpus,
        submit_ms=at * HOUR,
        run_ms=runs * HOUR,
        **fields,
    )


def played(*jobs: Job, setup: Setup | None = None, **queues: QueueSetup) -> Outcome:
    """One day on two nodes of eight GPUs."""
    whole = setup or Setup((Pool("n", 2),), queues or {"a": QueueSetup(0, 1)})
    window = Window(0, 1, jobs, 0.0, {})
    return play(window, whole.tenancy, Product(whole), period_ms=1000)


def test_use_waits_and_goodput_of_a_day() -> None:
    found = played(job(0, runs=12), job(1, runs=24), job(2, at=6, runs=12))
    assert found.all_waits == Waits(3, 2 * 3600.0, 6 * 3600.0)
    assert found.wait_quantiles[66:68] == (0.0, 21_600.0)
    assert found.utilisation == 1.0
    assert (found.goodput, found.lost_gpu_hours, found.evictions) == (1.0, 0.0, 0)
    assert found.timeline.held == (16.0,) * TIMELINE_STEPS
    quarter = TIMELINE_STEPS // 4
    assert found.timeline.waiting == (0.0,) * quarter + (8.0,) * quarter + (0.0,) * (2 * quarter)


def test_an_eviction_lowers_goodput_and_counts_for_its_tenant() -> None:
    guaranteed = {"a": QueueSetup(8, 8), "b": QueueSetup(8, 8)}
    found = played(job(0, runs=10), job(1, runs=10), job(2, at=2, runs=1, tenant="b"), **guaranteed)
    lost = 8 * (2 + GRACE_MS / HOUR)
    assert found.evictions == 1
    assert found.lost_gpu_hours == round(lost, 1)
    held = 8 * 21 + lost
    assert found.goodput == pytest.approx(1 - lost / held, abs=0.002)
    assert found.tenants["b"].waits == Waits(1, 30.0, 30.0), "the grace period of the evicted pods"


def test_backfill_of_a_queue_is_played() -> None:
    blocked = (
        job(0, runs=4, limit_s=4 * 3600),
        job(1, pods=2, at=1, limit_s=3600),
        job(2, gpus=1, at=2, limit_s=3600),
        job(3, gpus=1, at=2, runs=9, limit_s=9 * 3600),
    )
    easy = played(*blocked, a=QueueSetup(0, 1, {"backfill": "Easy"}))
    none = played(*blocked, a=QueueSetup(0, 1, {"backfill": "None"}))
    assert easy.waits["9+"].mean_s == 3 * 3600.0
    assert none.waits["9+"].mean_s > 3 * 3600.0, "a job of nine hours takes its node"


def test_a_gang_that_requires_a_rack_does_not_start_across_two() -> None:
    pools, queues = (Pool("n", 2, racks=2),), {"a": QueueSetup(0, 1)}
    wide = job(0, pods=2)
    assert played(wide, setup=Setup(pools, queues)).never_started == 0
    assert played(wide, setup=Setup(pools, queues, topology={"required": "rack"})).never_started == 1


def test_a_job_runs_on_the_models_that_it_accepts() -> None:
    pools = (Pool("x", 1, model="X"), Pool("y", 1, model="Y"))
    setup = Setup(pools, {"a": QueueSetup(0, 1)})
    jobs = (job(0, runs=3, models=("X",)), job(1, at=1, models=("X",)), job(2, at=1, models=("Z",)))
    found = played(*jobs, setup=setup)
    assert found.all_waits == Waits(3, 2400.0, 7200.0), "no node has Z, so that it is not asked for"


def test_a_higher_priority_preempts() -> None:
    running, equal, urgent = job(0, pods=2, runs=2), job(1, pods=2, at=1), job(1, pods=2, at=1, priority=9)
    assert (played(running, equal).evictions, played(running, urgent).evictions) == (0, 1)


def test_jobs_without_gpus_are_a_size_of_their_own() -> None:
    found = played(job(0, gpus=0), job(1))
    assert {size: each.jobs for size, each in found.waits.items()} == {"0": 1, "5-8": 1}


def test_steps_of_a_timeline_are_averages() -> None:
    sums = TimelineSums(DAY_MS)
    sums.add(0, DAY_MS // TIMELINE_STEPS // 2, held=8, waiting=2)
    sums.add(DAY_MS // 2, 5 * DAY_MS, held=4, waiting=0)
    found = sums.timeline()
    assert found.held == (4.0, *(0.0,) * (TIMELINE_STEPS // 2 - 1), *(4.0,) * (TIMELINE_STEPS // 2))
    assert found.waiting[:2] == (1.0, 0.0)


def test_quantiles_are_waits_that_occurred() -> None:
    assert quantiles([]) == ()
    found = quantiles([1000 * each for each in range(1, 201)])
    assert (found[0], found[1], found[50], found[100], len(found)) == (1.0, 2.0, 100.0, 200.0, 101)
