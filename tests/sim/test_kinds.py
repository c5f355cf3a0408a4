"""The embedded server serves every kind that the scheduler reads, under the same path."""

import pytest
from phalanx.clock import SystemClock
from phalanx.model.api.kinds import KINDS, Kind
from phalanx_simulator.embedded.apiserver.kinds import NATIVE_POD_GROUPS, ResourceType
from phalanx_simulator.embedded.apiserver.requests import Request, target_of
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.client import Client

from tests.dialect_crds import HYPER_NODES, KAI, KAI_TOPOLOGIES, SCHEDULER_PLUGINS, VOLCANO, VOLCANO_JOBS
from tests.node_topologies import CRD

CRDS = {
    "NodeResourceTopology": CRD,
    "SchedulerPluginsPodGroup": SCHEDULER_PLUGINS,
    "VolcanoPodGroup": VOLCANO,
    "VolcanoJob": VOLCANO_JOBS,
    "HyperNode": HYPER_NODES,
    "KaiPodGroup": KAI,
    "KaiTopology": KAI_TOPOLOGIES,
}
"""CRDs of optional kinds of other projects."""

JOB_SETS = ResourceType("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", True, custom=True, status=True)
RAY = tuple(
    ResourceType("ray.io", "v1", f"{kind.lower()}s", kind, True, custom=True, status=True)
    for kind in ("RayCluster", "RayJob")
)
OTHERS = {
    "NativePodGroup": NATIVE_POD_GROUPS,
    "JobSet.jobset.x-k8s.io": JOB_SETS,
    **{f"{kind.kind}.ray.io": kind for kind in RAY},
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_kind_of_the_scheduler_is_served(kind: Kind) -> None:
    server = ApiServer(clock=SystemClock())
    if kind.optional and kind.name != "Job.batch":
        assert server.handle(Request("GET", kind.path())).status == 404
        if kind.name in CRDS:
            Client(server).create("customresourcedefinitions.apiextensions.k8s.io", "", CRDS[kind.name])
        else:
            server.types.add(OTHERS[kind.name])
    target = target_of(kind.path(namespace="default", name="x"), server.types)
    assert (target.type.kind, target.type.namespaced) == (kind.api_name, kind.namespaced)
    assert target.type.api_version == kind.api_version
    assert server.handle(Request("GET", kind.path())).status == 200
