"""MPI jobs of a launcher and workers, two of which fit, and a part of the third."""

import pytest

from bench.published.mpi import Launched, MpiJobs
from bench.published.places import OURS, POD_BY_POD, simulated


@pytest.mark.parametrize("launched", ["with the workers", "after the workers"])
def test_no_launcher_starts_without_its_workers_and_all_jobs_finish(launched: Launched) -> None:
    """Also if the launcher's pod is created only when the workers run: its core is reserved."""
    played = simulated(MpiJobs(launched), OURS)
    assert played.wrong == ()
    assert played.figures["jobs finished"] == "3 of 3"


def test_pod_by_pod_a_launcher_starts_in_vain() -> None:
    played = simulated(MpiJobs("with the workers"), POD_BY_POD)
    assert played.figures["jobs finished"] == "3 of 3"
    assert played.wrong == ("3 failed starts of launchers",)


def test_pod_by_pod_workers_leave_no_core_for_later_launchers() -> None:
    played = simulated(MpiJobs("after the workers"), POD_BY_POD)
    assert played.wrong == ("only 0 of 3 jobs finished",)
    assert played.figures["cores held by jobs that never work"] == 24
