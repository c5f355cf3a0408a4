"""Jobs that may be started with fewer pods: their minimum, and what of the annotations counts."""

from typing import Any

import pytest
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.conversion.workloads import read_workload
from phalanx.model.gangs import GangKind
from phalanx.model.reasons import Reason
from phalanx.model.workloads.known import WORKLOADS

from tests.model.gangs_of_workloads import gang_of, minimums
from tests.model.written import (
    JOB_SET_VERSION,
    controlled_by,
    job,
    job_set,
    label,
    pod,
    pod_of_job,
    replicated_job,
)

RUNS = {"status": {"phase": "Running", "startTime": "2026-11-01T10:00:00Z"}, "nodeName": "n"}
SUCCEEDED = {"status": {"phase": "Succeeded"}, "nodeName": "n"}
WAITS: dict[str, Any] = {}


def smaller_job(minimum: str, *, full: str = "", **rest: Any) -> WorkloadObject:
    annotations = {label("min-parallelism"): minimum, **({label("full-parallelism"): full} if full else {})}
    return job("train", meta={"annotations": annotations, "resourceVersion": "7"}, **rest)


@pytest.mark.parametrize(
    ("minimum", "counts", "pods", "needed", "started"),
    [
        ("2", {"parallelism": 4, "completions": 4}, [WAITS] * 4, 2, False),
        ("2", {"parallelism": 4, "completions": 4}, [RUNS] * 2 + [WAITS] * 2, 2, True),
        ("2", {"parallelism": 4, "completions": 4}, [RUNS] + [WAITS] * 3, 2, False),
        ("2", {"parallelism": 4}, [WAITS] * 4, 2, False),
        ("9", {"parallelism": 4, "completions": 9}, [WAITS] * 4, 4, False),
        ("3", {"parallelism": 4, "completions": 2}, [WAITS] * 2, 2, False),
        # Succeeded pods are members too, and the minimum counts them.
        ("2", {"parallelism": 4, "completions": 9}, [SUCCEEDED] * 3 + [RUNS] * 2, 5, True),
        ("2", {"parallelism": 4, "completions": 4}, [SUCCEEDED] * 3 + [RUNS], 4, True),
    ],
)
def test_a_job_may_start_with_fewer_pods(
    minimum: str, counts: dict[str, int], pods: list[dict[str, Any]], needed: int, started: bool
) -> None:
    made = [pod_of_job("train", index, **state) for index, state in enumerate(pods)]
    gang = gang_of(smaller_job(minimum, **counts), *made)
    assert (gang.min_member, gang.started, gang.problems) == (needed, started, ())


@pytest.mark.parametrize("written", ["0", "-1", "", "two", "1.5", "²", "1" * 11])
def test_a_wrong_minimum_is_no_minimum(written: str) -> None:
    gang = gang_of(smaller_job(written, parallelism=4, completions=4), pod_of_job("train", 0))
    (problem,) = gang.problems
    assert (problem.reason, gang.min_member) == (Reason.INVALID_OBJECT, 4)
    assert label("min-parallelism") in problem.message
    assert problem.next_step


def test_what_was_written_is_read_back() -> None:
    read = read_workload(
        WORKLOADS["Job.batch"],
        "phalanx",
        smaller_job("2", full="9", parallelism=4, completions=3, suspend=True, status={"failed": 1}),
    ).partial
    assert read is not None
    assert (read.minimum, read.parallelism, read.pods, read.full) == (2, 4, 3, 9)
    assert (read.suspended, read.has_run, read.version) == (True, True, "7")


def test_the_annotation_counts_only_for_a_job_that_is_a_gang() -> None:
    owner = {"name": "js", "kind": "JobSet", "api_version": JOB_SET_VERSION}
    gang = gang_of(
        job_set("js", replicated_job("w", pods=4)),
        smaller_job("2", parallelism=4, completions=4, owner=owner),
        pod_of_job("train", 0, role="w", job_set_name="js"),
    )
    assert minimums(gang) == {"w": 4}


@pytest.mark.parametrize(("own", "kind"), [("min-member", GangKind.LABEL), ("", GangKind.WORKLOAD)])
def test_the_label_of_the_pods_counts_before_the_annotation(own: str, kind: GangKind) -> None:
    labels = {label(own): "3"} if own else {}
    gang = gang_of(smaller_job("2", parallelism=4), pod("p", labels=labels, meta=controlled_by("train")))
    assert (gang.kind, gang.min_member) == (kind, 3 if own else 2)
