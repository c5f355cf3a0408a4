"""NUMA zones that nodes publish, and what a kubelet aligns of a pod (see `phalanx.model.numa`)."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from phalanx.limits import (
    AMOUNT_MAX,
    NUMA_CONTAINERS_MAX,
    NUMA_MEMORY_ROUNDED_BYTES,
    NUMA_MEMORY_STEP_BYTES,
    NUMA_ZONES_MAX,
    POD_REQUEST_MAX,
)
from phalanx.model.api import core
from phalanx.model.conversion.requests import aggregate, read_amounts, with_defaults
from phalanx.model.nodes import Amounts, Numa, ZoneLayout
from phalanx.model.numa import NumaRequest, numa_resource
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import CPU, MEMORY, InvalidQuantity, Resources, capacity_amount, sum_of

_POLICY: Final = "topologyManagerPolicy"
_SCOPE: Final = "topologyManagerScope"
_STRICT: Final = "single-numa-node"
_RESTRICTED: Final = "restricted"
_CONTAINER: Final = "container"
_POD: Final = "pod"

_POLICIES: Final = {
    "SingleNUMANodeContainerLevel": (_STRICT, _CONTAINER),
    "SingleNUMANodePodLevel": (_STRICT, _POD),
    "Restricted": (_RESTRICTED, _CONTAINER),
    "RestrictedContainerLevel": (_RESTRICTED, _CONTAINER),
    "RestrictedPodLevel": (_RESTRICTED, _POD),
    "BestEffort": ("best-effort", _CONTAINER),
    "BestEffortContainerLevel": ("best-effort", _CONTAINER),
    "BestEffortPodLevel": ("best-effort", _POD),
    "None": ("none", _CONTAINER),
}
"""The older spelling of a policy -> policy and scope."""

_ATTRIBUTES: Final = {
    "topologyManagerPolicy": (_STRICT, _RESTRICTED, "best-effort", "none"),
    "topologyManagerScope": (_CONTAINER, _POD),
}

_NUMA_NODE: Final = "Node"
"""The type of a zone that is a NUMA node."""

_CORE: Final = 1000


class NumaReport(Struct, frozen=True, gc=False):
    """What a NodeResourceTopology says. `numa` is None where the kubelet rejects nothing for its zones."""

    numa: Numa | None = None
    problems: tuple[Objection, ...] = ()


def read_zones(written: core.NodeResourceTopology) -> NumaReport:
    """One NodeResourceTopology. What makes no sense is named, and counts as not there.

    So an amount that cannot be read is one that the zone does not have, and an unknown policy is none.
    """
    wrong: list[str] = []
    policy, scope = _policy(written, wrong)
    zones = _zones(written, wrong)
    numa = None
    if zones and policy in (_STRICT, _RESTRICTED):
        numa = Numa(
            layout=ZoneLayout(
                zones=tuple(_sorted(zone.offered) for zone in zones),
                bound=_bound(zones, strict=policy == _STRICT),
                by_container=scope == _CONTAINER,
            ),
            available=tuple(_sorted(zone.available) for zone in zones),
            published=_sorted(sum_of(zone.used for zone in zones)),
        )
    problems = [Objection(Reason.INVALID_OBJECT, f"NodeResourceTopology field {why}") for why in wrong]
    return NumaReport(numa, tuple(problems))


def _policy(written: core.NodeResourceTopology, wrong: list[str]) -> tuple[str, str]:
    """Policy and scope: of the attributes where they tell, else of the older field."""
    policy, scope = "none", _CONTAINER
    for old in written.topology_policies[:1]:
        if old not in _POLICIES:
            wrong.append(f"topologyPolicies[0]: {old!r} is not valid, expected {_one_of(_POLICIES)}")
        policy, scope = _POLICIES.get(old, (policy, scope))
    for index, attribute in enumerate(written.attributes):
        known = _ATTRIBUTES.get(attribute.name, (attribute.value,))
        if attribute.value not in known:
            says = f"{attribute.value!r} is not valid for {attribute.name}, expected {_one_of(known)}"
            wrong.append(f"attributes[{index}].value: {says}")
        elif attribute.name == _POLICY:
            policy = attribute.value
        elif attribute.name == _SCOPE:
            scope = attribute.value
    return policy, scope


def _one_of(known: Iterable[str]) -> str:
    return f"one of {', '.join(known)}"


class _Zone(Struct, frozen=True):
    """`largest`: what counts when the kubelet asks whether a single zone could do if nothing ran.

    `used` is exact; of what it offers and has available odd bytes are left out, so that nodes are alike.
    """

    offered: Resources
    available: Resources
    used: Resources
    largest: Resources


def _zones(written: core.NodeResourceTopology, wrong: list[str]) -> list[_Zone]:
    """The zones that are NUMA nodes."""
    zones: dict[str, _Zone] = {}
    for place, zone in enumerate(written.zones):
        if zone.type != _NUMA_NODE:
            continue
        if len(zones) == NUMA_ZONES_MAX:
            wrong.append(f"zones: are too many, expected at most {NUMA_ZONES_MAX} of the type {_NUMA_NODE}")
            break
        if zone.name in zones:
            wrong.append(f"zones[{place}].name: {zone.name!r} is not valid, expected a name of its own")
            continue
        zones[zone.name] = _zone(zone, f"zones[{place}]", wrong)
    return list(zones.values())


def _zone(zone: core.Zone, path: str, wrong: list[str]) -> _Zone:
    """A zone that does not tell what is available has nothing left, as far as it is published."""
    offered: dict[str, int] = {}
    available: dict[str, int] = {}
    used: dict[str, int] = {}
    largest: dict[str, int] = {}
    for index, each in enumerate(zone.resources):
        where = f"{path}.resources[{index}]"
        if each.name in offered:
            wrong.append(f"{where}.name: {each.name!r} is not valid, expected each resource once")
            continue
        most = _amount(each.name, each.allocatable, f"{where}.allocatable", wrong)
        left = _amount(
            each.name, 0 if each.available is None else each.available, f"{where}.available", wrong
        )
        offered[each.name] = _without_odd_bytes(each.name, most)
        available[each.name] = _without_odd_bytes(each.name, min(most, left))
        used[each.name] = most - min(most, left)
        by_capacity = each.capacity is not None and not _is_memory(each.name)
        largest[each.name] = (
            max(most, _amount(each.name, each.capacity, f"{where}.capacity", wrong)) if by_capacity else most
        )
    return _Zone(offered, available, used, largest)


def _without_odd_bytes(resource: str, amount: int) -> int:
    if resource != MEMORY or amount < NUMA_MEMORY_ROUNDED_BYTES:
        return amount
    return amount - amount % NUMA_MEMORY_STEP_BYTES


def _amount(resource: str, quantity: core.Quantity | None, path: str, wrong: list[str]) -> int:
    """What cannot be read is nothing."""
    try:
        return capacity_amount(resource, "" if quantity is None else quantity)
    except InvalidQuantity as invalid:
        wrong.append(f"{path}: {invalid}")
        return 0


def _bound(zones: Iterable[_Zone], *, strict: bool) -> Amounts:
    """How much of each resource must lie in one zone.

    Of a restricted kubelet as much as the largest zone could serve if nothing ran: it counts all cores and
    devices of the zone, and of memory what pods may use.
    """
    bound: dict[str, int] = {}
    for zone in zones:
        for name, amount in zone.largest.items():
            bound[name] = AMOUNT_MAX if strict else max(amount, bound.get(name, 0))
    return _sorted(bound)


def _sorted(amounts: Mapping[str, int]) -> Amounts:
    return tuple(sorted(amounts.items()))


def _is_memory(resource: str) -> bool:
    return resource == MEMORY or resource.startswith("hugepages-")


# --- pods ---------------------------------------------------------------------------------------------------


def read_numa_request(pod: core.Pod) -> str:
    """What a kubelet aligns of the pod, as a name (see `numa_resource`); empty for nothing.

    Devices of every pod; of Guaranteed ones also memory, huge pages, and the cores of containers that ask
    for whole ones: what shares cores is not pinned to any. Overhead is not aligned.
    """
    spec = pod.spec
    main = [with_defaults(each.resources, "", []) for each in spec.containers]
    init = [with_defaults(each.resources, "", []) for each in spec.init_containers]
    guaranteed = _is_guaranteed(spec)
    main = [_aligned(each, guaranteed=guaranteed) for each in main]
    init = [_aligned(each, guaranteed=guaranteed) for each in init]
    sidecar = [container.restart_policy == "Always" for container in spec.init_containers]
    whole = _sorted({name: min(n, POD_REQUEST_MAX) for name, n in aggregate(main, init, sidecar).items()})
    return numa_resource(NumaRequest(whole, _counted([*main, *init]))) if whole else ""


def _aligned(requests: Resources, *, guaranteed: bool) -> Resources:
    return {
        name: min(amount, POD_REQUEST_MAX)
        for name, amount in requests.items()
        if amount > 0 and ("/" in name or (guaranteed and _is_pinned(name, amount)))
    }


def _is_pinned(resource: str, amount: int) -> bool:
    return _is_memory(resource) or (resource == CPU and amount % _CORE == 0)


def _counted(containers: Iterable[Resources]) -> tuple[tuple[Amounts, int], ...]:
    """Equal containers once, with their number; of too many different ones each counts as all together."""
    counts: dict[Amounts, int] = {}
    for size in (_sorted(each) for each in containers if each):
        counts[size] = counts.get(size, 0) + 1
    if len(counts) > NUMA_CONTAINERS_MAX:
        largest: dict[str, int] = {}
        for size in counts:
            for name, amount in size:
                largest[name] = max(amount, largest.get(name, 0))
        return ((_sorted(largest), sum(counts.values())),)
    return tuple(sorted(counts.items()))


def _is_guaranteed(spec: core.PodSpec) -> bool:
    """Whether limits are set for cores and memory everywhere and equal what is asked for.

    Those of the pod as a whole count instead where it has any.
    """
    if spec.resources is not None and (spec.resources.requests or spec.resources.limits):
        return _has_firm_limits(spec.resources)
    return all(_has_firm_limits(each.resources) for each in (*spec.containers, *spec.init_containers))


def _has_firm_limits(resources: core.ResourceRequirements | None) -> bool:
    asked = with_defaults(resources, "", [])
    limits = read_amounts(resources.limits, "", []) if resources is not None else {}
    return all(0 < asked.get(name, 0) == limits.get(name) for name in (CPU, MEMORY))
