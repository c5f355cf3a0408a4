"""Reading pods: all fields besides the shape."""

from typing import Any

import pytest
from phalanx.model.api import core
from phalanx.model.conversion.cluster_objects import PriorityLevel
from phalanx.model.conversion.pods import read_pod
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.pods import Controller, Pod, PodPhase, Scheduled
from phalanx.model.reasons import Reason

from tests.model.written import label, pod

CLASSES = {
    "high": PriorityLevel(1000, "Never"),
    "usual": PriorityLevel(10, is_default=True),
    "other-default": PriorityLevel(20, is_default=True),
}


def read(written: core.Pod, classes: dict[str, PriorityLevel] | None = None) -> Pod:
    return read_pod(written, shapes=ShapeCache(), classes=CLASSES if classes is None else classes)


def test_everything_is_read() -> None:
    found = read(
        pod(
            "worker-3",
            uid="u1",
            owner="j1",
            labels={
                label("pod-group"): "train",
                label("role"): "worker",
                label("queue"): "research",
                "batch.kubernetes.io/job-completion-index": "3",
            },
            meta={"creationTimestamp": "2026-01-01T00:00:10Z", "deletionTimestamp": "2026-01-02T00:00:00Z"},
            nodeName="n1",
            priority=7,
            preemptionPolicy="Never",
            schedulingGates=[{"name": "example.com/hold"}],
            status={
                "phase": "Running",
                "conditions": [
                    {"type": "Ready", "status": "True"},
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "no node fits",
                    },
                ],
            },
        )
    )
    assert (found.uid, found.namespace, found.name) == ("u1", "team", "worker-3")
    assert (found.group, found.role, found.queue, found.index) == ("train", "worker", "research", 3)
    assert (found.node, found.phase, found.deleting, found.gated) == ("n1", PodPhase.RUNNING, True, True)
    assert (found.priority, found.preemption_policy) == (7, "Never")
    assert found.created == 1767225610
    assert found.controller == Controller(kind="Job", name="job-j1", uid="j1")
    assert found.owners == ("j1",)
    assert found.scheduled == Scheduled("False", "Unschedulable", "no node fits")
    assert not found.problems


def test_a_minimal_manifest_is_read() -> None:
    found = read(core.Pod(metadata=pod("p", namespace="a").metadata), {})
    assert found.scheduler_name == "default-scheduler"
    assert (found.phase, found.node, found.created, found.priority) == (PodPhase.PENDING, None, 0, 0)
    assert found.shape.requests == {"pods": 1}


def test_a_pod_without_a_uid_is_identified_by_its_name() -> None:
    meta = {"name": "p", "namespace": "a", "uid": ""}
    assert read(pod(meta=meta)).uid == "Pod/a/p"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"priority": 5, "priorityClassName": "high"}, (5, "PreemptLowerPriority")),
        ({"priority": None, "priorityClassName": "high"}, (1000, "Never")),
        ({"priority": None, "priorityClassName": "high", "preemptionPolicy": "Other"}, (1000, "Other")),
        ({"priority": None}, (10, "PreemptLowerPriority")),
        (
            {"priority": None, "priorityClassName": "system-node-critical"},
            (2000001000, "PreemptLowerPriority"),
        ),
        ({"priority": None, "priorityClassName": "gone"}, (0, "PreemptLowerPriority")),
        ({"priority": -(2**31)}, (-(2**31), "PreemptLowerPriority")),
    ],
)
def test_priority_is_resolved_as_admission_does(spec: dict[str, Any], expected: tuple[int, str]) -> None:
    found = read(pod(**spec))
    assert (found.priority, found.preemption_policy) == expected


@pytest.mark.parametrize(
    ("phase", "expected"),
    [("", PodPhase.PENDING), ("Succeeded", PodPhase.SUCCEEDED), ("Odd", PodPhase.UNKNOWN)],
)
def test_phases(phase: str, expected: PodPhase) -> None:
    assert read(pod(status={"phase": phase})).phase is expected


@pytest.mark.parametrize("value", ["", "x", "-1", "1.5", "１", "9999999999", "1" * 5000])
def test_an_invalid_index_is_ignored(value: str) -> None:
    assert read(pod(labels={"apps.kubernetes.io/pod-index": value})).index is None


@pytest.mark.parametrize(
    ("labels", "owner", "reason", "says"),
    [
        ({label("pod-group"): ""}, "", Reason.INVALID_OBJECT, "is empty"),
        ({label("min-member"): "many"}, "j", Reason.INVALID_OBJECT, "'many'"),
        ({label("min-member"): "0"}, "j", Reason.INVALID_OBJECT, "'0'"),
        ({label("min-member"): "-3"}, "j", Reason.INVALID_OBJECT, "'-3'"),
        ({label("min-member"): "3"}, "", Reason.INCONSISTENT_GANG, "no controller"),
        ({label("min-member"): "3", label("pod-group"): "g"}, "j", Reason.INCONSISTENT_GANG, "both set"),
    ],
)
def test_invalid_labels_are_reported(labels: dict[str, str], owner: str, reason: Reason, says: str) -> None:
    (problem,) = read(pod(labels=labels, owner=owner)).problems
    assert problem.reason is reason
    assert says in problem.message


def test_an_unknown_priority_class_is_a_problem() -> None:
    (problem,) = read(pod(priority=None, priorityClassName="gone")).problems
    assert problem.reason is Reason.INVALID_OBJECT
    assert "spec.priorityClassName" in problem.message


@pytest.mark.parametrize(
    ("policy", "ends"), [("OnFailure", True), ("Never", True), ("Always", False), ("", False)]
)
def test_restart_policy_always_is_recognised(policy: str, ends: bool) -> None:
    assert read(pod(restartPolicy=policy)).restarts_always is not ends
