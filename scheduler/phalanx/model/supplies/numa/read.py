"""Conversion of the NUMA zones that nodes publish, and of the requests that kubelets align to zones."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from phalanx.limits import AMOUNT_MAX, POD_REQUEST_MAX
from phalanx.model.api import core
from phalanx.model.api.node_topologies import NodeResourceTopology, Zone
from phalanx.model.conversion.requests import aggregate, read_amounts, with_defaults
from phalanx.model.nodes import Amounts, Numa, ZoneLayout
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import CPU, MEMORY, InvalidQuantity, Resources, capacity_amount, sum_of
from phalanx.model.supplies.numa.zones import NumaRequest, numa_resource

NUMA_ZONES_MAX: Final = 64
"""NUMA zones of one node that are read. The largest machines have 32."""

NUMA_MEMORY_STEP_BYTES: Final = 256 << 20
"""Bytes to a multiple of which the memory of a NUMA zone is rounded down. Nodes of one type differ by less
and then count as equal."""

NUMA_MEMORY_ROUNDED_BYTES: Final = 16 << 30
"""Bytes from which the memory of a NUMA zone is rounded: a step would be more than a sixtieth of less."""

NUMA_CONTAINERS_MAX: Final = 16
"""Different containers of a pod that are counted separately if each needs a NUMA zone. With more, every
container counts as large as the largest."""

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
"""Older spelling of a policy, with the policy and the scope that it stands for."""

_ATTRIBUTES: Final = {
    "topologyManagerPolicy": (_STRICT, _RESTRICTED, "best-effort", "none"),
    "topologyManagerScope": (_CONTAINER, _POD),
}

_NUMA_NODE: Final = "Node"
"""The type of zones that are NUMA nodes."""

_CORE: Final = 1000


class NumaReport(Struct, frozen=True, gc=False):
    """Content of a NodeResourceTopology. `numa` is None if the kubelet rejects no pods because of zones."""

    numa: Numa | None = None
    problems: tuple[Objection, ...] = ()


def read_zones(written: NodeResourceTopology) -> NumaReport:
    """Convert one NodeResourceTopology. Errors are reported, and the invalid values are ignored.

    An invalid amount means that the zone does not have the resource. An unknown policy means none.
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


def _policy(written: NodeResourceTopology, wrong: list[str]) -> tuple[str, str]:
    """Policy and scope: from the attributes if they are set, else from the older field."""
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
    """`largest`: the amount that the kubelet compares when it asks whether one empty zone could suffice.

    `used` is exact. `offered` and `available` are rounded down, so that nodes of one kind are equal.
    """

    offered: Resources
    available: Resources
    used: Resources
    largest: Resources


def _zones(written: NodeResourceTopology, wrong: list[str]) -> list[_Zone]:
    """Zones that are NUMA nodes."""
    zones: dict[str, _Zone] = {}
    for place, zone in enumerate(written.zones):
        if zone.type != _NUMA_NODE:
            continue
        if len(zones) == NUMA_ZONES_MAX:
            wrong.append(f"zones: are too many, expected at most {NUMA_ZONES_MAX} of the type {_NUMA_NODE}")
            break
        if zone.name in zones:
            wrong.append(f"zones[{place}].name: {zone.name!r} is not valid, expected a unique name")
            continue
        zones[zone.name] = _zone(zone, f"zones[{place}]", wrong)
    return list(zones.values())


def _zone(zone: Zone, path: str, wrong: list[str]) -> _Zone:
    """A zone that does not publish what is available counts as having nothing available."""
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
        offered[each.name] = _rounded_memory(each.name, most)
        available[each.name] = _rounded_memory(each.name, min(most, left))
        used[each.name] = most - min(most, left)
        by_capacity = each.capacity is not None and not _is_memory(each.name)
        largest[each.name] = (
            max(most, _amount(each.name, each.capacity, f"{where}.capacity", wrong)) if by_capacity else most
        )
    return _Zone(offered, available, used, largest)


def _rounded_memory(resource: str, amount: int) -> int:
    if resource != MEMORY or amount < NUMA_MEMORY_ROUNDED_BYTES:
        return amount
    return amount - amount % NUMA_MEMORY_STEP_BYTES


def _amount(resource: str, quantity: core.Quantity | None, path: str, wrong: list[str]) -> int:
    """An invalid amount counts as zero."""
    try:
        return capacity_amount(resource, "" if quantity is None else quantity)
    except InvalidQuantity as invalid:
        wrong.append(f"{path}: {invalid}")
        return 0


def _bound(zones: Iterable[_Zone], *, strict: bool) -> Amounts:
    """Largest request per resource that must be in one zone.

    For the policy restricted it is what the largest empty zone could serve: the kubelet counts all cores and
    devices of the zone, but only the allocatable memory.
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
    """The resource name for what a kubelet aligns of the pod (see `numa_resource`); empty for nothing.

    It aligns devices of every pod. Of Guaranteed pods it also aligns memory, huge pages, and the cores of
    containers that request whole ones: containers that share cores are not pinned. Overhead is not aligned.
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
    """Equal containers once, with their number. Too many different ones count each as all together."""
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
    """Whether cpu and memory limits are set in all containers and equal the requests.

    If the pod has resources as a whole, those count instead.
    """
    if spec.resources is not None and (spec.resources.requests or spec.resources.limits):
        return _has_firm_limits(spec.resources)
    return all(_has_firm_limits(each.resources) for each in (*spec.containers, *spec.init_containers))


def _has_firm_limits(resources: core.ResourceRequirements | None) -> bool:
    asked = with_defaults(resources, "", [])
    limits = read_amounts(resources.limits, "", []) if resources is not None else {}
    return all(0 < asked.get(name, 0) == limits.get(name) for name in (CPU, MEMORY))
