"""The embedded server serves every kind that the scheduler reads, under the same path."""

import pytest
from phalanx.clock import SystemClock
from phalanx.model.api.kind import Kind
from phalanx.model.api.kinds import KINDS
from phalanx_simulator.embedded.apiserver.kinds import NATIVE_POD_GROUPS, ResourceType
from phalanx_simulator.embedded.apiserver.requests import Request, target_of
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.client import Client

from tests.dialect_crds import (
    HYPER_NODES,
    KAI,
    KAI_QUEUES,
    KAI_TOPOLOGIES,
    SCHEDULER_PLUGINS,
    VOLCANO,
    VOLCANO_JOBS,
    VOLCANO_QUEUES,
)
from tests.node_topologies import CRD

CRDS = {
    "NodeResourceTopology": CRD,
    "SchedulerPluginsPodGroup": SCHEDULER_PLUGINS,
    "VolcanoPodGroup": VOLCANO,
    "VolcanoJob": VOLCANO_JOBS,
    "HyperNode": HYPER_NODES,
    "KaiPodGroup": KAI,
    "KaiTopology": KAI_TOPOLOGIES,
    "VolcanoQueue": VOLCANO_QUEUES,
    "KaiQueue": KAI_QUEUES,
}
"""CRDs of optional kinds of other projects."""


WORKLOADS = (
    ("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
    ("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"),
    ("ray.io", "v1", "rayclusters", "RayCluster"),
    ("ray.io", "v1", "rayjobs", "RayJob"),
    ("ray.io", "v1", "rayservices", "RayService"),
    ("sparkoperator.k8s.io", "v1beta2", "sparkapplications", "SparkApplication"),
    ("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob"),
    ("kubeflow.org", "v2beta1", "mpijobs", "MPIJob"),
    ("kubeflow.org", "v1", "mpijobs", "MPIJob"),
    ("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob"),
    ("kubeflow.org", "v1", "tfjobs", "TFJob"),
    ("kubeflow.org", "v1", "xgboostjobs", "XGBoostJob"),
    ("kubeflow.org", "v1", "paddlejobs", "PaddleJob"),
    ("kubeflow.org", "v1", "jaxjobs", "JAXJob"),
    ("apps", "v1", "statefulsets", "StatefulSet"),
    ("apps", "v1", "deployments", "Deployment"),
    ("apps", "v1", "replicasets", "ReplicaSet"),
)
"""API group, version, plural and kind of workloads, as their CRDs and Kubernetes declare them."""

DEVICES = (
    ("resourceclaims", "ResourceClaim", True),
    ("deviceclasses", "DeviceClass", False),
    ("resourceslices", "ResourceSlice", False),
    ("devicetaintrules", "DeviceTaintRule", False),
)
"""Plural, kind and whether it is namespaced, of Dynamic Resource Allocation."""

OTHERS = {
    **{
        ("resource.k8s.io/v1", kind): ResourceType("resource.k8s.io", "v1", plural, kind, namespaced)
        for plural, kind, namespaced in DEVICES
    },
    ("scheduling.k8s.io/v1beta1", "PodGroup"): NATIVE_POD_GROUPS,
    ("scheduling.k8s.io/v1alpha3", "CompositePodGroup"): ResourceType(
        "scheduling.k8s.io", "v1alpha3", "compositepodgroups", "CompositePodGroup", True, status=True
    ),
    **{
        (f"{group}/{version}", kind): ResourceType(
            group, version, plural, kind, True, custom=True, status=True
        )
        for group, version, plural, kind in WORKLOADS
    },
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_kind_of_the_scheduler_is_served(kind: Kind) -> None:
    server = ApiServer(clock=SystemClock())
    if kind.optional and kind.name != "Job.batch":
        assert server.handle(Request("GET", kind.path())).status == 404
        if kind.name in CRDS:
            Client(server).create("customresourcedefinitions.apiextensions.k8s.io", "", CRDS[kind.name])
        else:
            server.types.add(OTHERS[kind.api_version, kind.api_name])
    target = target_of(kind.path(namespace="default", name="x"), server.types)
    assert (target.type.kind, target.type.namespaced) == (kind.api_name, kind.namespaced)
    assert target.type.api_version == kind.api_version
    assert server.handle(Request("GET", kind.path())).status == 200
