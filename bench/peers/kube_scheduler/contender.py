"""kube-scheduler 1.37 with its feature gates for gangs (KEP-4671) and for topology (KEP-5732)."""

from typing import Any

from msgspec import Struct
from phalanx_controlplane.components import KubeScheduler

from bench.harness.contenders import KUBE_SCHEDULER, Contender
from bench.harness.dialects import pod_group, with_scheduler
from bench.harness.gangs import LEVELS, Gang, Manifest

API_VERSION = "scheduling.k8s.io/v1beta1"
GANGS = "GenericWorkload=true"
TOPOLOGY = "TopologyAwareWorkloadScheduling=true"


class NativeDialect(Struct, frozen=True):
    """PodGroups of Kubernetes; without `levels` they require no level, since that feature gate is off.

    A gang of one pod is a pod without a PodGroup. Workloads are templates; kube-scheduler does not read them.
    """

    levels: bool

    def crds(self) -> list[Manifest]:
        """None, since the kind is built in."""
        return []

    def setup(self) -> list[Manifest]:
        """Nothing."""
        return []

    def ready_path(self) -> str:
        """The path of PodGroups."""
        return f"/apis/{API_VERSION}/podgroups"

    def group(self, gang: Gang) -> list[Manifest]:
        """A PodGroup that needs all pods, in one domain of the level."""
        if gang.size == 1:
            return []
        spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": gang.size}}}
        if self.levels and gang.level:
            spec["schedulingConstraints"] = {"topology": [{"key": LEVELS[gang.level]}]}
        if gang.priority:
            spec["priorityClassName"] = gang.priority_class
        return [pod_group(API_VERSION, gang, spec)]

    def pod(self, gang: Gang, pod: Manifest) -> Manifest:
        """The pod with its PodGroup in the spec."""
        made = with_scheduler(pod, "default-scheduler")
        if gang.size > 1:
            made["spec"]["schedulingGroup"] = {"podGroupName": gang.name}
        return made


def _contender(name: str, *gates: str) -> Contender:
    levels = TOPOLOGY in gates
    names = ", ".join(gate.removesuffix("=true") for gate in gates)
    return Contender(
        name=name,
        dialect=NativeDialect(levels=levels),
        start=KUBE_SCHEDULER.start,
        kube_scheduler=KubeScheduler(feature_gates=gates),
        feature_gates=(*gates, f"{API_VERSION}=true"),
        deviation=f"{KUBE_SCHEDULER.deviation}; gates that are off by default: {names}",
        only_with=("level",) if levels else (),
    )


KUBE_SCHEDULER_GANGS = _contender("kube-scheduler (gangs)", GANGS)
KUBE_SCHEDULER_TOPOLOGY = _contender("kube-scheduler (gangs, topology)", GANGS, TOPOLOGY)
