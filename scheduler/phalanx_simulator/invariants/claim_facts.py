"""What checks read of claims to volumes and devices."""

from collections.abc import Iterator
from typing import Final

from phalanx_simulator.embedded.store import Key, Object, Store

VOLUME_CLAIMS: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"
DEVICE_CLAIMS: Final = "resourceclaims.resource.k8s.io"
SLICES: Final = "resourceslices.resource.k8s.io"
CLASSES: Final = "storageclasses.storage.k8s.io"
CLAIM_KINDS: Final = (
    *(VOLUME_CLAIMS, VOLUMES, DEVICE_CLAIMS, SLICES, CLASSES),
    *("csistoragecapacities.storage.k8s.io", "deviceclasses.resource.k8s.io"),
)
"""The kinds whose changes may let a gang start."""
COMPLETED: Final = "pv.kubernetes.io/bind-completed"
SELECTED: Final = "volume.kubernetes.io/selected-node"

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


def device_claims_of(pod: Object) -> Iterator[str]:
    """The ResourceClaims of a pod; an empty name for one that is not made yet."""
    made = {each["name"]: each for each in pod.get("status", {}).get("resourceClaimStatuses") or ()}
    for entry in pod.get("spec", {}).get("resourceClaims") or ():
        name = entry.get("resourceClaimName") or made.get(entry["name"], {}).get("resourceClaimName")
        yield name or ""


def devices_of(claim: Object) -> Iterator[Device]:
    """The devices that are allocated to a ResourceClaim, without those for administrators."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for each in (allocation.get("devices") or {}).get("results") or ():
        if not each.get("adminAccess"):
            yield each["driver"], each["pool"], each["device"]


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
