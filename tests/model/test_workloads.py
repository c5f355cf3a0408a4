"""Workloads: how many pods of a Job or a JobSet are one gang, in every state of theirs.

The pods have the labels and owners that the real controllers write.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, NotListed, Relisted
from phalanx.model.api.core import Pod
from phalanx.model.api.kinds import DEVICE_KINDS, KINDS, QUEUE_KINDS, READ_KINDS, STORAGE_KINDS, WATCHED_KINDS
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.gangs import GangKind
from phalanx.model.memory import Memory
from phalanx.model.reasons import Reason
from phalanx.model.workloads.known import WORKLOADS
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.model.gangs_of_workloads import gang_of, gangs_of, minimums
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
    workload,
)

RUNNING = {"phase": "Running", "startTime": "2026-11-01T10:00:00Z"}
SUCCEEDED = {"phase": "Succeeded"}
FAILED = {"phase": "Failed"}
WAITING: dict[str, Any] = {}


def pods(name: str, states: Sequence[dict[str, Any]], **rest: Any) -> list[Pod]:
    """Pods of a Job, one in each of these states; all but waiting ones have a node."""
    return [
        pod_of_job(name, index, status=state, **({"nodeName": "n"} if state else {}), **rest)
        for index, state in enumerate(states)
    ]


# --- Job ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "status", "states", "minimum", "started"),
    [
        ({"parallelism": 4, "completions": 4}, {}, [WAITING] * 4, 4, False),
        ({"parallelism": 4, "completions": 4}, {}, [WAITING], 4, False),
        ({"parallelism": 4, "completions": 2}, {}, [WAITING] * 2, 2, False),
        ({"parallelism": 2, "completions": 9}, {}, [WAITING] * 2, 2, False),
        ({}, {}, [WAITING], 1, False),
        ({"parallelism": 3}, {}, [WAITING] * 3, 3, False),
        ({"parallelism": 0}, {}, [WAITING], 1, False),
        ({"parallelism": 4, "completions": 4}, {}, [RUNNING] * 4, 4, True),
        ({"parallelism": 4, "completions": 4}, {}, [RUNNING] * 3 + [WAITING], 4, False),
        ({"parallelism": 4, "completions": 4}, {"failed": 1}, [RUNNING] * 3 + [WAITING], 4, True),
        ({"parallelism": 4, "completions": 9}, {"succeeded": 1}, [SUCCEEDED] + [RUNNING] * 3, 5, True),
        ({"parallelism": 4, "completions": 9}, {}, [SUCCEEDED] * 6 + [RUNNING] * 3, 9, True),
        # A succeeded pod is gone, and one is not counted yet.
        ({"parallelism": 4, "completions": 9}, {"succeeded": 2}, [SUCCEEDED] + [RUNNING] * 3, 5, True),
        ({"parallelism": 4, "completions": 5}, {"succeeded": 2}, [SUCCEEDED] + [RUNNING] * 3, 4, True),
        ({"parallelism": 4, "completions": 9}, {"succeeded": 0}, [SUCCEEDED] * 2 + [RUNNING] * 3, 6, True),
        # Indexes that failed for good are not made again; those that ended may be gone.
        ({"parallelism": 4, "completions": 4}, {"failedIndexes": "0,2-3"}, [FAILED] * 3 + [RUNNING], 1, True),
        ({"parallelism": 4, "completions": 4}, {"failedIndexes": "x,3-1,-"}, [WAITING] * 4, 4, False),
        # A work queue makes no pods after the first one that succeeds.
        ({"parallelism": 3}, {"succeeded": 1}, [SUCCEEDED, RUNNING, FAILED], 2, True),
    ],
)
def test_a_job_is_a_gang(
    spec: dict[str, Any], status: dict[str, Any], states: list[dict[str, Any]], minimum: int, started: bool
) -> None:
    gang = gang_of(job("train", status=status, **spec), *pods("train", states))
    assert (gang.kind, gang.name, str(gang), gang.workload) == (
        GangKind.WORKLOAD,
        "train",
        "team/train",
        "Job.batch",
    )
    assert (gang.min_member, len(gang.members)) == (minimum, len(states))
    assert (gang.started or gang.starts_over) is started
    assert gang.problems == ()


def test_a_job_whose_conditions_say_something_else_has_not_ended() -> None:
    no, other = {"type": "Failed", "status": "False"}, {"type": "Suspended", "status": "True"}
    for found in ([no], [other], [1], None, 1):
        assert gang_of(job("train", status={"conditions": found}), pod_of_job("train", 0)).problems == ()


def test_a_started_job_that_lost_all_pods_starts_as_a_whole() -> None:
    gang = gang_of(
        job("train", parallelism=2, completions=2, status={"failed": 2}), *pods("train", [WAITING] * 2)
    )
    assert (gang.started, gang.starts_over) == (False, True)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"suspend": True}, "Job team/train is suspended"),
        *[
            ({"status": {"conditions": [{"type": of_end, "status": "True"}]}}, "Job team/train has ended")
            for of_end in ("SuccessCriteriaMet", "FailureTarget", "Complete", "Failed")
        ],
        ({"meta": {"deletionTimestamp": "2026-11-01T10:00:00Z"}}, "Job team/train is being deleted"),
    ],
)
def test_pods_that_the_controller_will_delete_do_not_start(change: dict[str, Any], says: str) -> None:
    gang = gang_of(job("train", parallelism=2, **change), *pods("train", [WAITING] * 2))
    (problem,) = gang.problems
    assert problem.reason is Reason.MEMBERS_MISSING
    assert problem.message.startswith(says)
    assert problem.next_step


def test_the_queue_of_a_job_is_that_of_its_label() -> None:
    labels = {label("queue"): "mine"}
    gang = gang_of(
        job("train", meta={"labels": labels}), pod_of_job("train", 0, labels={label("queue"): "other"})
    )
    assert gang.queue == "mine"


# --- which gang ---------------------------------------------------------------------------------------------


def test_a_pod_group_and_the_label_count_before_the_job() -> None:
    both = {label("pod-group"): "g"}
    found = gangs_of(
        job("train", parallelism=4),
        pod_group("g", minMember=2),
        pod_of_job("train", 0, labels=both),
        pod_of_job("train", 1, labels={label("min-member"): "1"}),
        pod_of_job("train", 2, labels={label("min-member"): "1"}),
        pod_of_job("train", 3),
    )
    assert {(gang.kind.value, gang.min_member, len(gang.members)) for gang in found} == {
        ("PodGroup", 2, 1),
        ("Label", 1, 2),
        ("Workload", 4, 1),
    }


@pytest.mark.parametrize(
    "owner",
    [
        controlled_by("sts", kind="StatefulSet", api_version="apps/v1"),
        controlled_by("vj", kind="Job", api_version="batch.volcano.sh/v1alpha1"),
        controlled_by("old", kind="Job", api_version=""),
        {"ownerReferences": [{**controlled_by("train")["ownerReferences"][0], "controller": False}]},
    ],
)
def test_owners_of_other_kinds_change_nothing(owner: dict[str, Any]) -> None:
    gang = gang_of(job("train", parallelism=4), pod("p", meta=owner))
    assert (gang.kind, gang.min_member) == (GangKind.POD, 1)


def test_another_version_of_the_api_is_the_same_owner() -> None:
    gang = gang_of(job("train", parallelism=4), pod("p", meta=controlled_by("train", api_version="batch/v2")))
    assert (gang.kind, gang.min_member) == (GangKind.WORKLOAD, 4)


def test_pods_of_other_schedulers_are_no_members() -> None:
    gang = gang_of(
        job("train", parallelism=2),
        pod_of_job("train", 0),
        pod_of_job("train", 1, schedulerName="default-scheduler"),
    )
    assert [each.name for each in gang.members] == ["train-0"]


def test_ownership_is_by_uid_in_one_namespace() -> None:
    """Neither a label nor the name of a workload makes a pod a member, nor a UID of another namespace."""
    forged = {"batch.kubernetes.io/controller-uid": "uid-train", "job-name": "train"}
    found = gangs_of(
        job("train", parallelism=2),
        pod("labels-only", labels=forged),
        pod("old-job", meta=controlled_by("train", uid="uid-of-a-deleted-job")),
        pod("elsewhere", namespace="other", meta=controlled_by("train")),
    )
    assert {(gang.members[0].name, gang.kind.value, bool(gang.problems)) for gang in found} == {
        ("labels-only", "Pod", True),
        ("old-job", "Workload", True),
        ("elsewhere", "Workload", True),
    }
    assert len({gang.id for gang in found}) == 3


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([], "Job team/train is not known yet: jobs.batch are being listed"),
        ([NotListed("Job.batch", "jobs.batch is forbidden")], "cannot be read: jobs.batch is forbidden"),
        ([Relisted("Job.batch", ())], "Job team/train with the UID uid-train does not exist"),
    ],
)
def test_a_pod_without_a_known_owner_waits_and_says_why(events: list[Any], says: str) -> None:
    cache = Cache(scheduler_name="phalanx")
    changes = cache.apply(Applied(pod_of_job("train", 0)))
    assert changes.workload_kinds == cache.workload_kinds() == ("Job.batch",)
    for event in events:
        assert cache.apply(event).may_unblock
    (gang,) = cache.snapshot(now=0, seed=0, memory=Memory()).gangs.values()
    (problem,) = gang.problems
    assert (problem.reason, str(gang)) == (Reason.WORKLOAD_NOT_FOUND, "team/train")
    assert says in problem.message
    check_cache(cache)


def test_a_pod_that_runs_without_a_known_owner_has_not_started_a_gang() -> None:
    """The gang is judged when its owner is known: a part of it may have been bound before a restart."""
    (gang,) = gangs_of(*pods("train", [RUNNING, WAITING]))
    assert not gang.started


# --- JobSet -------------------------------------------------------------------------------------------------


def jobs_of(name: str, *roles: tuple[str, int, int]) -> list[WorkloadObject]:
    owner = {"name": name, "kind": "JobSet", "api_version": JOB_SET_VERSION}
    return [
        job(f"{name}-{role}-{index}", parallelism=size, completions=size, owner=owner)
        for role, replicas, size in roles
        for index in range(replicas)
    ]


def pods_of(name: str, *roles: tuple[str, int, int], states: Sequence[dict[str, Any]] = ()) -> list[Pod]:
    return [
        each
        for role, replicas, size in roles
        for index in range(replicas)
        for each in pods(f"{name}-{role}-{index}", states or [WAITING] * size, role=role, job_set_name=name)
    ]


SHAPE = (("ps", 1, 1), ("worker", 2, 2))


def replicated(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    changes = changes or ({}, {})
    return [
        replicated_job("ps", **{"pods": 1, **changes[0]}),
        replicated_job("worker", replicas=2, **{"pods": 2, **changes[1]}),
    ]


def test_a_job_set_is_a_gang_with_a_role_for_each_replicated_job() -> None:
    gang = gang_of(job_set("js", *replicated()), *jobs_of("js", *SHAPE), *pods_of("js", *SHAPE))
    assert (gang.kind, str(gang), gang.workload) == (GangKind.WORKLOAD, "team/js", "JobSet.jobset.x-k8s.io")
    assert minimums(gang) == {"ps": 1, "worker": 4}
    assert sorted((each.role, each.name) for each in gang.members) == [
        ("ps", "js-ps-0-0"),
        ("worker", "js-worker-0-0"),
        ("worker", "js-worker-0-1"),
        ("worker", "js-worker-1-0"),
        ("worker", "js-worker-1-1"),
    ]
    assert gang.problems == ()


@pytest.mark.parametrize(
    ("changes", "more", "there", "minimum"),
    [
        (({}, {"dependsOn": [{"name": "ps", "status": "Ready"}]}), {}, ("ps",), {"ps": 1, "worker": 0}),
        (
            ({}, {"dependsOn": [{"name": "ps", "status": "Ready"}]}),
            {},
            ("ps", "worker"),
            {"ps": 1, "worker": 4},
        ),
        (({}, {"dependsOn": []}), {}, ("ps",), {"ps": 1, "worker": 4}),
        (({}, {}), {"startupPolicy": {"startupPolicyOrder": "InOrder"}}, ("ps",), {"ps": 1, "worker": 0}),
        (({}, {}), {"startupPolicy": {"startupPolicyOrder": "AnyOrder"}}, ("ps",), {"ps": 1, "worker": 4}),
        (({"scheduler": "default-scheduler"}, {}), {}, ("worker",), {"ps": 0, "worker": 4}),
        (({"scheduler": ""}, {}), {}, ("ps", "worker"), {"ps": 1, "worker": 4}),
    ],
)
def test_only_roles_that_may_exist_are_waited_for(
    changes: tuple[dict[str, Any], dict[str, Any]],
    more: dict[str, Any],
    there: tuple[str, ...],
    minimum: dict[str, int],
) -> None:
    shape = [role for role in SHAPE if role[0] in there]
    gang = gang_of(
        job_set("js", *replicated(*changes), **more), *jobs_of("js", *SHAPE), *pods_of("js", *shape)
    )
    assert minimums(gang) == minimum


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"labels": {label("pod-group"): "train"}}, {"ps": 0, "worker": 4}),
        ({"annotations": {"scheduling.k8s.io/group-name": "train"}}, {"ps": 0, "worker": 4}),
        ({"labels": {"app": "train"}, "annotations": {"note": "x"}}, {"ps": 1, "worker": 4}),
        ({"labels": "wrong"}, {"ps": 1, "worker": 4}),
    ],
)
def test_a_role_of_a_pod_group_is_not_waited_for(metadata: dict[str, Any], expected: dict[str, int]) -> None:
    """Its pods are in the gang of the PodGroup. The other roles are a gang of their own."""
    roles = replicated()
    roles[0]["template"]["spec"]["template"]["metadata"] = metadata
    workers = ("worker", 2, 2)
    gang = gang_of(job_set("js", *roles), *jobs_of("js", *SHAPE), *pods_of("js", workers))
    assert minimums(gang) == expected


def test_each_job_of_a_role_counts_its_own_completions() -> None:
    """One Job of two has ended its four completions, the other is at its first two of four."""
    owner = {"name": "js", "kind": "JobSet", "api_version": JOB_SET_VERSION}
    jobs = [job(f"js-w-{index}", parallelism=2, completions=4, owner=owner) for index in range(2)]
    many = replicated_job("w", replicas=2, pods=2)
    many["template"]["spec"]["completions"] = 4
    found = gang_of(
        job_set("js", many),
        *jobs,
        *pods("js-w-0", [SUCCEEDED] * 4, role="w", job_set_name="js"),
        *pods("js-w-1", [RUNNING] * 2, role="w", job_set_name="js"),
    )
    assert minimums(found) == {"w": 6}
    assert found.started


def test_a_job_set_has_started_if_one_of_its_jobs_has() -> None:
    owner = {"name": "js", "kind": "JobSet", "api_version": JOB_SET_VERSION}
    jobs = [job("js-w-0", parallelism=2, completions=2, owner=owner, status={"failed": 1})]
    states = pods("js-w-0", [RUNNING, WAITING], role="w", job_set_name="js")
    assert gang_of(job_set("js", replicated_job("w", pods=2)), *jobs, *states).started


def test_a_job_set_that_is_suspended_or_unknown_waits() -> None:
    inside = (*jobs_of("js", *SHAPE), *pods_of("js", *SHAPE))
    suspended = gang_of(job_set("js", *replicated(), suspend=True), *inside)
    assert suspended.problems[0].message.startswith("JobSet team/js is suspended")
    unknown = gang_of(*inside)
    assert (unknown.id, len(unknown.members)) == ("JobSet.jobset.x-k8s.io:team/uid-js", 5)
    assert unknown.problems[0].message == "JobSet team/js with the UID uid-js does not exist"


def test_a_chain_of_owners_stays_in_one_namespace() -> None:
    inside = (job_set("js", *replicated()), *jobs_of("js", *SHAPE))
    gang = gang_of(*inside, pod("p", namespace="other", meta=controlled_by("js-ps-0")))
    assert gang.id == "Job.batch:other/uid-js-ps-0"
    assert gang.problems[0].reason is Reason.WORKLOAD_NOT_FOUND


@pytest.mark.parametrize(("state", "ended"), [("", False), ("Completed", True), ("Failed", True)])
def test_a_job_set_has_ended_in_a_terminal_state(state: str, ended: bool) -> None:
    whole = job_set("js", *replicated(), status={"terminalState": state} if state else {})
    assert bool(gang_of(whole, *jobs_of("js", *SHAPE), *pods_of("js", *SHAPE)).problems) is ended


def test_objects_in_any_order_give_the_same_gang() -> None:
    objects: list[Any] = [job_set("js", *replicated()), *jobs_of("js", *SHAPE), *pods_of("js", *SHAPE)]
    whole = gang_of(*objects)
    assert gang_of(*objects[::-1]) == whole
    assert gang_of(*objects[4:], *objects[:4]) == whole
    assert gang_of(*objects[1:], objects[0]) == whole


def test_numbers_beyond_all_clusters_can_be_recorded() -> None:
    most = 2**31 - 1
    many = [replicated_job(f"r{index}", replicas=most, pods=most) for index in range(4)]
    gang = gang_of(job_set("js", *many), *jobs_of("js", ("r0", 1, 1)), *pods_of("js", ("r0", 1, 1)))
    assert gang.min_member > most
    assert msgspec.msgpack.encode(gang)


def test_owners_that_own_each_other_end_the_chain() -> None:
    first = job("a", owner={"name": "b"}, uid="uid-a")
    second = job("b", owner={"name": "a"}, uid="uid-b")
    assert len(gang_of(first, second, pod_of_job("a", 0)).members) == 1


def test_kinds_of_workloads_are_watched_on_demand_only() -> None:
    assert set(READ_KINDS) - set(WATCHED_KINDS) == {*WORKLOADS, *QUEUE_KINDS, *STORAGE_KINDS, *DEVICE_KINDS}
    assert [KINDS[name].resource for name in WORKLOADS] == [
        "jobs.batch",
        "jobsets.jobset.x-k8s.io",
        "rayclusters.ray.io",
        "rayjobs.ray.io",
        "pytorchjobs.kubeflow.org",
        "tfjobs.kubeflow.org",
        "mpijobs.kubeflow.org",
        "xgboostjobs.kubeflow.org",
        "paddlejobs.kubeflow.org",
        "jaxjobs.kubeflow.org",
        "mpijobs.kubeflow.org",
        "leaderworkersets.leaderworkerset.x-k8s.io",
        "statefulsets.apps",
        "deployments.apps",
        "replicasets.apps",
        "sparkapplications.sparkoperator.k8s.io",
    ]
    cache = Cache(scheduler_name="phalanx")
    other = pod_of_job("train", 1, schedulerName="default-scheduler")
    for unrelated in (other, pod("p"), pod_of_job("t", 0, labels={label("min-member"): "1"})):
        assert cache.apply(Applied(unrelated)).workload_kinds == ()
    assert cache.workload_kinds() == ()


EXCLUSIVE = {"annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}}


@pytest.mark.parametrize(("there", "minimum"), [((1, 0), 2), ((1, 1), 2), ((2, 1), 4), ((3, 3), 6)])
@pytest.mark.parametrize("of_role", [True, False])
def test_with_exclusive_topology_one_pod_of_each_job_comes_first(
    there: tuple[int, int], minimum: int, of_role: bool
) -> None:
    """JobSet's webhook admits the others when the first one has a node."""
    role = replicated_job("w", replicas=2, pods=3)
    if of_role:
        role["template"]["metadata"] = EXCLUSIVE
    found = gang_of(
        job_set("js", role, meta={} if of_role else EXCLUSIVE),
        *jobs_of("js", ("w", 2, 3)),
        *pods("js-w-0", [WAITING] * there[0], role="w", job_set_name="js"),
        *pods("js-w-1", [WAITING] * there[1], role="w", job_set_name="js"),
    )
    assert minimums(found) == {"w": minimum}


# --- Ray ----------------------------------------------------------------------------------------------------

RAY = {"kind": "RayCluster", "api_version": "ray.io/v1"}


def ray_spec(*groups: dict[str, Any], **more: Any) -> dict[str, Any]:
    template = {"spec": {"schedulerName": "phalanx"}}
    workers = [{"rayStartParams": {}, "template": template, **group} for group in groups]
    return {"headGroupSpec": {"template": template}, "workerGroupSpecs": workers, **more}


def ray_pod(name: str, group: str, *, cluster: str = "rc", **rest: Any) -> Pod:
    """A pod with the labels that KubeRay 1.6 writes."""
    is_head = group == "headgroup"
    labels = {
        "ray.io/cluster": cluster,
        "ray.io/group": group,
        "ray.io/is-ray-node": "yes",
        "ray.io/node-type": "head" if is_head else "worker",
    }
    return pod(name, labels=labels, meta=controlled_by(cluster, **RAY), **rest)


SMALL = {"groupName": "small", "replicas": 2, "minReplicas": 1, "maxReplicas": 4, "numOfHosts": 2}


@pytest.mark.parametrize(
    ("group", "more", "minimum"),
    [
        (SMALL, {}, {"headgroup": 1, "small": 4}),
        (SMALL, {"enableInTreeAutoscaling": True}, {"headgroup": 1, "small": 2}),
        (SMALL, {"enableInTreeAutoscaling": False}, {"headgroup": 1, "small": 4}),
        ({**SMALL, "replicas": 0}, {}, {"headgroup": 1, "small": 2}),
        ({**SMALL, "replicas": 9}, {}, {"headgroup": 1, "small": 8}),
        ({**SMALL, "suspend": True}, {}, {"headgroup": 1, "small": 0}),
        ({**SMALL, "suspend": False}, {}, {"headgroup": 1, "small": 4}),
        (
            {"groupName": "small", "replicas": 3, "minReplicas": 0},
            {"enableInTreeAutoscaling": True},
            {"headgroup": 1, "small": 0},
        ),
    ],
)
def test_a_ray_cluster_is_a_gang_of_its_head_and_workers(
    group: dict[str, Any], more: dict[str, Any], minimum: dict[str, int]
) -> None:
    gang = gang_of(
        workload("RayCluster.ray.io", "rc", **ray_spec(group, **more)),
        ray_pod("rc-head", "headgroup"),
        *[ray_pod(f"rc-small-worker-{index}", "small") for index in range(4)],
    )
    assert (str(gang), gang.kind, len(gang.members)) == ("team/rc", GangKind.WORKLOAD, 5)
    assert minimums(gang) == minimum


def test_a_ray_job_contains_its_cluster_and_the_pod_that_submits_the_work() -> None:
    job_of = {"name": "rj", "kind": "RayJob", "api_version": "ray.io/v1"}
    autoscaled = ray_spec(SMALL, enableInTreeAutoscaling=True)
    inside = [
        workload("RayJob.ray.io", "rj", rayClusterSpec=autoscaled),
        workload("RayCluster.ray.io", "rc", owner=job_of, **autoscaled),
        ray_pod("rc-head", "headgroup"),
    ]
    assert minimums(gang_of(*inside)) == {"headgroup": 1, "small": 2}
    submitter = [job("rj", uid="uid-submitter", owner=job_of)]
    made = pod_of_job("rj", 0, meta=controlled_by("rj", uid="uid-submitter"))
    gang = gang_of(*inside, *submitter, made)
    assert (str(gang), gang.min_member, len(gang.members)) == ("team/rj", 4, 2)
    assert {role.name: role.min_member for role in gang.roles} == {"headgroup": 1, "small": 2}


# --- objects that no API server with a schema would accept --------------------------------------------------

NAMES = sorted(
    {
        name
        for kind in WORKLOADS.values()
        for paths in (kind, *kind.roles)
        for value in (getattr(paths, field) for field in paths.__struct_fields__)
        if isinstance(value, str)
        for name in value.split(".")
        if name
    }
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**40), 2**40), st.text(max_size=3)),
    lambda inside: st.one_of(
        st.lists(inside, max_size=3), st.dictionaries(st.sampled_from(NAMES), inside, max_size=6)
    ),
    max_leaves=20,
)
fields = st.dictionaries(st.sampled_from(NAMES), values, max_size=6)


@given(st.sampled_from(sorted(WORKLOADS)), fields, fields)
def test_any_content_of_a_workload_gives_a_gang(
    kind: str, spec: dict[str, Any], status: dict[str, Any]
) -> None:
    owner = WORKLOADS[kind]
    found = gang_of(
        structs.replace(workload(kind, "w"), spec=spec, status=status),
        pod(
            "p",
            labels={label("gang"): "true"},
            meta=controlled_by("w", kind=owner.kind, api_version=owner.api_version),
        ),
    )
    assert found.kind is GangKind.WORKLOAD
    assert found.min_member >= 1
    assert msgspec.msgpack.encode(found)
