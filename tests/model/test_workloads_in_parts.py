"""Workloads with chains through other objects and pods, in several gangs, or with pods that come later.

LeaderWorkerSets, StatefulSets, Deployments and Spark. The pods are as their controllers make them.
"""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Deleted, Relisted
from phalanx.deciders.port import new_cache
from phalanx.framework.config import ConfigError
from phalanx.framework.placeholders import placeholders
from phalanx.model.api.core import Pod
from phalanx.model.api.kinds import kind_named
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.memory import Memory
from phalanx.model.reasons import Objection, Reason
from phalanx.model.workloads.known import WORKLOADS
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.builders import demands_of
from tests.examples import holds
from tests.model.gangs_of_workloads import gang_of, gangs_of, minimums
from tests.model.written import controlled_by, label, pod, workload
from tests.parsed_config import parse_config

GPUS = {"nvidia.com/gpu": "8"}
TEMPLATE = {
    "spec": {
        "schedulerName": "phalanx",
        "containers": [{"name": "main", "resources": {"requests": GPUS}}],
    }
}
STATEFUL = {"kind": "StatefulSet", "api_version": "apps/v1"}
OPTS_IN = {label("gang"): "true"}


def by_name(found: list[Gang]) -> dict[str, Gang]:
    return {gang.name: gang for gang in found}


# --- LeaderWorkerSet ----------------------------------------------------------------------------------------


def lws(*, size: int = 3, meta: dict[str, Any] | None = None, **spec: Any) -> WorkloadObject:
    template = {"size": size, "workerTemplate": TEMPLATE}
    rest = {"replicas": 2, "startupPolicy": "LeaderCreated", "leaderWorkerTemplate": template}
    return workload("LeaderWorkerSet.leaderworkerset.x-k8s.io", "lws", meta=meta, **{**rest, **spec})


def stateful(name: str, owner: dict[str, str], replicas: int) -> WorkloadObject:
    return workload(
        "StatefulSet.apps", name, uid=f"uid-sts-{name}", owner=owner, replicas=replicas, template=TEMPLATE
    )


def sets_of_lws(groups: int = 2) -> list[WorkloadObject]:
    """One of all leaders, and one for the workers of each leader, which owns it."""
    of_lws = {"name": "lws", "kind": "LeaderWorkerSet", "api_version": "leaderworkerset.x-k8s.io/v1"}
    leaders = {"kind": "Pod", "api_version": "v1"}
    return [
        stateful("lws", of_lws, 2),
        *[
            stateful(f"lws-{group}", {**leaders, "name": f"lws-{group}", "uid": f"uid-team-lws-{group}"}, 2)
            for group in range(groups)
        ],
    ]


def lws_pod(group: int, index: int, **rest: Any) -> Pod:
    labels = {
        "leaderworkerset.sigs.k8s.io/group-index": str(group),
        "leaderworkerset.sigs.k8s.io/name": "lws",
        "leaderworkerset.sigs.k8s.io/worker-index": str(index),
    }
    name = f"lws-{group}-{index}" if index else f"lws-{group}"
    owner = f"lws-{group}" if index else "lws"
    meta = controlled_by(owner, uid=f"uid-sts-{owner}", **STATEFUL)
    return pod(name, labels=labels, meta=meta, requests=GPUS, **rest)


def pods_of_lws(groups: int = 2, size: int = 3) -> list[Pod]:
    return [lws_pod(group, index) for group in range(groups) for index in range(size)]


def test_each_group_of_a_leader_worker_set_is_a_gang() -> None:
    found = by_name(gangs_of(lws(), *sets_of_lws(), *pods_of_lws()))
    assert set(found) == {"lws-0", "lws-1"}
    for group, gang in enumerate((found["lws-0"], found["lws-1"])):
        assert (gang.kind, gang.workload) == (
            GangKind.WORKLOAD,
            "LeaderWorkerSet.leaderworkerset.x-k8s.io",
        )
        assert minimums(gang) == {"leader": 1, "worker": 2}
        assert [(each.name, each.role) for each in gang.members] == [
            (f"lws-{group}", "leader"),
            (f"lws-{group}-1", "worker"),
            (f"lws-{group}-2", "worker"),
        ]
        assert (gang.problems, gang.reserves) == ((), False)
    assert found["lws-0"].id != found["lws-1"].id


def test_objects_of_a_leader_worker_set_in_any_order_give_the_same_gangs() -> None:
    """Workers may be known before their leader, which is above them."""
    objects = [lws(), *sets_of_lws(), *pods_of_lws()]
    whole = gangs_of(*objects)
    assert gangs_of(*objects[::-1]) == whole
    assert gangs_of(*objects[3:], *objects[:3]) == whole


def test_a_leader_worker_set_waits_until_its_chain_is_known() -> None:
    found = gangs_of(*sets_of_lws(), *pods_of_lws())
    assert {gang.problems[0].message for gang in found} == {
        "LeaderWorkerSet team/lws with the UID uid-lws does not exist"
    }
    (alone,) = gangs_of(lws(), *sets_of_lws(), lws_pod(0, 1))
    assert alone.problems[0].message == "Pod team/lws-0 with the UID uid-team-lws-0 does not exist"


def test_workers_whose_leader_is_deleted_wait_for_the_garbage_collector() -> None:
    cache = Cache(scheduler_name="phalanx")
    cache.apply_all(Relisted(kind, ()) for kind in WORKLOADS)
    cache.apply_all(map(Applied, [lws(), *sets_of_lws(1), *pods_of_lws(1)]))
    assert len(cache.snapshot(now=0, seed=0, memory=Memory()).gangs) == 1
    cache.apply(Deleted("Pod", "team", "lws-0", "uid-team-lws-0"))
    check_cache(cache)
    (gang,) = cache.snapshot(now=0, seed=0, memory=Memory()).gangs.values()
    assert "Pod team/lws-0" in gang.problems[0].message
    cache.apply(Applied(lws_pod(0, 0)))
    check_cache(cache)
    (gang,) = cache.snapshot(now=0, seed=0, memory=Memory()).gangs.values()
    assert (gang.problems, len(gang.members)) == ((), 3)


@pytest.mark.parametrize(
    ("change", "reserves", "workers"),
    [
        ({"startupPolicy": "LeaderReady"}, True, 2),
        (
            {"meta": {"annotations": {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}}},
            False,
            0,
        ),
    ],
)
def test_a_leader_that_comes_first_reserves_capacity_for_its_workers(
    change: dict[str, Any], reserves: bool, workers: int
) -> None:
    """With exclusive topology the place of the workers depends on their leader's: nothing is reserved."""
    gang = gang_of(lws(**change), *sets_of_lws(0), lws_pod(0, 0))
    assert minimums(gang) == {"leader": 1, "worker": workers}
    assert gang.reserves is reserves
    shapes = {role.name: role.shape for role in gang.roles}
    assert shapes["leader"] is None
    assert (shapes["worker"] is not None) is reserves
    if shapes["worker"] is not None:
        assert shapes["worker"].requests["nvidia.com/gpu"] == 8
    assert minimums(gang_of(lws(**change), *sets_of_lws(1), *pods_of_lws(1)))["worker"] == 2


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_group_has_the_size_that_its_own_set_of_workers_says(size: int) -> None:
    """The size of the LeaderWorkerSet has changed, and this group is of the time before."""
    changed = lws(leaderWorkerTemplate={"size": size, "workerTemplate": TEMPLATE})
    assert minimums(gang_of(changed, *sets_of_lws(1), *pods_of_lws(1))) == {"leader": 1, "worker": 2}


# --- StatefulSet and Deployment -----------------------------------------------------------------------------


def replica(name: str, index: int, labels: dict[str, str], kind: str = "StatefulSet") -> Pod:
    meta = controlled_by(name, kind=kind, api_version="apps/v1")
    return pod(f"{name}-{index}", labels=labels, meta=meta)


@pytest.mark.parametrize(("policy", "reserves"), [("Parallel", False), ("OrderedReady", True)])
def test_a_stateful_set_is_a_gang_if_its_pods_opt_in(policy: str, reserves: bool) -> None:
    spec = {"replicas": 3, "podManagementPolicy": policy, "template": TEMPLATE}
    gang = gang_of(workload("StatefulSet.apps", "db", **spec), replica("db", 0, OPTS_IN))
    assert (gang.kind, gang.name, gang.min_member, gang.reserves) == (GangKind.WORKLOAD, "db", 3, reserves)
    assert [role.min_member for role in gang.roles] == ([3] if reserves else [])


@pytest.mark.parametrize("labels", [{}, {label("gang"): "false"}])
def test_pods_that_do_not_opt_in_are_single_and_their_owners_are_not_read(labels: dict[str, str]) -> None:
    cache = Cache(scheduler_name="phalanx")
    for kind in ("StatefulSet", "ReplicaSet", "Deployment"):
        assert cache.apply(Applied(replica(kind, 0, labels, kind))).workload_kinds == ()
    found = cache.snapshot(now=0, seed=0, memory=Memory()).gangs.values()
    assert [(gang.kind, gang.problems) for gang in found] == [(GangKind.POD, ())] * 3


def test_a_deployment_is_a_gang_of_the_pods_of_its_replica_sets() -> None:
    """While it is rolled out it has two."""
    of = {"name": "web", "kind": "Deployment", "api_version": "apps/v1"}
    objects: list[Any] = [workload("Deployment.apps", "web", replicas=4, template=TEMPLATE)]
    objects += [
        workload("ReplicaSet.apps", name, owner=of, replicas=count, template=TEMPLATE)
        for name, count in (("web-a", 3), ("web-b", 2))
    ]
    old = [replica("web-a", index, OPTS_IN, "ReplicaSet") for index in range(3)]
    new = [replica("web-b", index, OPTS_IN, "ReplicaSet") for index in range(2)]
    gang = gang_of(*objects, *old, *new)
    assert (gang.name, gang.workload, gang.min_member, len(gang.members)) == ("web", "Deployment.apps", 5, 5)
    assert gang_of(*objects, *old).min_member == 4, "the number of the Deployment"


@pytest.mark.parametrize("there", [1, 2, 3])
def test_a_deployment_does_not_start_with_the_part_that_a_new_replica_set_has_by_now(there: int) -> None:
    """The pods of the old one are gone, and the controller adds those of the new one step by step."""
    of = {"name": "web", "kind": "Deployment", "api_version": "apps/v1"}
    gang = gang_of(
        workload("Deployment.apps", "web", replicas=4, template=TEMPLATE),
        workload("ReplicaSet.apps", "web-b", owner=of, replicas=there, template=TEMPLATE),
        *[replica("web-b", index, OPTS_IN, "ReplicaSet") for index in range(there)],
    )
    assert gang.min_member == 4


def counted(name: str, index: int, least: int, kind: str = "ReplicaSet", **rest: Any) -> Pod:
    meta = controlled_by(name, kind=kind, api_version="apps/v1")
    at = f"2026-11-01T10:00:0{rest.pop('at', 0)}Z"
    labels = {label("min-member"): str(least)}
    return pod(f"{name}-{index}", labels=labels, meta={**meta, "creationTimestamp": at}, **rest)


@holds(60)
@given(
    running=st.integers(0, 4),
    waiting=st.integers(0, 4),
    of_two=st.booleans(),
    least=st.integers(1, 5),
    earlier=st.integers(1, 5),
)
def test_a_rolling_update_is_one_gang_that_never_starts_in_parts(
    running: int, waiting: int, of_two: bool, least: int, earlier: int
) -> None:
    """The old pods have a node, the new ones wait; both have a ReplicaSet, or there is only one."""
    of = {"name": "web", "kind": "Deployment", "api_version": "apps/v1"}
    names = ("web-a", "web-b") if of_two else ("web-a", "web-a")
    objects = [workload("Deployment.apps", "web", replicas=4, template=TEMPLATE)]
    objects += [
        workload("ReplicaSet.apps", name, owner=of, replicas=4, template=TEMPLATE) for name in {*names}
    ]
    runs = {"nodeName": "n", "status": {"phase": "Running", "startTime": "2026-11-01T10:00:00Z"}}
    old = [counted(names[0], index, earlier, **runs) for index in range(running)]
    new = [counted(names[1], 9 - index, least, at=1) for index in range(waiting)]
    found = gangs_of(*objects, *old, *new)
    assert len(found) == bool(old or new)
    for gang in found:
        minimum = least if new else earlier
        assert (str(gang), gang.min_member, len(gang.members)) == ("team/web", minimum, running + waiting)
        demands = demands_of(gang)
        if running + waiting < minimum:
            assert isinstance(demands, Objection)
        elif running == 0 and not isinstance(demands, Objection):
            (start, *rest) = demands
            assert (start.count, start.is_whole) == (minimum, True)
            assert sum(each.count for each in rest) == waiting - minimum
        elif not isinstance(demands, Objection):
            assert sum(each.count for each in demands) == waiting


@pytest.mark.parametrize(("policy", "least", "reserved"), [("OrderedReady", 2, 1), ("Parallel", 2, 0)])
def test_an_ordered_stateful_set_reserves_for_the_minimum_of_its_label(
    policy: str, least: int, reserved: int
) -> None:
    spec = {"replicas": 3, "podManagementPolicy": policy, "template": TEMPLATE}
    gang = gang_of(workload("StatefulSet.apps", "db", **spec), counted("db", 0, least, "StatefulSet"))
    assert (gang.kind, gang.min_member, gang.reserves) == (GangKind.WORKLOAD, least, policy == "OrderedReady")
    assert len(placeholders(gang, gang.members)) == reserved


# --- Spark --------------------------------------------------------------------------------------------------

EXECUTOR = {
    "schedulerName": "phalanx",
    "instances": 3,
    "cores": 2,
    "memory": "4g",
    "gpu": {"name": "nvidia.com/gpu", "quantity": 1},
}
MIB = 2**20


def spark(**spec: Any) -> WorkloadObject:
    rest = {"driver": {"schedulerName": "phalanx"}, "executor": EXECUTOR}
    return workload("SparkApplication.sparkoperator.k8s.io", "pi", **{**rest, **spec})


def spark_driver(*, of_operator: bool = True) -> Pod:
    owner = {"kind": "SparkApplication", "api_version": "sparkoperator.k8s.io/v1beta2"}
    return pod(
        "driver", labels={"spark-role": "driver"}, meta=controlled_by("pi", **owner) if of_operator else {}
    )


def executor(index: int) -> Pod:
    """Spark names the driver as the controller of its executors."""
    meta = controlled_by("driver", kind="Pod", api_version="v1", uid="uid-team-driver")
    return pod(f"exec-{index}", labels={"spark-role": "executor"}, meta=meta)


def executors_of(gang: Gang) -> tuple[int, dict[str, int]]:
    role = next(role for role in gang.roles if role.name == "executor")
    assert role.shape is not None
    return role.min_member, dict(role.shape.requests)


def test_a_spark_driver_reserves_capacity_for_its_executors() -> None:
    gang = gang_of(spark(), spark_driver())
    assert (gang.name, gang.reserves, minimums(gang)) == ("pi", True, {"driver": 1, "executor": 3})
    # 4 GiB, and 10 % as Spark's default of memoryOverheadFactor for programs in Java, in whole MiB.
    memory = (4096 + 410) * MIB
    assert executors_of(gang) == (
        3,
        {"cpu": 2000, "memory": memory, "nvidia.com/gpu": 1, "pods": 1},
    )


@pytest.mark.parametrize(
    ("change", "memory"),
    [
        ({"memory": "512m"}, (512 + 384) * MIB),
        ({"memory": "1G", "memoryOverhead": "2g"}, 3 * 1024 * MIB),
        ({"memory": "unknown"}, (1024 + 384) * MIB),
    ],
)
def test_the_memory_of_executors_is_as_spark_computes_it(change: dict[str, Any], memory: int) -> None:
    gang = gang_of(spark(executor={**EXECUTOR, **change}), spark_driver())
    assert executors_of(gang)[1]["memory"] == memory


def test_executors_are_in_the_gang_of_their_application() -> None:
    for objects in ([spark_driver(), executor(0), executor(1)], [executor(1), executor(0), spark_driver()]):
        gang = gang_of(spark(), *objects)
        assert [(each.name, each.role) for each in gang.members] == [
            ("driver", "driver"),
            ("exec-0", "executor"),
            ("exec-1", "executor"),
        ]


@pytest.mark.parametrize(("least", "minimum"), [(2, 2), (None, 0)])
def test_with_dynamic_allocation_the_least_number_of_executors_is_reserved(
    least: int | None, minimum: int
) -> None:
    allocation = {"enabled": True, "maxExecutors": 9, **({"minExecutors": least} if least else {})}
    gang = gang_of(spark(dynamicAllocation=allocation), spark_driver())
    assert minimums(gang) == {"driver": 1, "executor": minimum}


def test_executors_of_spark_submit_are_single_pods() -> None:
    """Their driver has no owner that says how many there will be."""
    pods = [executor(0), spark_driver(of_operator=False), executor(1)]
    for objects in (pods, pods[::-1], [pods[1], pods[0], pods[2]]):
        assert [(gang.kind, gang.problems) for gang in gangs_of(*objects)] == [(GangKind.POD, ())] * 3


@pytest.mark.parametrize(("state", "ended"), [("RUNNING", False), ("COMPLETED", True), ("FAILED", True)])
def test_a_spark_application_ends(state: str, ended: bool) -> None:
    status = {"applicationState": {"state": state}}
    assert bool(gang_of(spark(status=status), spark_driver()).problems) is ended


# --- kinds of the configuration -----------------------------------------------------------------------------

OWN = """
workloads:
  - apiVersion: training.example.com/v1
    kind: Training
    plural: trainings
    roles:
      - at: spec.groups
        name: name
        pods: size
        template: podTemplate.spec
    roleLabel: training.example.com/group
    suspended: spec.paused
    endedConditions: [Done]
"""


def own_kind(**spec: Any) -> tuple[Any, ...]:
    """The object and a pod of each of its groups."""
    groups = [{"name": name, "size": size, "podTemplate": TEMPLATE} for name, size in (("a", 1), ("b", 2))]
    owner = {"kind": "Training", "api_version": "training.example.com/v1"}
    pods = [
        pod(f"t-{name}", labels={"training.example.com/group": name}, meta=controlled_by("t", **owner))
        for name in ("a", "b")
    ]
    return workload("Training.training.example.com", "t", groups=groups, **spec), *pods


def test_a_kind_of_the_configuration_is_read_without_code() -> None:
    cache = new_cache(parse_config(OWN))
    item, *pods = own_kind()
    changes = cache.apply_all(map(Applied, pods))
    assert changes.workload_kinds == ("Training.training.example.com",)
    kind = kind_named(*changes.workload_kinds, cache.known_workloads)
    assert kind.path(namespace="a") == "/apis/training.example.com/v1/namespaces/a/trainings"
    cache.apply(Relisted(kind.name, (item,)))
    check_cache(cache)
    (gang,) = cache.snapshot(now=0, seed=0, memory=Memory()).gangs.values()
    assert (gang.name, minimums(gang), len(gang.members)) == ("t", {"a": 1, "b": 2}, 2)
    cache.apply(Applied(own_kind(paused=True)[0]))
    (gang,) = cache.snapshot(now=0, seed=0, memory=Memory()).gangs.values()
    assert gang.problems[0].message.startswith("Training team/t is suspended")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("pods: size", "pods: szie"), "no number at szie of a role at spec.groups"),
        (("at: spec.groups", "at: spec.gruops"), "no role at spec.gruops"),
        (("pods: size", "pods: size\n        owners: /spec.replicsa"), "no number at spec.replicsa,"),
        (("pods: size", "pods: size\n        hosts: hots"), "no number at hots of a role"),
    ],
)
def test_a_path_with_an_error_does_not_let_a_gang_start_in_parts(change: tuple[str, str], says: str) -> None:
    def problems(config: str) -> tuple[Objection, ...]:
        cache = new_cache(parse_config(config))
        item, *pods = own_kind()
        cache.apply_all(map(Applied, pods))
        cache.apply(Relisted("Training.training.example.com", (item,)))
        (gang,) = cache.snapshot(now=0, seed=0, memory=Memory()).gangs.values()
        return gang.problems

    wrong = OWN.replace(*change)
    (found,) = problems(wrong)
    assert found.reason == Reason.INVALID_OBJECT
    assert found.message.startswith("Training team/t has ")
    assert says in found.message
    assert problems(wrong.replace("        name: name", "        name: name\n        missing: 1")) == ()


def test_without_the_configuration_its_pods_are_single() -> None:
    assert {gang.kind for gang in gangs_of(*own_kind()[1:])} == {GangKind.POD}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("kind: Training", "kind: training"), "workloads[0].kind: expected a kind such as Job"),
        (("training.example.com/v1", "v1"), "workloads[0].apiVersion: expected group/version"),
        (("plural: trainings", "plural: a/b"), "workloads[0].plural: expected a resource"),
        (("size", "[size]"), "Expected `str`"),
        (("roleLabel", "roleLabels"), "unknown field `roleLabels`"),
        (
            ("training.example.com/v1\n    kind: Training", "batch/v1\n    kind: Job"),
            "workloads[0]: Phalanx reads Job of batch already",
        ),
    ],
)
def test_a_wrong_kind_in_the_configuration_is_refused(change: tuple[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        parse_config(OWN.replace(*change, 1))
