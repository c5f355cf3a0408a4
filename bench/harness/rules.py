"""Rules of kube-scheduler that pods of a workload have, and the other objects that these need."""

import enum
from typing import Any, Final

Manifest = dict[str, Any]

DRIVER: Final = "disk.example.com"
DEVICES_PER_NODE: Final = 8
_STORAGE_CLASS: Final = "late"
_DEVICE_CLASS: Final = "accelerator"
_DEVICE_DRIVER: Final = "gpu.example.com"
_ZONE: Final = "topology.kubernetes.io/zone"
_RACK: Final = "cloud.provider.com/topology-rack"
_RESOURCE_API: Final = "resource.k8s.io/v1"


class Rule(enum.StrEnum):
    """What each pod of a gang asks for beside its requests."""

    NONE = ""
    SPREAD = "spread"
    """The pods of the gang differ by at most one between zones."""
    AFFINITY = "preferredAffinity"
    """The pods of the gang prefer to be in one rack."""
    VOLUME = "volume"
    """Each pod has a claim of its own, for which a volume is created when a node is selected."""
    DEVICE = "device"
    """Each pod has a claim to one device, by Dynamic Resource Allocation."""


def fields(rule: Rule, *, pod: str, selector: dict[str, str]) -> Manifest:
    """The fields of the spec of a pod. `selector`: the labels of the pods of its gang."""
    labels = {"labelSelector": {"matchLabels": selector}}
    match rule:
        case Rule.SPREAD:
            spread = {"maxSkew": 1, "topologyKey": _ZONE, "whenUnsatisfiable": "DoNotSchedule", **labels}
            return {"topologySpreadConstraints": [spread]}
        case Rule.AFFINITY:
            term = {"weight": 100, "podAffinityTerm": {"topologyKey": _RACK, **labels}}
            preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [term]}
            return {"affinity": {"podAffinity": preferred}}
        case Rule.VOLUME:
            return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": _claim_name(pod)}}]}
        case Rule.DEVICE:
            return {"resourceClaims": [{"name": "device", "resourceClaimName": _claim_name(pod)}]}
        case _:
            return {}


def claim(rule: Rule, *, pod: str, namespace: str) -> list[Manifest]:
    """The claim of a pod, if it has one; it is created before the pod."""
    metadata = {"name": _claim_name(pod), "namespace": namespace}
    if rule is Rule.VOLUME:
        spec: Manifest = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": _STORAGE_CLASS,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        return [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}]
    if rule is Rule.DEVICE:
        request = {"name": "device", "exactly": {"deviceClassName": _DEVICE_CLASS}}
        spec = {"devices": {"requests": [request]}}
        return [{"apiVersion": _RESOURCE_API, "kind": "ResourceClaim", "metadata": metadata, "spec": spec}]
    return []


def setup(used: set[Rule], *, nodes: list[str]) -> list[Manifest]:
    """Objects of the cluster that these rules need: classes, and the devices of each node."""
    found: list[Manifest] = []
    if Rule.VOLUME in used:
        found.append(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": _STORAGE_CLASS},
                "provisioner": DRIVER,
                "volumeBindingMode": "WaitForFirstConsumer",
            }
        )
    if Rule.DEVICE in used:
        expression = f'device.driver == "{_DEVICE_DRIVER}"'
        found.append(
            {
                "apiVersion": _RESOURCE_API,
                "kind": "DeviceClass",
                "metadata": {"name": _DEVICE_CLASS},
                "spec": {"selectors": [{"cel": {"expression": expression}}]},
            }
        )
        found += [_slice(node) for node in nodes]
    return found


def _slice(node: str) -> Manifest:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"device-{index}"} for index in range(DEVICES_PER_NODE)]
    return {
        "apiVersion": _RESOURCE_API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-devices"},
        "spec": {"driver": _DEVICE_DRIVER, "nodeName": node, "pool": pool, "devices": devices},
    }


def _claim_name(pod: str) -> str:
    return f"data-{pod}"
