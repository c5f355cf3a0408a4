"""When the parallelism of a Job is lowered or restored, by the states of its pods and the verdict on them."""

from typing import Any

import pytest
from msgspec import structs
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.conversion.workload_members import Workload
from phalanx.model.conversion.workloads import read_workload
from phalanx.model.gangs import Gang
from phalanx.model.reasons import Category, Objection, Reason, Verdict
from phalanx.model.workloads.known import WORKLOADS
from phalanx.service.partial_admission import NO_CAPACITY, size_of

from tests.model.written import job, label
from tests.service.members import ASSUMED, BOUND, DELETING, FAILED, GANG, RUNNING, SUCCEEDED, WAITING, gang

PENDING_DELETION = {"deleting": True}
SOON_GONE = {**RUNNING, "disruption": "PreemptionByScheduler"}


def verdict(reason: Reason = Reason.INSUFFICIENT_CAPACITY) -> Verdict:
    return Verdict(gang=GANG, group="team/train", reason=reason, message="needs 2, 1 is free")


def partial_job(*, full: str = "", minimum: str = "2", **rest: Any) -> Workload:
    annotations = {label("min-parallelism"): minimum, **({label("full-parallelism"): full} if full else {})}
    written: WorkloadObject = job(
        "train",
        meta={"annotations": annotations, "resourceVersion": "7"},
        **{"parallelism": 4, "completions": 4, **rest},
    )
    return read_workload(WORKLOADS["Job.batch"], "phalanx", written)


def of(*states: dict[str, object], started: bool = True, **rest: Any) -> Gang:
    return structs.replace(gang(*states), started=started, **rest)


def test_it_is_lowered_to_the_pods_with_nodes() -> None:
    size = size_of(partial_job(), of(RUNNING, BOUND, WAITING, WAITING), verdict())
    assert size is not None
    assert (size.parallelism, size.full, size.version) == (2, 4, "7")
    assert (size.namespace, size.name, size.uid) == ("team", "train", "uid-train")
    assert size.message == "Started with 2 of 4 pods: there is no capacity for the others"


def test_a_job_with_less_left_to_do_than_its_parallelism_is_lowered_too() -> None:
    size = size_of(partial_job(completions=3), of(RUNNING, BOUND, WAITING), verdict())
    assert size is not None
    assert (size.parallelism, size.full) == (2, 4)


@pytest.mark.parametrize(
    ("job_now", "gang_now"),
    [
        (partial_job(), of(RUNNING, BOUND, WAITING, WAITING, started=False)),
        (partial_job(), of(RUNNING, BOUND, WAITING)),
        (partial_job(), of(RUNNING, ASSUMED, WAITING, WAITING)),
        (partial_job(), of(RUNNING, BOUND, DELETING, WAITING)),
        (partial_job(), of(RUNNING, BOUND, SOON_GONE, WAITING)),
        (partial_job(), of(RUNNING, BOUND, FAILED, WAITING, WAITING)),
        (partial_job(), of(RUNNING, BOUND, SUCCEEDED, WAITING, WAITING)),
        (partial_job(), of(RUNNING, WAITING, WAITING, WAITING)),
        (partial_job(), of(RUNNING, BOUND, WAITING, WAITING, PENDING_DELETION)),
        (partial_job(), of(RUNNING, BOUND, RUNNING, RUNNING)),
        (
            partial_job(),
            of(RUNNING, BOUND, WAITING, WAITING, problems=(Objection(Reason.INVALID_OBJECT, "wrong"),)),
        ),
        (partial_job(status={"failed": 1}), of(RUNNING, BOUND, WAITING, WAITING)),
        (partial_job(status={"succeeded": 1}), of(RUNNING, BOUND, WAITING, WAITING)),
        (partial_job(full="9"), of(RUNNING, BOUND, WAITING, WAITING)),
        (partial_job(minimum="x"), of(RUNNING, BOUND, WAITING, WAITING)),
        (partial_job(suspend=True), of(RUNNING, BOUND, WAITING, WAITING)),
    ],
    ids=[
        "not started",
        "pods are being made",
        "a bind is under way",
        "a pod is being deleted",
        "a pod will be deleted",
        "a pod has failed",
        "a pod has succeeded",
        "too few have nodes",
        "a waiting pod is being deleted",
        "all have nodes",
        "the gang is wrong",
        "a failed pod was counted",
        "a succeeded pod was counted",
        "it was lowered before",
        "the annotation is wrong",
        "it is suspended",
    ],
)
def test_it_stays_otherwise(job_now: Workload, gang_now: Gang) -> None:
    assert size_of(job_now, gang_now, verdict()) is None


@pytest.mark.parametrize("reason", sorted(set(Reason) - NO_CAPACITY))
def test_it_stays_as_long_as_capacity_was_not_looked_for(reason: Reason) -> None:
    assert size_of(partial_job(), of(RUNNING, BOUND, WAITING, WAITING), verdict(reason)) is None


def test_no_reason_to_correct_an_object_counts_as_no_capacity() -> None:
    assert not [reason for reason in NO_CAPACITY if reason.category is Category.MISCONFIGURED]


def test_without_a_verdict_it_stays() -> None:
    assert size_of(partial_job(), of(RUNNING, BOUND, WAITING, WAITING), None) is None


def test_without_the_annotation_nothing_is_written() -> None:
    plain = read_workload(WORKLOADS["Job.batch"], "phalanx", job("train", parallelism=4, completions=4))
    assert size_of(plain, of(RUNNING, BOUND, WAITING, WAITING), verdict()) is None


@pytest.mark.parametrize(
    ("job_now", "gang_now", "parallelism"),
    [
        (partial_job(full="9", suspend=True), of(DELETING, DELETING), 9),
        (partial_job(full="9", suspend=True), of(RUNNING, RUNNING), 9),
        (partial_job(full="9", suspend=True, status={"failed": 1}), of(RUNNING), 9),
        (partial_job(full="3", suspend=True), of(RUNNING, RUNNING), 4),
        (partial_job(full="9"), of(WAITING, WAITING, started=False), 9),
        (partial_job(full="9"), of(WAITING, WAITING, started=False, starts_over=True), None),
        (partial_job(full="9"), of(RUNNING, WAITING, started=False), None),
        (partial_job(full="9"), of(WAITING, ASSUMED, started=False), None),
        (partial_job(full="9", status={"failed": 1}), of(WAITING, WAITING, started=False), None),
        (partial_job(full="9"), of(RUNNING, RUNNING), None),
    ],
)
def test_it_is_restored_when_the_job_starts_again(
    job_now: Workload, gang_now: Gang, parallelism: int | None
) -> None:
    size = size_of(job_now, gang_now, verdict())
    assert (None if size is None else (size.parallelism, size.full)) == (
        None if parallelism is None else (parallelism, None)
    )
