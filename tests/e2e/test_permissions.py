"""The permissions of `deploy/base` are sufficient, and each is used."""

import pytest
from phalanx.model.workloads.known import WORKLOADS
from phalanx.model.workloads.trainer import TRAIN_JOB

from tests.deploy.manifests import base
from tests.e2e.audit_log import Permission, granted
from tests.e2e.conftest import Cluster
from tests.e2e.devices import claiming_gang, create_devices
from tests.e2e.pod_history import watching
from tests.e2e.scheduler_process import scheduler
from tests.e2e.workloads import (
    Manifest,
    create,
    create_cluster,
    create_gangs,
    members,
    pod_group,
    queue,
)
from tests.fake_objects import fake_pod

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("e2e")]

RARELY_USED = {
    Permission("", "configmaps", "create"): "records of gangs of several pods without a PodGroup",
    Permission("", "configmaps", "patch"): "the same records, once there are some",
    Permission(
        "scheduling.phalanx.dev", "podgroups", "get"
    ): "read again when its status changed before a placement",
    Permission(
        "scheduling.volcano.sh", "queues", "watch"
    ): "queues of Volcano, if the configuration says that they count",
    Permission(
        "scheduling.run.ai", "queues", "watch"
    ): "queues of KAI, if the configuration says that they count",
    Permission(
        "scheduling.k8s.io", "podgroups/status", "patch"
    ): "the condition of native PodGroups, which this API server does not serve",
    Permission(
        "scheduling.volcano.sh", "podgroups", "patch"
    ): "the status of Volcano's PodGroups, which this API server does not serve",
    Permission(
        "scheduling.run.ai", "podgroups/status", "patch"
    ): "the condition of KAI's PodGroups, which this API server does not serve",
    Permission(
        "resource.k8s.io", "resourceclaims/binding", "patch"
    ): "the API server asks for it when an allocation is written to the status; no request names it",
    Permission(
        "resource.k8s.io", "resourceclaims", "create"
    ): "the claim for extended resources of a pod; tests/e2e/test_extended_resources.py",
    Permission(
        "resource.k8s.io", "resourceclaims", "delete"
    ): "the same, when the pod is not bound; tests/kube/test_extended_resource_claims.py",
    Permission("", "persistentvolumeclaims", "get"): "read when a provisioner may have given up",
    Permission("", "persistentvolumes", "get"): "read before a volume that exists already is reserved",
    Permission("", "persistentvolumes", "patch"): "a volume that exists already; tests/e2e/test_volumes.py",
    Permission("", "pods", "get"): "read back after a bind whose outcome is unknown or that was refused",
    Permission("", "pods", "delete"): "release of a gang that lost members while it was being bound",
    Permission("events.k8s.io", "events", "patch"): "an event that is repeated after minutes",
    **{
        Permission(kind.group, kind.plural, "watch"): "workloads that own no pod here"
        for kind in WORKLOADS.values()
        if kind.kind != "Job"
    },
    **{
        Permission(kind.group, kind.plural, verb): "eviction of all its pods, or a Job that is made smaller"
        for kind in (*WORKLOADS.values(), TRAIN_JOB)
        if kind.suspended
        for verb in ("get", "patch")
    },
}


def job(name: str, *, space: str) -> Manifest:
    """A Job without a PodGroup, which waits since it needs more than a node."""
    template = fake_pod(name, requests={"cpu": "9"})["spec"] | {"restartPolicy": "Never"}
    meta = {"name": name, "namespace": space}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": {"template": {"spec": template}},
    }


def late_volume(*, space: str) -> list[Manifest]:
    """A pod whose volume is to be provisioned, which nobody does here."""
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "late"},
        "provisioner": "disk.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": space},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    (pod,) = members("mounts", space=space, size=1, requests={"cpu": "1"})
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return [storage_class, claim, pod_group("mounts", space=space, size=1), pod]


async def test_an_ordinary_run_uses_every_permission_and_is_denied_none(shared_cluster: Cluster) -> None:
    plane = shared_cluster.plane
    await create_cluster(plane, count=2, cpu=4, space="permissions")
    await create(plane, queue("team"))
    permissions = granted(base("ClusterRole", "phalanx-scheduler"), base("Role", "phalanx-lease"))
    # Lists are used only if a watch cannot start with one.
    lists = {permission for permission in permissions if permission.verb == "list"}
    expected = permissions - lists - set(RARELY_USED)
    async with watching(plane) as history, scheduler(plane, shared_cluster.kubeconfig) as process:
        await create_gangs(plane, space="permissions", count=1, size=4)
        await create(plane, pod_group("large", space="permissions", size=9, queue="team"))
        await create(plane, job("plain", space="permissions"))
        await create(plane, *late_volume(space="permissions"))
        await create_devices(plane, space="permissions", nodes=["node-0000"], count=1)
        claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
        await create(plane, *claiming_gang("claims", space="permissions", size=1, claims=claims))
        await create(plane, *members("large", space="permissions", size=9, requests={"cpu": "1"}))
        await history.until_bound(5, timeout=60)
        await shared_cluster.audit.until_used(expected)
        await process.stop()
    assert shared_cluster.audit.used() <= permissions
    assert shared_cluster.audit.denied() == []
