"""The manifests of gangs for Phalanx, and for schedulers of plain pods."""

from typing import Any

import yaml
from msgspec import Struct
from phalanx.model.names import API_VERSION, LABEL_POD_GROUP, LABEL_ROLE
from phalanx.resources import data_dir

from bench.harness.gangs import LEVELS, NAMESPACE, Gang, Manifest, role_of

LEASE_NAMESPACE = "phalanx-system"


class PhalanxDialect(Struct, frozen=True):
    """The kinds of Phalanx. A gang of one pod is a pod without a PodGroup."""

    def crds(self) -> list[Manifest]:
        """The CRDs of Phalanx."""
        return [yaml.safe_load(path.read_text()) for path in sorted(data_dir("crds").glob("*s.yaml"))]

    def setup(self) -> list[Manifest]:
        """The namespace of the Lease, the levels of the workload's nodes, and its two queues."""
        levels = [{"name": name, "nodeLabel": label} for name, label in LEVELS.items()]
        return [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}},
            _object("Topology", {"name": "default"}, {"levels": levels}),
            *(_object("Queue", {"name": name}, {"weight": 1}) for name in ("lender", "owner")),
        ]

    def ready_path(self) -> str:
        """The path of Topologies."""
        return f"/apis/{API_VERSION}/topologies"

    def group(self, gang: Gang) -> list[Manifest]:
        """A PodGroup that needs all pods, with roles where there are several."""
        if gang.size == 1:
            return []
        spec: dict[str, Any] = {"minMember": gang.size}
        if len(gang.roles) > 1:
            spec["roles"] = [{"name": role.name, "count": role.count} for role in gang.roles]
        if gang.level:
            spec["topology"] = {"required": gang.level}
        if gang.priority:
            spec["priorityClassName"] = gang.priority_class
        if gang.queue:
            spec["queue"] = gang.queue
        return [pod_group(API_VERSION, gang, spec)]

    def pod(self, gang: Gang, pod: Manifest) -> Manifest:
        """The pod with the labels of its PodGroup and role."""
        labels = {LABEL_POD_GROUP: gang.name} if gang.size > 1 else {}
        if len(gang.roles) > 1:
            labels[LABEL_ROLE] = role_of(gang, pod)
        return with_scheduler(pod, "phalanx", labels=labels)


class PlainDialect(Struct, frozen=True):
    """Plain pods: the scheduler sees no gangs and no required level."""

    scheduler_name: str

    def crds(self) -> list[Manifest]:
        """None."""
        return []

    def setup(self) -> list[Manifest]:
        """Nothing."""
        return []

    def ready_path(self) -> str:
        """Nothing to wait for."""
        return ""

    def group(self, gang: Gang) -> list[Manifest]:
        """No group."""
        return []

    def pod(self, gang: Gang, pod: Manifest) -> Manifest:
        """The pod, for this scheduler."""
        return with_scheduler(pod, self.scheduler_name)


def with_scheduler(pod: Manifest, name: str, *, labels: dict[str, str] | None = None) -> Manifest:
    """A copy of the pod with this schedulerName and more labels."""
    metadata = {**pod["metadata"], "labels": {**pod["metadata"]["labels"], **(labels or {})}}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "schedulerName": name}}


def pod_group(api_version: str, gang: Gang, spec: dict[str, Any]) -> Manifest:
    """The PodGroup of a gang; the kinds of the schedulers differ in API group and spec."""
    metadata = {"name": gang.name, "namespace": NAMESPACE}
    return {"apiVersion": api_version, "kind": "PodGroup", "metadata": metadata, "spec": spec}


def _object(kind: str, metadata: dict[str, str], spec: dict[str, Any]) -> Manifest:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
