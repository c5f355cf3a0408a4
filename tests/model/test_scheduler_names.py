"""Where the name of the scheduler is written: in templates, in Spark's configuration, or only on pods."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Deleted, Relisted
from phalanx.model.api.core import Pod
from phalanx.model.api.kinds import kind_name
from phalanx.model.gangs import Gang
from phalanx.model.memory import Memory
from phalanx.model.workloads.known import WORKLOADS
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.examples import holds
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
    workload,
)

OTHERS = "default-scheduler"


def ray(*groups: tuple[str, int], head: str = "", workers: str = "") -> Any:
    def template(scheduler: str) -> dict[str, Any]:
        return {"spec": {"schedulerName": scheduler} if scheduler else {}}

    specs = [
        {"groupName": name, "replicas": count, "minReplicas": count, "template": template(workers)}
        for name, count in groups
    ]
    return workload(
        "RayCluster.ray.io", "rc", headGroupSpec={"template": template(head)}, workerGroupSpecs=specs
    )


def ray_pod(name: str, group: str, scheduler: str = "phalanx") -> Pod:
    meta = controlled_by("rc", kind="RayCluster", api_version="ray.io/v1")
    return pod(name, labels={"ray.io/group": group}, meta=meta, schedulerName=scheduler)


# --- a webhook names it on the pods -------------------------------------------------------------------------


def test_the_head_of_a_ray_cluster_waits_for_workers_whose_template_names_no_scheduler() -> None:
    gang = gang_of(ray(("workers", 3)), ray_pod("head", "headgroup"))
    assert minimums(gang) == {"headgroup": 1, "workers": 3}


def test_a_master_waits_for_its_workers() -> None:
    meta = controlled_by("pt", kind="PyTorchJob", api_version="kubeflow.org/v1")
    labels = {"training.kubeflow.org/replica-type": "master"}
    specs = {"Master": {"replicas": 1, "template": {}}, "Worker": {"replicas": 4, "template": {}}}
    gang = gang_of(
        workload("PyTorchJob.kubeflow.org", "pt", pytorchReplicaSpecs=specs),
        pod("pt-master-0", labels=labels, meta=meta),
    )
    assert minimums(gang) == {"master": 1, "worker": 4}


def test_replica_types_are_roles_in_any_case_as_for_the_operator() -> None:
    meta = controlled_by("tf", kind="TFJob", api_version="kubeflow.org/v1")
    template = {"spec": {"schedulerName": "phalanx"}}
    specs = {name: {"replicas": 2, "template": template} for name in ("ps", "worker")}
    gang = gang_of(
        workload("TFJob.kubeflow.org", "tf", tfReplicaSpecs=specs),
        pod("tf-ps-0", labels={"training.kubeflow.org/replica-type": "ps"}, meta=meta),
    )
    assert minimums(gang) == {"ps": 2, "worker": 2}


def test_the_first_pod_of_an_ordered_stateful_set_waits_for_capacity_for_the_others() -> None:
    """The API server has written `default-scheduler` into the template."""
    template = {"spec": {"schedulerName": OTHERS, "containers": [{"resources": {"requests": {"cpu": "1"}}}]}}
    spec = {"replicas": 3, "podManagementPolicy": "OrderedReady", "template": template}
    meta = controlled_by("db", kind="StatefulSet", api_version="apps/v1")
    gang = gang_of(
        workload("StatefulSet.apps", "db", **spec), pod("db-0", labels={label("gang"): "true"}, meta=meta)
    )
    assert (gang.min_member, gang.reserves) == (3, True)


def test_a_role_that_names_another_scheduler_is_not_waited_for() -> None:
    """Custom resources have the default scheduler's name only if somebody wrote it."""
    gang = gang_of(ray(("workers", 3), workers=OTHERS), ray_pod("head", "headgroup"))
    assert minimums(gang) == {"headgroup": 1, "workers": 0}


# --- Spark --------------------------------------------------------------------------------------------------

ALL, DRIVERS, EXECUTORS = (f"spark.kubernetes.{part}scheduler.name" for part in ("", "driver.", "executor."))


@pytest.mark.parametrize(
    ("driver", "executor", "conf", "reserved"),
    [
        ({}, {}, {ALL: "phalanx"}, 2),
        ({}, {}, {DRIVERS: "phalanx", EXECUTORS: "phalanx"}, 2),
        ({}, {}, {DRIVERS: "phalanx", EXECUTORS: "volcano"}, 0),
        ({}, {}, {ALL: "volcano", DRIVERS: "phalanx"}, 0),
        ({}, {}, {ALL: "volcano", EXECUTORS: "phalanx"}, 2),
        ({}, {"schedulerName": "volcano"}, {ALL: "phalanx"}, 0),
        ({}, {"schedulerName": "phalanx"}, {ALL: "volcano"}, 2),
        ({}, {"template": {"spec": {"schedulerName": "phalanx"}}}, {}, 2),
        ({}, {"template": {"spec": {"schedulerName": "volcano"}}}, {}, 0),
        ({}, {"template": {"spec": {"schedulerName": "volcano"}}}, {ALL: "phalanx"}, 2),
        ({"schedulerName": "phalanx"}, {}, {}, 2),
        ({}, {}, {}, 2),
    ],
)
def test_a_spark_driver_waits_for_capacity_for_its_executors(
    driver: dict[str, Any], executor: dict[str, Any], conf: dict[str, str], reserved: int
) -> None:
    """The driver has the name from somewhere. In the last cases executors have it from the same place."""
    meta = controlled_by("pi", kind="SparkApplication", api_version="sparkoperator.k8s.io/v1beta2")
    gang = gang_of(
        workload(
            "SparkApplication.sparkoperator.k8s.io",
            "pi",
            driver=driver,
            executor={"instances": 2, "cores": 2, **executor},
            sparkConf=conf,
        ),
        pod("driver", labels={"spark-role": "driver"}, meta=meta),
    )
    assert (minimums(gang)["executor"], gang.reserves) == (reserved, reserved > 0)


# --- pods of other schedulers -------------------------------------------------------------------------------


def test_a_role_whose_pods_have_another_scheduler_is_not_waited_for() -> None:
    objects = (ray(("workers", 3), head="phalanx"), ray_pod("head", "headgroup"))
    assert minimums(gang_of(*objects))["workers"] == 3, "nothing is known of the workers"
    gang = gang_of(*objects, ray_pod("w", "workers", OTHERS))
    assert minimums(gang) == {"headgroup": 1, "workers": 0}


def test_executors_of_another_scheduler_free_what_was_reserved_for_them() -> None:
    meta = controlled_by("pi", kind="SparkApplication", api_version="sparkoperator.k8s.io/v1beta2")
    of_driver = controlled_by("driver", kind="Pod", api_version="v1", uid="uid-team-driver")
    spec = {"driver": {}, "executor": {"instances": 2, "cores": 2}}
    gang = gang_of(
        workload("SparkApplication.sparkoperator.k8s.io", "pi", **spec),
        pod("driver", labels={"spark-role": "driver"}, meta=meta),
        pod("e", labels={"spark-role": "executor"}, meta=of_driver, schedulerName=OTHERS),
    )
    assert (gang.min_member, gang.reserves) == (1, False)


def test_a_launcher_of_another_scheduler_is_seen_though_no_pod_of_ours_has_a_job_as_owner() -> None:
    """Its Job is between it and the MPIJob. Without reading Jobs the workers would wait for it for ever."""
    v2 = {"kind": "MPIJob", "api_version": "kubeflow.org/v2beta1"}
    template = {"spec": {"schedulerName": "phalanx"}}
    specs = {"Launcher": {"template": {}}, "Worker": {"replicas": 1, "template": template}}
    label_of = {role: {"training.kubeflow.org/job-role": role} for role in ("launcher", "worker")}
    cache = Cache(scheduler_name="phalanx")
    worker = pod("w", labels=label_of["worker"], meta=controlled_by("mpi", **v2))
    changes = cache.apply(Applied(worker))
    meta = controlled_by("mpi-launcher")
    cache.apply(Applied(pod("l", labels=label_of["launcher"], meta=meta, schedulerName=OTHERS)))
    listed = {
        "MPIJob.kubeflow.org": workload("MPIJob.kubeflow.org", "mpi", mpiReplicaSpecs=specs),
        "Job.batch": job("mpi-launcher", owner={"name": "mpi", **v2}),
    }
    for kind in changes.workload_kinds:
        cache.apply(Relisted(kind, (listed[kind],)))
        check_cache(cache)
    (gang,) = gangs_of(cache)
    assert minimums(gang) == {"worker": 1, "launcher": 0}


ROLES = ("a", "b", "c")
TEMPLATES = st.sampled_from(["", "phalanx", "volcano"])
PODS = st.sampled_from(["", "phalanx", OTHERS])
SIZE = 2


def waited_for(templates: dict[str, str], there: dict[str, str]) -> set[str]:
    """The rule of docs/workloads.md. Each role has pods of one scheduler, or none yet."""
    found = set()
    for role in ROLES:
        if there[role] == "phalanx":
            found.add(role)
        elif templates[role] == "phalanx" or there[role] or templates[role]:
            if templates[role] == "phalanx":
                found.add(role)
        else:
            alike = {there[other] for other in ROLES if not templates[other]} - {""}
            if "phalanx" in alike or OTHERS not in alike:
                found.add(role)
    return found


def objects_of(templates: dict[str, str], there: dict[str, str]) -> list[Any]:
    roles = [replicated_job(role, pods=SIZE, scheduler=templates[role]) for role in ROLES]
    found: list[Any] = [job_set("js", *roles)]
    for role in ROLES:
        if there[role]:
            owner = {"name": "js", "kind": "JobSet", "api_version": JOB_SET_VERSION}
            found.append(job(f"js-{role}-0", parallelism=SIZE, completions=SIZE, owner=owner))
            found.append(pod_of_job(f"js-{role}-0", 0, role=role, schedulerName=there[role]))
    return found


@holds(100)
@given(
    templates=st.fixed_dictionaries(dict.fromkeys(ROLES, TEMPLATES)),
    there=st.fixed_dictionaries(dict.fromkeys(ROLES, PODS)),
    data=st.data(),
)
def test_every_role_counts_as_its_template_or_the_pods_say_in_any_order_of_events(
    templates: dict[str, str], there: dict[str, str], data: st.DataObject
) -> None:
    objects = data.draw(st.permutations(objects_of(templates, there)))
    extra = data.draw(st.lists(st.sampled_from(objects), unique_by=id))
    cache = Cache(scheduler_name="phalanx")
    cache.apply_all(Relisted(kind, ()) for kind in WORKLOADS)
    cache.apply_all(Applied(item) for item in extra)
    gangs_of(cache)
    cache.apply_all(Deleted(kind_name(item), item.metadata.namespace, item.metadata.name) for item in extra)
    gangs_of(cache)
    for item in objects:
        cache.apply(Applied(item))
        check_cache(cache)
    found = gangs_of(cache)
    assert len(found) == ("phalanx" in there.values())
    for gang in found:
        expected = waited_for(templates, there)
        assert minimums(gang) == {role: SIZE * (role in expected) for role in ROLES}


def gangs_of(cache: Cache) -> list[Gang]:
    return list(cache.snapshot(now=0, seed=0, memory=Memory()).gangs.values())
