"""Jobs of 2 parameter servers and 4 workers on capacity for one and a half of them."""

import pytest

from bench.published.deadlock import Deadlock, Order
from bench.published.places import OURS, POD_BY_POD, simulated


@pytest.mark.parametrize("order", ["in turn", "job by job"])
@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_all_jobs_finish_one_after_the_other(jobs: int, order: Order) -> None:
    played = simulated(Deadlock(jobs, order), OURS)
    assert played.wrong == ()
    assert played.figures["jobs finished"] == f"{jobs} of {jobs}"
    assert played.figures["pod-seconds of waiting inside a job"] == 0


@pytest.mark.parametrize("jobs", [2, 5])
def test_pod_by_pod_no_job_finishes_if_pods_arrive_in_turn(jobs: int) -> None:
    played = simulated(Deadlock(jobs, "in turn"), POD_BY_POD)
    assert played.figures["jobs finished"] == f"0 of {jobs}"
    assert played.figures["slots held by jobs that never train"] == 9
    assert played.wrong == (f"only 0 of {jobs} jobs finished", "9 pods of incomplete jobs hold slots")
