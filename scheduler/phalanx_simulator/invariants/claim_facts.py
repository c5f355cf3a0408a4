"""What checks read of claims to volumes and devices."""

from collections.abc import Iterator, Mapping
from typing import Final

from phalanx.model.names import NodeName
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.devices.cluster import ClusterDevices

from phalanx_simulator.embedded.pod_claims import claim_names
from phalanx_simulator.embedded.store import Key, Object, Store

VOLUME_CLAIMS: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"
DEVICE_CLAIMS: Final = "resourceclaims.resource.k8s.io"
SLICES: Final = "resourceslices.resource.k8s.io"
DEVICE_CLASSES: Final = "deviceclasses.resource.k8s.io"
CLASSES: Final = "storageclasses.storage.k8s.io"
CLAIM_KINDS: Final = (
    *(VOLUME_CLAIMS, VOLUMES, DEVICE_CLAIMS, SLICES, CLASSES),
    *("csistoragecapacities.storage.k8s.io", DEVICE_CLASSES),
)
"""The kinds whose changes may let a gang start."""
COMPLETED: Final = "pv.kubernetes.io/bind-completed"
SELECTED: Final = "volume.kubernetes.io/selected-node"

_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"

Device = tuple[str, str, str]
"""Driver, pool and name."""


def found(store: Store, key: Key) -> Object | None:
    """The object as it is now."""
    entry = store.get(key)
    return None if entry is None else entry.data


def volume_claims_of(pod: Object) -> Iterator[str]:
    """The PersistentVolumeClaims that a pod mounts."""
    for volume in pod.get("spec", {}).get("volumes") or []:
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"]
        elif "ephemeral" in volume:
            yield f"{pod['metadata']['name']}-{volume['name']}"


def awaits_a_volume(pod: Object, store: Store) -> bool:
    """Whether a claim of the pod waits for a volume of the node that a scheduler selected."""
    for name in volume_claims_of(pod):
        claim = found(store, Key(VOLUME_CLAIMS, pod["metadata"]["namespace"], name))
        annotations = (claim or {"metadata": {}})["metadata"].get("annotations") or {}
        if claim is not None and SELECTED in annotations and not claim["spec"].get("volumeName"):
            return True
    return False


def device_claims_of(pod: Object) -> Iterator[str]:
    """The ResourceClaims of a pod, also the one that its status names for extended resources; an empty name
    for one that is not made yet."""
    yield from claim_names(pod) if pod else ()


def owner_of(claim: Object) -> str:
    """The UID of the pod that controls the claim; empty without one."""
    owners = claim["metadata"].get("ownerReferences") or ()
    return next((each["uid"] for each in owners if each["kind"] == "Pod" and each.get("controller")), "")


def extended_resources(store: Store) -> set[str]:
    """The extended resources that devices of a class satisfy."""
    found: set[str] = set()
    for entry in store.entries(DEVICE_CLASSES):
        found |= {_CLASS_PREFIX + entry.key.name, entry.data["spec"].get("extendedResourceName") or ""}
    return found - {""}


def devices_wanted(pod: Object, resources: set[str]) -> Mapping[tuple[str, str], int]:
    """The devices that each container of a pod requests, by container and extended resource."""
    return {
        (container["name"], name): int(amount)
        for container in pod.get("spec", {}).get("containers") or ()
        for name, amount in (container.get("resources", {}).get("requests") or {}).items()
        if name in resources and int(amount)
    }


def is_of_devices(name: str, node: NodeName, snapshot: Snapshot) -> bool:
    """Whether devices satisfy this resource on the node, which does not offer it. How many there are is not
    known to checks that compare amounts."""
    state = snapshot.nodes.get(node)
    extended = snapshot.part(ClusterDevices).extended
    return name in extended and (state is None or not state.node.allocatable.get(name))


def devices_of(claim: Object) -> Iterator[Device]:
    """The devices that are allocated to a ResourceClaim, without those for administrators."""
    return (device for device, _ in results_of(claim))


def results_of(claim: Object) -> Iterator[tuple[Device, Object]]:
    """The same devices, with what the allocation says of each."""
    return ((place, each) for place, each in _results(claim) if not each.get("adminAccess"))


def unready_devices(claim: Object) -> Iterator[str]:
    """The allocated devices whose binding conditions are not all true, or of which one says that it failed;
    each with the condition."""
    true = _true_conditions(claim)
    for place, each in _results(claim):
        failed = [one for one in each.get("bindingFailureConditions") or () if (*place, one) in true]
        lacking = [one for one in each.get("bindingConditions") or () if (*place, one) not in true]
        if failed or lacking:
            yield f"{each['device']} ({(failed or lacking)[0]})"


def has_failed(claim: Object) -> bool:
    """Whether a driver says that an allocated device cannot be prepared."""
    true = _true_conditions(claim)
    return any(
        (*place, one) in true
        for place, each in _results(claim)
        for one in each.get("bindingFailureConditions") or ()
    )


def _results(claim: Object) -> Iterator[tuple[Device, Object]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for each in (allocation.get("devices") or {}).get("results") or ():
        yield (each["driver"], each["pool"], each["device"]), each


def _true_conditions(claim: Object) -> set[tuple[str, ...]]:
    """Driver, pool and device, each with a condition that is true."""
    return {
        (each["driver"], each["pool"], each["device"], one["type"])
        for each in (claim.get("status") or {}).get("devices") or ()
        for one in each.get("conditions") or ()
        if one["status"] == "True"
    }


def consumers_of(claim: Object) -> Iterator[str]:
    """The UIDs of the pods for which a ResourceClaim is reserved."""
    for each in (claim.get("status") or {}).get("reservedFor") or ():
        yield each["uid"]


def matches(terms: Object | None, labels: Object, name: str) -> bool:
    """Whether a node matches one of the terms of a node selector, or there is none.

    In and Exists are the operators of simulated volumes and devices; a field is the name of the node.
    """
    if terms is None:
        return True
    return any(
        all(_holds(each, labels) for each in term.get("matchExpressions") or ())
        and all(name in each["values"] for each in term.get("matchFields") or ())
        for term in terms["nodeSelectorTerms"]
    )


def _holds(rule: Object, labels: Object) -> bool:
    if rule["key"] not in labels:
        return False
    return bool(rule["operator"] == "Exists" or labels[rule["key"]] in rule["values"])
