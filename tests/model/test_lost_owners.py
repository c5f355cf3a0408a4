"""Pods and Jobs whose owner was deleted without them: nothing says any more how many start together."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.model.gangs import Gang
from phalanx.model.reasons import Reason

from tests.examples import holds
from tests.model.gangs_of_workloads import gangs_of
from tests.model.written import (
    JOB_SET_VERSION,
    controlled_by,
    job,
    job_set,
    label,
    pod,
    pod_group,
    pod_of_job,
    replicated_job,
)

MADE = {
    "batch.kubernetes.io/controller-uid": "uid-j",
    "jobset.sigs.k8s.io/replicatedjob-name": "workers",
    "ray.io/group": "workers",
    "training.kubeflow.org/replica-type": "worker",
    "training.kubeflow.org/job-role": "worker",
    "leaderworkerset.sigs.k8s.io/worker-index": "1",
}
OTHER = {"spark-role": "executor", "app": "a", "batch.kubernetes.io/job-name": "j"}
OWNERS: dict[str, Any] = {
    "none": {},
    "a kind that is not read": controlled_by("wf", kind="Workflow", api_version="argoproj.io/v1alpha1"),
    "no controller": {
        "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "s", "uid": "uid-s"}]
    },
}


def reasons(gang: Gang) -> set[str]:
    return {problem.reason for problem in gang.problems}


@holds(100)
@given(
    labels=st.dictionaries(st.sampled_from(sorted({**MADE, **OTHER})), st.just("x"), max_size=3),
    owner=st.sampled_from(sorted(OWNERS)),
    is_grouped=st.booleans(),
)
def test_a_pod_that_a_controller_made_waits_without_an_owner(
    labels: dict[str, str], owner: str, is_grouped: bool
) -> None:
    """A PodGroup says how many start together. So may owners that are not read."""
    more = {label("pod-group"): "g"} if is_grouped else {}
    (gang,) = gangs_of(pod_group("g"), pod("p", labels={**labels, **more}, meta=OWNERS[owner]))
    is_lost = owner == "none" and not is_grouped and not MADE.keys().isdisjoint(labels)
    assert reasons(gang) == ({Reason.WORKLOAD_NOT_FOUND} if is_lost else set())


def test_a_job_with_the_labels_of_its_own_pods_has_lost_nothing() -> None:
    """The API server gives the labels of the template to a Job that has none."""
    labels = {"batch.kubernetes.io/controller-uid": "uid-j", "batch.kubernetes.io/job-name": "j"}
    (gang,) = gangs_of(job("j", meta={"labels": labels}), pod_of_job("j", 0))
    assert gang.problems == ()


@pytest.mark.parametrize(
    ("owner", "status", "waits"),
    [
        ({"name": "js", "kind": "JobSet", "api_version": JOB_SET_VERSION}, {}, False),
        (None, {}, True),
        (None, {"failed": 1}, False),
    ],
)
def test_a_job_of_a_job_set_that_is_gone_does_not_start_alone(
    owner: dict[str, str] | None, status: dict[str, Any], waits: bool
) -> None:
    """One that has run goes on: its pods are replaced."""
    of_set = {"labels": {"jobset.sigs.k8s.io/replicatedjob-name": "workers"}}
    objects = [
        job_set("js", replicated_job("workers")),
        job(
            "js-workers-0",
            owner=owner,
            status=status,
            meta={**of_set, **(controlled_by(**owner) if owner else {})},
        ),
        pod_of_job("js-workers-0", 0, role="workers"),
    ]
    (gang,) = gangs_of(*objects)
    assert reasons(gang) == ({Reason.WORKLOAD_NOT_FOUND} if waits else set())
