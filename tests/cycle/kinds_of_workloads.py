"""Each kind of workload as its controller makes it: the objects, and the pods of each gang in them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from phalanx.model.api.core import Pod
from phalanx.model.api.workloads import WorkloadObject

from tests.model.written import controlled_by, job, label, pod, workload

REQUESTS = {"cpu": "1"}
Owner = Mapping[str, str]


class Made(NamedTuple):
    """What a controller has made."""

    objects: list[WorkloadObject]
    gangs: list[list[Pod]]


def owner(name: str, kind: str, api_version: str, uid: str = "") -> dict[str, str]:
    return {"name": name, "kind": kind, "api_version": api_version, "uid": uid or f"uid-{name}"}


def made_by(controller: Owner, name: str, labels: Mapping[str, str] | None = None) -> Pod:
    return pod(name, labels=labels, meta=controlled_by(**controller), requests=REQUESTS)


def template(scheduler: str) -> dict[str, Any]:
    named = {"schedulerName": scheduler} if scheduler else {}
    return {"spec": {**named, "containers": [{"name": "main", "resources": {"requests": REQUESTS}}]}}


def stored(scheduler: str) -> dict[str, Any]:
    """A template of Kubernetes' own kinds: the API server writes a name where none stands."""
    return template(scheduler or "default-scheduler")


JOB = owner("j", "Job", "batch/v1")


def plain_job(scheduler: str) -> Made:
    made = job("j", parallelism=3, completions=5, template=stored(scheduler))
    return Made([made], [[made_by(JOB, f"j-{index}") for index in range(3)]])


def job_set(scheduler: str, above: Owner | None = None) -> Made:
    of_set = owner("js", "JobSet", "jobset.x-k8s.io/v1alpha2")
    counts = {"driver": 1, "worker": 2}
    spec = {"parallelism": 2, "completions": 2, "template": template(scheduler)}
    roles = [{"name": name, "replicas": n, "template": {"spec": spec}} for name, n in counts.items()]
    objects = [workload("JobSet.jobset.x-k8s.io", "js", owner=above, replicatedJobs=roles)]
    pods: list[Pod] = []
    for role, name in [(role, f"js-{role}-{index}") for role, n in counts.items() for index in range(n)]:
        objects.append(job(name, parallelism=2, completions=2, owner=of_set, template=stored(scheduler)))
        labels = {"jobset.sigs.k8s.io/replicatedjob-name": role}
        pods += [made_by(owner(name, "Job", "batch/v1"), f"{name}-{each}", labels) for each in range(2)]
    return Made(objects, [pods])


def train_job(scheduler: str) -> Made:
    return job_set(scheduler, owner("tj", "TrainJob", "trainer.kubeflow.org/v1alpha1"))


def pytorch_job(scheduler: str) -> Made:
    of_job, counts = owner("pt", "PyTorchJob", "kubeflow.org/v1"), {"Master": 1, "Worker": 2}
    specs = {name: {"replicas": n, "template": template(scheduler)} for name, n in counts.items()}
    pods = [
        made_by(of_job, f"pt-{name.lower()}-{each}", {"training.kubeflow.org/replica-type": name.lower()})
        for name, n in counts.items()
        for each in range(n)
    ]
    return Made([workload("PyTorchJob.kubeflow.org", "pt", pytorchReplicaSpecs=specs)], [pods])


def mpi_job(scheduler: str) -> Made:
    of_job = owner("mpi", "MPIJob", "kubeflow.org/v2beta1")
    counts = {"Launcher": 1, "Worker": 2}
    specs = {name: {"replicas": n, "template": template(scheduler)} for name, n in counts.items()}
    launcher = job("mpi-launcher", completions=1, owner=of_job, template=stored(scheduler))
    role = "training.kubeflow.org/job-role"
    pods = [made_by(of_job, f"mpi-worker-{index}", {role: "worker"}) for index in range(2)]
    pods.append(made_by(owner("mpi-launcher", "Job", "batch/v1"), "mpi-launcher-0", {role: "launcher"}))
    return Made([workload("MPIJob.kubeflow.org", "mpi", mpiReplicaSpecs=specs), launcher], [pods])


def cluster(scheduler: str) -> dict[str, Any]:
    groups = [
        {"groupName": "one", "replicas": 1, "numOfHosts": 1, "template": template(scheduler)},
        {"groupName": "two", "replicas": 1, "numOfHosts": 2, "template": template(scheduler)},
    ]
    return {"headGroupSpec": {"template": template(scheduler)}, "workerGroupSpecs": groups}


def ray_pods(name: str) -> list[Pod]:
    of_cluster = owner(name, "RayCluster", "ray.io/v1")
    groups = ("headgroup", "one", "two", "two")
    return [
        made_by(of_cluster, f"{name}-{each}", {"ray.io/group": group}) for each, group in enumerate(groups)
    ]


def ray_cluster(scheduler: str) -> Made:
    return Made([workload("RayCluster.ray.io", "rc", **cluster(scheduler))], [ray_pods("rc")])


def ray_job(scheduler: str) -> Made:
    spec, of_job = cluster(scheduler), owner("rj", "RayJob", "ray.io/v1")
    objects = [
        workload("RayJob.ray.io", "rj", rayClusterSpec=spec),
        workload("RayCluster.ray.io", "rc", owner=of_job, **spec),
    ]
    return Made(objects, [ray_pods("rc")])


def ray_service(scheduler: str) -> Made:
    """During an upgrade it has two clusters."""
    service, names = owner("rs", "RayService", "ray.io/v1"), ("old", "new")
    objects = [workload("RayCluster.ray.io", name, owner=service, **cluster(scheduler)) for name in names]
    return Made(objects, [ray_pods(name) for name in names])


def leader_worker_set(scheduler: str) -> Made:
    of_set = owner("lws", "LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1")
    leaders = owner("lws", "StatefulSet", "apps/v1", "uid-sts")
    size = {"size": 3, "workerTemplate": template(scheduler)}
    spec = {"replicas": 2, "podManagementPolicy": "Parallel", "template": stored(scheduler)}
    objects = [
        workload("LeaderWorkerSet.leaderworkerset.x-k8s.io", "lws", replicas=2, leaderWorkerTemplate=size),
        workload("StatefulSet.apps", "lws", uid="uid-sts", owner=of_set, **spec),
    ]
    gangs: list[list[Pod]] = []
    for group in range(2):
        prefix = "leaderworkerset.sigs.k8s.io"
        labels, index = (
            {f"{prefix}/name": "lws", f"{prefix}/group-index": f"{group}"},
            f"{prefix}/worker-index",
        )
        leader = made_by(leaders, f"lws-{group}", {**labels, index: "0"})
        above = owner(leader.metadata.name, "Pod", "v1", leader.metadata.uid)
        workers = owner(f"lws-{group}", "StatefulSet", "apps/v1", f"uid-sts-{group}")
        objects.append(workload("StatefulSet.apps", workers["name"], uid=workers["uid"], owner=above, **spec))
        gangs.append(
            [leader, *[made_by(workers, f"lws-{group}-{i}", {**labels, index: f"{i}"}) for i in (1, 2)]]
        )
    return Made(objects, gangs)


def stateful_set(scheduler: str) -> Made:
    spec = {"replicas": 3, "podManagementPolicy": "Parallel", "template": stored(scheduler)}
    of_set = owner("db", "StatefulSet", "apps/v1")
    pods = [made_by(of_set, f"db-{index}", {label("gang"): "true"}) for index in range(3)]
    return Made([workload("StatefulSet.apps", "db", **spec)], [pods])


def deployment(scheduler: str, labels: Mapping[str, str] | None = None) -> Made:
    of_deployment = owner("web", "Deployment", "apps/v1")
    spec = {"replicas": 3, "template": stored(scheduler)}
    objects = [
        workload("Deployment.apps", "web", **spec),
        workload("ReplicaSet.apps", "web-a", owner=of_deployment, **spec),
    ]
    of_set = owner("web-a", "ReplicaSet", "apps/v1")
    return Made(objects, [[made_by(of_set, f"web-{i}", labels or {label("gang"): "true"}) for i in range(3)]])


def counted_deployment(scheduler: str) -> Made:
    return deployment(scheduler, {label("min-member"): "3"})


KINDS: dict[str, Callable[[str], Made]] = {
    "Job": plain_job,
    "JobSet": job_set,
    "TrainJob": train_job,
    "PyTorchJob": pytorch_job,
    "MPIJob": mpi_job,
    "RayCluster": ray_cluster,
    "RayJob": ray_job,
    "RayService": ray_service,
    "LeaderWorkerSet": leader_worker_set,
    "StatefulSet": stateful_set,
    "Deployment": deployment,
    "Deployment with min-member": counted_deployment,
}
