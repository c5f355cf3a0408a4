"""Rules of the API server for objects of Kubernetes, as far as the scheduler reads their fields.

Schemas cannot express them. A test compares them with a real API server.
Source: k8s.io/kubernetes, pkg/apis/*/validation.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from phalanx.cli.manifests import resource_rules
from phalanx.cli.manifests.findings import Finding, shown
from phalanx.cli.manifests.formats import (
    DNS_LABEL,
    DNS_SUBDOMAIN,
    LABEL_KEY,
    PATH_SEGMENT,
    is_dns_label,
    is_dns_subdomain,
    is_path_segment,
    is_qualified_name,
    wrong,
    wrong_annotations,
    wrong_labels,
)
from phalanx.cli.manifests.selector_rules import (
    of_affinity,
    of_label_selector,
    of_node_selector,
    of_taints,
    of_tolerations,
)
from phalanx.model.conversion.cluster_objects import BUILT_IN
from phalanx.model.resources import billionths

Object = Mapping[str, Any]

_PORT_MAX: Final = 65535
_PRIORITY_MAX: Final = 10**9
"""The largest value of a PriorityClass that is not built in."""

_SYSTEM: Final = "system-"


def violations(kind: str, value: Object, *, namespaced: bool) -> list[Finding]:
    """All findings about an object that its schema allows."""
    rules = _RULES.get(kind)
    return [
        *_of_metadata(kind, value["metadata"], namespaced=namespaced),
        *(rules(value) if rules is not None else ()),
    ]


def _of_metadata(kind: str, metadata: Object, *, namespaced: bool) -> Iterator[Finding]:
    yield from wrong(metadata["name"], "metadata.name", *_NAMES.get(kind, (is_dns_subdomain, DNS_SUBDOMAIN)))
    if namespaced:
        yield from wrong(metadata.get("namespace"), "metadata.namespace", is_dns_label, DNS_LABEL)
    yield from wrong_labels(metadata.get("labels", {}), "metadata.labels")
    yield from wrong_annotations(metadata.get("annotations", {}), "metadata.annotations")
    yield from _of_owners(metadata.get("ownerReferences", ()))


def _of_owners(owners: Sequence[Object]) -> Iterator[Finding]:
    for index, owner in enumerate(owners):
        for field in ("kind", "name", "uid"):
            if not owner[field]:
                yield Finding(f"metadata.ownerReferences[{index}].{field}", "text", shown(owner[field]))
    controllers = [owner for owner in owners if owner.get("controller")]
    if any(owner != controllers[0] for owner in controllers):
        yield Finding("metadata.ownerReferences", "at most one controller", f"{len(controllers)}")


# --- pods ---------------------------------------------------------------------------------------------------


def _of_pod(pod: Object) -> Iterator[Finding]:
    spec = pod.get("spec", {})
    yield from _of_containers(spec)
    yield from _of_pod_resources(spec)
    yield from wrong(spec.get("nodeName") or None, "spec.nodeName", is_dns_subdomain, DNS_SUBDOMAIN)
    name = spec.get("priorityClassName") or None
    yield from wrong(name, "spec.priorityClassName", is_dns_subdomain, DNS_SUBDOMAIN)
    yield from wrong_labels(spec.get("nodeSelector", {}), "spec.nodeSelector")
    labels = pod["metadata"].get("labels", {})
    yield from of_affinity(spec.get("affinity", {}), labels, "spec.affinity")
    yield from of_tolerations(spec.get("tolerations", ()), "spec.tolerations")
    yield from _of_gates(spec)
    yield from _of_volumes(spec.get("volumes", ()))
    nominated = pod.get("status", {}).get("nominatedNodeName") or None
    yield from wrong(nominated, "status.nominatedNodeName", is_dns_subdomain, DNS_SUBDOMAIN)


def _containers(spec: Object) -> Iterator[tuple[str, Object]]:
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind, ())):
            yield f"spec.{kind}[{index}]", container


def _of_containers(spec: Object) -> Iterator[Finding]:
    if not spec.get("containers"):
        yield Finding("spec.containers", "at least one container", "none")
    names: set[str] = set()
    for path, container in _containers(spec):
        name = container.get("name", "")
        yield from wrong(name, f"{path}.name", is_dns_label, DNS_LABEL)
        if name in names:
            yield Finding(f"{path}.name", "a different name for each container", f"{shown(name)} again")
        names.add(name)
        yield from resource_rules.of_container(container.get("resources", {}), f"{path}.resources")
        on_host = bool(spec.get("hostNetwork")) and path.startswith("spec.containers")
        yield from _of_ports(container.get("ports", ()), f"{path}.ports", on_host=on_host)
    yield from _repeated_host_ports(spec)


def _of_ports(ports: Iterable[Object], path: str, *, on_host: bool) -> Iterator[Finding]:
    for index, port in enumerate(ports):
        at = f"{path}[{index}]"
        own, host = port.get("containerPort", 0), port.get("hostPort", 0)
        if not 1 <= own <= _PORT_MAX:
            yield Finding(f"{at}.containerPort", f"1 to {_PORT_MAX}", shown(port.get("containerPort")))
        if not 0 <= host <= _PORT_MAX:
            yield Finding(f"{at}.hostPort", f"0 to {_PORT_MAX}", shown(host))
        elif on_host and host not in (0, own):
            yield Finding(f"{at}.hostPort", f"{own}, the containerPort, because of hostNetwork", shown(host))


def _repeated_host_ports(spec: Object) -> Iterator[Finding]:
    """Two containers of a pod, or two ports of an init container, cannot have the same port of the node."""
    together: Counter[tuple[str, str, int]] = Counter()
    for path, container in _containers(spec):
        counts = together if path.startswith("spec.containers") else Counter[tuple[str, str, int]]()
        for index, port in enumerate(container.get("ports", ())):
            number = port.get("hostPort", 0)
            if not number and spec.get("hostNetwork"):
                number = port.get("containerPort", 0)
            key = (port.get("protocol") or "TCP", port.get("hostIP", ""), number)
            if number and counts[key]:
                yield Finding(f"{path}.ports[{index}].hostPort", "each port once", f"{number} again")
            counts[key] += 1


def _of_pod_resources(spec: Object) -> Iterator[Finding]:
    if "overhead" in spec:
        yield from resource_rules.of_overhead(spec["overhead"], "spec.overhead")
    if "resources" not in spec:
        return
    found = list(resource_rules.of_pod(spec["resources"], "spec.resources"))
    yield from found
    if not found:
        main = [
            (f"spec.containers[{index}].resources", each.get("resources", {}))
            for index, each in enumerate(spec.get("containers", ()))
        ]
        yield from resource_rules.above_pod(spec["resources"], main, _requested_together(spec))


def _requested_together(spec: Object) -> dict[str, int]:
    """The requests of all containers in billionths: of those that run together, or at the start."""
    running: Counter[str] = Counter()
    for container in spec.get("containers", ()):
        running.update(_requests(container))
    sidecars: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in spec.get("initContainers", ()):
        requests = _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars.update(requests)
            running.update(requests)
            peak |= sidecars
        else:
            peak |= sidecars + requests
    return dict(running | peak)


def _requests(container: Object) -> Counter[str]:
    requests = resource_rules.with_defaults(container.get("resources", {}))
    return Counter({name: billionths(quantity) for name, quantity in requests.items()})


def _of_gates(spec: Object) -> Iterator[Finding]:
    gates = [gate.get("name", "") for gate in spec.get("schedulingGates", ())]
    for index, name in enumerate(gates):
        path = f"spec.schedulingGates[{index}].name"
        yield from wrong(name, path, is_qualified_name, LABEL_KEY)
        if name in gates[:index]:
            yield Finding(path, "each gate once", f"{shown(name)} again")
    if gates and spec.get("nodeName"):
        yield Finding("spec.nodeName", "nothing beside schedulingGates", shown(spec["nodeName"]))


def _of_volumes(volumes: Iterable[Object]) -> Iterator[Finding]:
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        path = f"spec.volumes[{index}]"
        name = volume.get("name", "")
        yield from wrong(name, f"{path}.name", is_dns_label, DNS_LABEL)
        if name in names:
            yield Finding(f"{path}.name", "a different name for each volume", f"{shown(name)} again")
        names.add(name)
        if "persistentVolumeClaim" in volume and not volume["persistentVolumeClaim"].get("claimName"):
            yield Finding(f"{path}.persistentVolumeClaim.claimName", "the name of a claim", "nothing")


# --- other kinds --------------------------------------------------------------------------------------------


def _of_node(node: Object) -> Iterator[Finding]:
    yield from of_taints(node.get("spec", {}).get("taints", ()), "spec.taints")
    status = node.get("status", {})
    for field in ("capacity", "allocatable"):
        yield from resource_rules.of_node(status.get(field, {}), f"status.{field}")


def _of_priority_class(found: Object) -> Iterator[Finding]:
    name, value = found["metadata"]["name"], found.get("value", 0)
    if name.startswith(_SYSTEM):
        known = BUILT_IN.get(name)
        if known is None or known.value != value or found.get("globalDefault"):
            classes = ", ".join(f"{each} with value {level.value}" for each, level in BUILT_IN.items())
            yield Finding("metadata.name", f"a name without {_SYSTEM}, or {classes}", shown(name))
    elif value > _PRIORITY_MAX:
        yield Finding("value", f"at most {_PRIORITY_MAX}", shown(value))


def _of_budget(budget: Object) -> Iterator[Finding]:
    spec = budget.get("spec", {})
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield Finding("spec.maxUnavailable", "nothing beside minAvailable", shown(spec["maxUnavailable"]))
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec and not _is_count_or_percentage(spec[field]):
            yield Finding(f"spec.{field}", "a number or a percentage up to 100%", shown(spec[field]))
    yield from of_label_selector(spec.get("selector", {}), "spec.selector")


def _is_count_or_percentage(value: int | str) -> bool:
    if isinstance(value, int):
        return value >= 0
    digits = value.removesuffix("%")
    return digits != value and digits.isascii() and digits.isdigit() and int(digits) <= 100


def _of_volume(volume: Object) -> Iterator[Finding]:
    affinity = volume.get("spec", {}).get("nodeAffinity")
    if affinity is not None and "required" not in affinity:
        yield Finding("spec.nodeAffinity.required", "terms that select nodes", "nothing")
    elif affinity is not None:
        yield from of_node_selector(affinity["required"], "spec.nodeAffinity.required")


def _of_claim(claim: Object) -> Iterator[Finding]:
    name = claim.get("spec", {}).get("storageClassName") or None
    yield from wrong(name, "spec.storageClassName", is_dns_subdomain, DNS_SUBDOMAIN)


def _of_native_pod_group(group: Object) -> Iterator[Finding]:
    yield from _of_group(group, "minCount")
    spec = group.get("spec", {})
    if "parentCompositePodGroupName" in spec and "workloadRef" not in spec:
        yield Finding("spec.workloadRef", "a reference beside parentCompositePodGroupName", "nothing")


def _of_composite_pod_group(group: Object) -> Iterator[Finding]:
    yield from _of_group(group, "minGroupCount")
    if "workloadRef" not in group.get("spec", {}):
        yield Finding("spec.workloadRef", "a reference", "nothing")


def _of_group(group: Object, minimum: str) -> Iterator[Finding]:
    spec = group.get("spec", {})
    policy, mode = spec.get("schedulingPolicy", {}), spec.get("disruptionMode", {})
    yield from _one_of(policy, ("basic", "gang"), "spec.schedulingPolicy")
    if "disruptionMode" in spec:
        yield from _one_of(mode, ("single", "all"), "spec.disruptionMode")
    least = policy.get("gang", {minimum: 1}).get(minimum)
    if least is None or least < 1:
        yield Finding(f"spec.schedulingPolicy.gang.{minimum}", "a number from 1", shown(least))
    constraints = spec.get("schedulingConstraints", {}).get("topology", ())
    if len(constraints) > 1:
        yield Finding("spec.schedulingConstraints.topology", "at most 1 entry", f"{len(constraints)}")
    for index, constraint in enumerate(constraints):
        path = f"spec.schedulingConstraints.topology[{index}].key"
        yield from wrong(constraint.get("key", ""), path, is_qualified_name, LABEL_KEY)


def _one_of(value: Object, names: Sequence[str], path: str) -> Iterator[Finding]:
    given = [name for name in names if name in value]
    if len(given) != 1:
        yield Finding(path, f"one of {', '.join(names)}", " and ".join(given) or "none of them")


_NAMES: Final = {
    "Namespace": (is_dns_label, DNS_LABEL),
    "PodDisruptionBudget": (is_path_segment, PATH_SEGMENT),
}
"""The formats of names that are not subdomains of DNS."""

_RULES: Final[Mapping[str, Callable[[Object], Iterator[Finding]]]] = {
    "Pod": _of_pod,
    "Node": _of_node,
    "PriorityClass": _of_priority_class,
    "PodDisruptionBudget": _of_budget,
    "PersistentVolume": _of_volume,
    "PersistentVolumeClaim": _of_claim,
    "NativePodGroup": _of_native_pod_group,
    "CompositePodGroup": _of_composite_pod_group,
}
