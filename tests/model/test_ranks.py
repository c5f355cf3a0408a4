"""Ranks from the labels of workload controllers."""

import pytest
from phalanx.model.conversion.metadata import read_rank

JOB = "batch.kubernetes.io/job-completion-index"
SET = "apps.kubernetes.io/pod-index"
JOBSET = "jobset.sigs.k8s.io/job-global-index"
GROUP = "leaderworkerset.sigs.k8s.io/group-index"
WORKER = "leaderworkerset.sigs.k8s.io/worker-index"


@pytest.mark.parametrize(
    ("labels", "rank"),
    [
        ({}, None),
        ({JOB: "3"}, 3),
        ({SET: "4"}, 4),
        ({"training.kubeflow.org/replica-index": "5"}, 5),
        ({JOB: "nonsense", SET: "4"}, 4),
        ({JOBSET: "2", JOB: "7"}, 2_000_000_007),
        ({JOBSET: "2"}, 2_000_000_000),
    ],
)
def test_ranks_are_read_from_labels(labels: dict[str, str], rank: int | None) -> None:
    assert read_rank(labels) == rank


def test_leader_and_workers_of_a_group_have_consecutive_ranks() -> None:
    """The StatefulSet of the leaders gives a leader the number of its group as pod index."""
    pods = [
        {GROUP: "0", WORKER: "0", SET: "0"},
        {GROUP: "0", WORKER: "1", SET: "1"},
        {GROUP: "1", WORKER: "0", SET: "1"},
        {GROUP: "1", WORKER: "1", SET: "1"},
    ]
    assert [read_rank(labels) for labels in pods] == [0, 1, 10**9, 10**9 + 1]
