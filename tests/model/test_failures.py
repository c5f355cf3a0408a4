"""Why a pod failed, and when, told from its status."""

from typing import Any

import pytest

from phalanx.model.pods import Pod, PodFailure
from phalanx.model.reading.pods import read_pod
from phalanx.model.reading.shapes import Shapes
from tests.model.written import pod

Status = dict[str, Any]


def read(status: Status, **meta: Any) -> Pod:
    return read_pod(pod(status=status, meta=meta), shapes=Shapes(), classes={})


def ended(code: int, reason: str = "", at: str | None = None) -> list[Status]:
    return [{"name": "main", "state": {"terminated": {"exitCode": code, "reason": reason, "finishedAt": at}}}]


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        ({"reason": "OutOfcpu"}, PodFailure.REJECTED),
        ({"reason": "OutOfnvidia.com/gpu"}, PodFailure.REJECTED),
        ({"reason": "UnexpectedAdmissionError"}, PodFailure.REJECTED),
        ({"reason": "NodeLost"}, PodFailure.NODE_LOST),
        ({"reason": "Terminated"}, PodFailure.NODE_LOST),
        ({"containerStatuses": ended(137, "NodeShutdown")}, PodFailure.NODE_LOST),
        ({"conditions": [{"type": "DisruptionTarget", "status": "True"}]}, PodFailure.NODE_LOST),
        ({"initContainerStatuses": ended(1, "Error")}, PodFailure.INIT_CONTAINER),
        ({"initContainerStatuses": ended(0), "containerStatuses": ended(1)}, PodFailure.CONTAINER),
        ({"reason": "DeadlineExceeded"}, PodFailure.CONTAINER),
        ({}, PodFailure.CONTAINER),
    ],
)
def test_kinds_of_failure(status: Status, failure: PodFailure) -> None:
    assert read({"phase": "Failed", **status}).failure is failure
    assert read({"phase": "Running", **status}).failure is None
    assert failure.is_of_infrastructure is (failure is not PodFailure.CONTAINER)


def test_when_a_pod_ended() -> None:
    assert read({"phase": "Failed", "containerStatuses": ended(1, at="1970-01-01T00:01:40Z")}).ended == 100
    assert read({"phase": "Failed", "reason": "OutOfcpu"}).ended == 0
    assert read({"phase": "Running", "containerStatuses": ended(1, at="1970-01-01T00:01:40Z")}).ended == 0


def test_deletion_began_a_grace_before_its_timestamp() -> None:
    deletion = {"deletionTimestamp": "1970-01-01T00:01:40Z", "deletionGracePeriodSeconds": 30}
    assert read({"phase": "Running"}, **deletion).ended == 70


@pytest.mark.parametrize(
    ("status", "ran"),
    [
        (
            {"startTime": "1970-01-01T00:01:00Z", "containerStatuses": ended(0, at="1970-01-01T00:03:00Z")},
            (60, 180),
        ),
        ({"containerStatuses": ended(0, at="1970-01-01T00:03:00Z")}, None),
        ({"startTime": "1970-01-01T00:01:00Z"}, None),
        (
            {"startTime": "1970-01-01T00:09:00Z", "containerStatuses": ended(0, at="1970-01-01T00:03:00Z")},
            None,
        ),
    ],
)
def test_how_long_a_pod_ran(status: Status, ran: tuple[int, int] | None) -> None:
    assert read({"phase": "Succeeded", **status}).ran == ran
    for phase in ("Running", "Failed"):
        assert read({"phase": phase, **status}).ran is None
