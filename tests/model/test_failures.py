"""Why and when a pod failed, read from its status."""

from typing import Any

import pytest
from phalanx.model.conversion.pods import read_pod
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.pod_failures import FailedContainer, PodFailure
from phalanx.model.pods import Pod
from phalanx_simulator.embedded.apiserver.objects import rfc3339

from tests.model.written import pod

Status = dict[str, Any]


def read(status: Status, **meta: Any) -> Pod:
    return read_pod(pod(status=status, meta=meta), shapes=ShapeCache(), classes={})


def ended(code: int, reason: str = "", at: str | None = None) -> list[Status]:
    return [{"name": "main", "state": {"terminated": {"exitCode": code, "reason": reason, "finishedAt": at}}}]


def disrupted(reason: str) -> Status:
    return {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]}


DECIDED = ("PreemptionByScheduler", "EvictionByEvictionAPI", "Preempted", "GangRestarted", "Consolidated")
CLEARED = ("DeletionByTaintManager", "DeletionByPodGC", "MemberReplaced")
OWN_STORAGE = (
    'Usage of EmptyDir volume "scratch" exceeds the limit "1Gi". ',
    'Container main exceeded its local ephemeral storage limit "1Gi". ',
    "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
)
SHORT = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 40Mi. "
USED_MORE = "Container main was using 9Gi, request is 1Gi, has larger consumption of memory. "
ILL_DEVICES = "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices gpu"
TAKEN_DEVICES = (
    "Allocate failed due to requested number of devices unavailable for gpu. Requested: 2, Available: 1"
)


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        ({"reason": "OutOfcpu"}, PodFailure.REJECTED),
        ({"reason": "OutOfnvidia.com/gpu"}, PodFailure.REJECTED),
        ({"reason": "NodeAffinity"}, PodFailure.REJECTED),
        ({"reason": "UnexpectedAdmissionError"}, PodFailure.NOT_PREPARED),
        ({"reason": "UnexpectedAdmissionError", "message": ILL_DEVICES}, PodFailure.NOT_PREPARED),
        ({"reason": "UnexpectedAdmissionError", "message": TAKEN_DEVICES}, PodFailure.REJECTED),
        ({"reason": "NodeLost"}, PodFailure.NODE_LOST),
        ({"reason": "Terminated"}, PodFailure.NODE_LOST),
        ({"containerStatuses": ended(137, "NodeShutdown")}, PodFailure.NODE_LOST),
        (disrupted("TerminationByKubelet"), PodFailure.NODE_LOST),
        ({**disrupted("TerminationByKubelet"), "reason": "Evicted", "message": SHORT}, PodFailure.NODE_LOST),
        (
            {**disrupted("TerminationByKubelet"), "reason": "Evicted", "message": SHORT + USED_MORE},
            PodFailure.CONTAINER,
        ),
        ({**disrupted("TerminationByKubelet"), "reason": "Preempting"}, PodFailure.DISRUPTED),
        ({"reason": "Evicted"}, PodFailure.NODE_LOST),
        *[({"reason": "Evicted", "message": text}, PodFailure.CONTAINER) for text in OWN_STORAGE],
        *[(disrupted(reason), PodFailure.DISRUPTED) for reason in ("", *DECIDED)],
        *[(disrupted(reason), PodFailure.NODE_CLEARED) for reason in CLEARED],
        ({**disrupted("Preempted"), "containerStatuses": ended(137, "Error")}, PodFailure.DISRUPTED),
        ({"initContainerStatuses": ended(1, "Error")}, PodFailure.INIT_CONTAINER),
        ({"initContainerStatuses": ended(0), "containerStatuses": ended(1)}, PodFailure.CONTAINER),
        ({"reason": "DeadlineExceeded"}, PodFailure.CONTAINER),
        ({}, PodFailure.CONTAINER),
    ],
)
def test_kinds_of_failure(status: Status, failure: PodFailure) -> None:
    assert read({"phase": "Failed", **status}).failure is failure
    assert read({"phase": "Running", **status}).failure is None
    assert failure.is_of_node is (failure in (PodFailure.NODE_LOST, PodFailure.NOT_PREPARED))


def test_the_container_that_failed() -> None:
    status = {"initContainerStatuses": [*ended(0), {**ended(3)[0], "name": "preflight"}]}
    assert read({"phase": "Failed", **status}).failed == FailedContainer("preflight", 3, is_init=True)
    assert read({"phase": "Running", **status}).failed is None
    killed = {"containerStatuses": [{**ended(0)[0], "name": "log"}, {**ended(137)[0], "name": "main"}]}
    assert str(read({"phase": "Failed", **killed}).failed) == "container main ended with exit code 137"


def test_when_a_pod_ended() -> None:
    assert read({"phase": "Failed", "containerStatuses": ended(1, at="1970-01-01T00:01:40Z")}).ended == 100
    assert read({"phase": "Failed", "reason": "OutOfcpu"}).ended == 0
    assert read({"phase": "Running", "containerStatuses": ended(1, at="1970-01-01T00:01:40Z")}).ended == 0


@pytest.mark.parametrize("off_s", [-300, 0, 300])
def test_the_end_of_a_pod_is_corrected_for_the_clock_of_its_node(off_s: int) -> None:
    """The API server bound it at 1100. The kubelet accepted it a second later, and it ended after 60 s."""
    assert read(failed(bound=1100, accepted=1101 + off_s, ended=1161 + off_s)).ended == 1160


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ({"accepted": 1101, "ended": 1161}, 1161),
        ({"bound": 1100, "ended": 1161}, 1161),
        ({"bound": 1100, "accepted": 1101}, 0),
        ({"bound": 1100, "accepted": 1400, "ended": 1161}, 1100),
    ],
)
def test_the_end_of_a_pod_with_incomplete_times(times: dict[str, int], found: int) -> None:
    """When the clock of the node was set back meanwhile, the end is the time of the bind."""
    assert read(failed(**times)).ended == found


def failed(*, bound: int = 0, accepted: int = 0, ended: int = 0) -> Status:
    """The status of a failed pod; times in seconds since the epoch."""
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": rfc3339(bound * 1000)}
    terminated = {"exitCode": 1, "finishedAt": rfc3339(ended * 1000)}
    return {
        "phase": "Failed",
        "conditions": [{"type": "Ready", "status": "False"}, *([scheduled] if bound else [])],
        "startTime": rfc3339(accepted * 1000) if accepted else None,
        "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}] if ended else [],
    }


def test_the_disruption_target_condition_is_read() -> None:
    target = {"type": "DisruptionTarget", "reason": "GangRestarted", "lastTransitionTime": rfc3339(100_000)}
    found = read({"phase": "Running", "conditions": [{**target, "status": "True"}]})
    assert (found.disruption, found.disrupted) == ("GangRestarted", 100)
    found = read({"phase": "Running", "conditions": [{**target, "status": "False"}]})
    assert (found.disruption, found.disrupted) == ("", 0)


def test_deletion_started_one_grace_period_before_the_deletion_timestamp() -> None:
    deletion = {"deletionTimestamp": "1970-01-01T00:01:40Z", "deletionGracePeriodSeconds": 30}
    found = read({"phase": "Running"}, **deletion)
    assert (found.ended, found.grace) == (70, 30)


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
