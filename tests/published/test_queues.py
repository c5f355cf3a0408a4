"""Two queues of weights 1 and 3 on four cores."""

from bench.published.places import OURS, POD_BY_POD, simulated
from bench.published.queues import Division, reclaim


def test_both_queues_get_the_cores_of_their_weights() -> None:
    assert simulated(Division(12, 60.0), OURS).wrong == ()


def test_pod_by_pod_the_earlier_queue_gets_all_cores() -> None:
    played = simulated(Division(12, 60.0), POD_BY_POD)
    assert played.figures["share of the cores for the queue of weight 3, in %"] == 0
    assert played.wrong == ("share of 0 %",)


def test_a_queue_gets_its_share_back_and_the_evicted_job_runs_again() -> None:
    played = simulated(reclaim, OURS)
    assert played.wrong == ()
    assert played.figures["cores that the other queue then has"] == 1
    assert played.figures["jobs of the other queue that lost pods"] == 1


def test_pod_by_pod_a_queue_waits_for_the_end_of_a_job() -> None:
    assert "the owner of the share had to wait for the end of a job" in simulated(reclaim, POD_BY_POD).wrong
