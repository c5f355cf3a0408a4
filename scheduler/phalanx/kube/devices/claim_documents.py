"""The pure part of writing claims: what a scheduler writes into the status of a ResourceClaim.

Read from the API: the claim, for its configuration and its consumers, and its device classes. Decided: the
devices and the nodes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from phalanx.kube.preparation import Unprepared
from phalanx.model.supplies.devices.capacity import as_quantity
from phalanx.model.supplies.devices.claims import AllocatedDevice, Allocation, ClaimGrant
from phalanx.model.supplies.devices.extended_resources import ANNOTATION, name_prefix
from phalanx.model.supplies.devices.limits import CLAIM_CONSUMERS_MAX
from phalanx.model.supplies.devices.pools import NodeChoice

Document = dict[str, Any]

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Keeps an allocated claim from being deleted; the scheduler adds it before it writes the allocation."""


class ClaimLost(Unprepared):
    """The claim can certainly not be used as decided. The text says which claim and why."""


def needed_classes(claim: Document, grant: ClaimGrant) -> tuple[str, ...]:
    """The names of the device classes of the allocated requests, whose configuration is written too."""
    if grant.allocation is None or _allocation_of(claim) is not None:
        return ()
    return tuple(dict.fromkeys(class_name for _, class_name in _allocated_requests(claim, grant.allocation)))


def reservation(
    claim: Document,
    grant: ClaimGrant,
    *,
    pods: Sequence[Document],
    classes: Mapping[str, Document],
    now: str,
) -> Document | None:
    """The status fields to write, so that the pods may use the claim; None if they are there already.

    `pods` are the references to them. Raises ClaimLost.
    """
    _require_usable(claim, grant)
    consumers = list(claim.get("status", {}).get("reservedFor") or ())
    found = _allocation_of(claim)
    known = {each.get("uid") for each in consumers}
    added = [pod for pod in pods if pod["uid"] not in known]
    if found is not None and not added:
        return None
    if added and len(consumers) + len(added) > CLAIM_CONSUMERS_MAX:
        raise ClaimLost(f"{grant} cannot have more than {CLAIM_CONSUMERS_MAX} pods, the limit of the API")
    written: Document = {"reservedFor": [*consumers, *added]}
    if found is None and grant.allocation is not None:
        written["allocation"] = _allocation(claim, grant.allocation, classes, now)
    return written


def release(claim: Document, grant: ClaimGrant, *, uid: str) -> Document | None:
    """The status fields to write when the pod does not use the claim; None if there is nothing to write.

    An allocation that was decided for this placement is given back with the last consumer.
    """
    status = claim.get("status", {})
    if claim["metadata"].get("uid") != grant.uid:
        return None
    consumers = list(status.get("reservedFor") or ())
    rest = [each for each in consumers if each.get("uid") != uid]
    gives_back = (
        not rest
        and grant.allocation is not None
        and (found := _allocation_of(claim)) is not None
        and _devices_in(found) == _devices_of(grant.allocation)
    )
    if len(rest) == len(consumers) and not gives_back:
        return None
    written: Document = {"reservedFor": rest or None}
    if gives_back:
        written["allocation"] = None
        if status.get("devices"):
            written["devices"] = None
    return written


def extended_claim_document(grant: ClaimGrant, *, pod: str, uid: str) -> Document:
    """The claim for the extended resources of a pod, as kube-scheduler makes it."""
    requests = grant.extended_claim.requests if grant.extended_claim is not None else ()
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": True}
    return {
        "metadata": {
            "name": grant.name,
            "generateName": name_prefix(pod),
            "annotations": {ANNOTATION: "true"},
            "ownerReferences": [owner],
        },
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": each.name,
                        "exactly": {
                            "deviceClassName": each.device_class,
                            "allocationMode": "ExactCount",
                            "count": each.count,
                        },
                    }
                    for each in requests
                ]
            }
        },
    }


def is_extended_claim_of(claim: Document, uid: str) -> bool:
    """Whether the claim was made for extended resources of this pod."""
    meta = claim["metadata"]
    owners = [each.get("uid") for each in meta.get("ownerReferences", ()) if each.get("controller")]
    return meta.get("annotations", {}).get(ANNOTATION) == "true" and owners == [uid]


def same_requests(claim: Document, wanted: Document) -> bool:
    """Whether the claim asks for the devices that another one does."""
    return _asked(claim) == _asked(wanted)


def _asked(claim: Document) -> set[tuple[str, str, int]]:
    return {(name, each.get("deviceClassName", ""), each.get("count", 1)) for name, each in _requests(claim)}


def extended_claim_status(grant: ClaimGrant, *, uid: str) -> Document:
    """The change of a pod that says which devices each container has for its extended resources."""
    mappings = [
        {"containerName": each.container, "resourceName": each.resource, "requestName": each.request}
        for each in (grant.extended_claim.mappings if grant.extended_claim is not None else ())
    ]
    found = {"resourceClaimName": grant.name, "requestMappings": mappings}
    return {"metadata": {"uid": uid}, "status": {"extendedResourceClaimStatus": found}}


def _require_usable(claim: Document, grant: ClaimGrant) -> None:
    meta, found = claim["metadata"], _allocation_of(claim)
    if meta.get("uid") != grant.uid:
        raise ClaimLost(f"{grant}: the name belongs to another claim now")
    if meta.get("deletionTimestamp"):
        raise ClaimLost(f"{grant} is being deleted")
    if grant.allocation is None:
        if found is None:
            raise ClaimLost(f"{grant} is not allocated any more")
    elif found is not None and _devices_in(found) != _devices_of(grant.allocation):
        raise ClaimLost(f"{grant} was allocated by another scheduler meanwhile")


def _allocation_of(claim: Document) -> Document | None:
    found: Document | None = claim.get("status", {}).get("allocation")
    return found


def _devices_in(allocation: Document) -> set[tuple[str, ...]]:
    results = allocation.get("devices", {}).get("results") or ()
    keys = ("request", "driver", "pool", "device", "shareID")
    return {tuple(each.get(key) or "" for key in keys) for each in results}


def _devices_of(allocation: Allocation) -> set[tuple[str, ...]]:
    return {(each.request, *each.device, each.share_id) for each in allocation.devices}


# --- the allocation -----------------------------------------------------------------------------------------


def _allocation(
    claim: Document, allocation: Allocation, classes: Mapping[str, Document], now: str
) -> Document:
    requests = dict(_requests(claim))
    results = []
    for each in allocation.devices:
        driver, pool, device = each.device
        result: Document = {"request": each.request, "driver": driver, "pool": pool, "device": device}
        if each.admin_access:
            result["adminAccess"] = True
        if each.binding is not None:
            result["bindingConditions"] = list(each.binding.conditions)
            if each.binding.failures:
                result["bindingFailureConditions"] = list(each.binding.failures)
        if each.share_id:
            result |= _share(each)
        if tolerations := requests.get(each.request, {}).get("tolerations"):
            result["tolerations"] = tolerations
        results.append(result)
    written: Document = {"devices": {"results": results}, "allocationTimestamp": now}
    if config := _config(claim, allocation, classes):
        written["devices"]["config"] = config
    if (selector := _node_selector(allocation.nodes)) is not None:
        written["nodeSelector"] = selector
    return written


def _share(each: AllocatedDevice) -> Document:
    """What a result says of a share. Its ID follows from the claim, so that a repeated write has the same."""
    consumed = {name: as_quantity(amount) for name, amount in each.consumed}
    return {"shareID": each.share_id, **({"consumedCapacity": consumed} if consumed else {})}


def _requests(claim: Document) -> Iterator[tuple[str, Document]]:
    """Each request and each alternative, by its name in results."""
    for each in claim.get("spec", {}).get("devices", {}).get("requests") or ():
        if exactly := each.get("exactly"):
            yield each["name"], exactly
        for alternative in each.get("firstAvailable") or ():
            yield f"{each['name']}/{alternative['name']}", alternative


def _allocated_requests(claim: Document, allocation: Allocation) -> Iterator[tuple[str, str]]:
    """The requests and alternatives that have devices, with the names of their classes."""
    allocated = {each.request for each in allocation.devices}
    for name, request in _requests(claim):
        if name in allocated:
            yield name, request["deviceClassName"]


def _config(claim: Document, allocation: Allocation, classes: Mapping[str, Document]) -> list[Document]:
    """The configurations of the classes, each with the requests that use the class; then the claim's own."""
    chosen = list(_allocated_requests(claim, allocation))
    names = [name for name, _ in chosen]
    found: list[Document] = []
    for class_name in dict.fromkeys(class_name for _, class_name in chosen):
        users = [name for name, of in chosen if of == class_name]
        own = classes[class_name].get("spec", {}).get("config") or ()
        found += [_with_requests({"source": "FromClass", **each}, users, names) for each in own]
    for each in claim.get("spec", {}).get("devices", {}).get("config") or ():
        wanted = each.get("requests") or ()
        if not wanted or any(_names(name) & set(wanted) for name in names):
            found.append(_with_requests({"source": "FromClaim", **each}, wanted, names))
    return found


def _with_requests(config: Document, requests: Sequence[str], names: Sequence[str]) -> Document:
    """With the requests that it is for; none if it is for all."""
    config.pop("requests", None)
    if all(_names(name) & set(requests) for name in names) or not requests:
        return config
    return {**config, "requests": list(requests)}


def _names(request: str) -> set[str]:
    """The names by which a configuration can mean the request."""
    return {request, request.partition("/")[0]}


def _node_selector(nodes: NodeChoice) -> Document | None:
    if nodes.node:
        named = {"key": "metadata.name", "operator": "In", "values": [nodes.node]}
        return {"nodeSelectorTerms": [{"matchFields": [named]}]}
    if nodes.all_nodes or nodes.terms is None:
        return None
    terms = []
    for term in nodes.terms:
        by_place: dict[str, list[Document]] = {}
        for each in term.requirements:
            place = "matchFields" if each.on_field else "matchExpressions"
            values = {"values": list(each.values)} if each.values else {}
            by_place.setdefault(place, []).append({"key": each.key, "operator": each.operator, **values})
        terms.append(by_place)
    return {"nodeSelectorTerms": terms}
