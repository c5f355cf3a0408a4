"""Rules of the API server for objects of Kubernetes, as far as the scheduler reads their fields.

Schemas cannot express them: `kubernetes.schema.yaml` has the others. A test compares both with a real API
server. Source: k8s.io/kubernetes, pkg/apis/*/validation.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from phalanx.cli.manifests import resource_rules
from phalanx.cli.manifests.findings import Finding, shown
from phalanx.model.conversion.cluster_objects import BUILT_IN
from phalanx.model.resources import billionths

Object = Mapping[str, Any]

_PRIORITY_MAX: Final = 10**9
"""The largest value of a PriorityClass that is not built in."""

_SYSTEM: Final = "system-"
_ANNOTATIONS_BYTES_MAX: Final = 1 << 18


def violations(kind: str, value: Object) -> list[Finding]:
    """All findings about an object that its schema allows."""
    rules = _RULES.get(kind)
    return [*_of_metadata(value["metadata"]), *(rules(value) if rules is not None else ())]


def _of_metadata(metadata: Object) -> Iterator[Finding]:
    annotations = metadata.get("annotations", {})
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _ANNOTATIONS_BYTES_MAX:
        yield Finding("metadata.annotations", f"at most {_ANNOTATIONS_BYTES_MAX} bytes", f"{size}")
    controllers = [owner for owner in metadata.get("ownerReferences", ()) if owner.get("controller")]
    if any(owner != controllers[0] for owner in controllers):
        yield Finding("metadata.ownerReferences", "at most one controller", f"{len(controllers)}")


# --- pods ---------------------------------------------------------------------------------------------------


def _of_pod(pod: Object) -> Iterator[Finding]:
    spec = pod["spec"]
    yield from _of_containers(spec)
    yield from _repeated_host_ports(spec)
    yield from _of_pod_resources(spec)
    labels = pod["metadata"].get("labels", {})
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = spec.get("affinity", {}).get(kind, {})
        for index, term in enumerate(terms.get(_REQUIRED, ())):
            yield from _of_label_keys(term, labels, f"spec.affinity.{kind}.{_REQUIRED}[{index}]")
        for index, preferred in enumerate(terms.get(_PREFERRED, ())):
            path = f"spec.affinity.{kind}.{_PREFERRED}[{index}].podAffinityTerm"
            yield from _of_label_keys(preferred["podAffinityTerm"], labels, path)


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _of_label_keys(term: Object, pod_labels: Object, path: str) -> Iterator[Finding]:
    """`matchLabelKeys` add to the label selector the values that the pod has."""
    selector = term.get("labelSelector", {})
    selected = {*selector.get("matchLabels", {})}
    selected.update(requirement["key"] for requirement in selector.get("matchExpressions", ()))
    keys = term.get("matchLabelKeys", ())
    for index, key in enumerate(keys):
        at = f"{path}.matchLabelKeys[{index}]"
        if key in term.get("mismatchLabelKeys", ()):
            yield Finding(at, "a key that is not in mismatchLabelKeys", shown(key))
        elif key in selected and key in pod_labels:
            yield Finding(at, "a key that is not in labelSelector", shown(key))
        elif key in keys[:index] and key in pod_labels:
            yield Finding(at, "each key once", f"{shown(key)} again")


def _containers(spec: Object) -> Iterator[tuple[str, Object]]:
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind, ())):
            yield f"spec.{kind}[{index}]", container


def _of_containers(spec: Object) -> Iterator[Finding]:
    names: set[str] = set()
    for path, container in _containers(spec):
        name = container["name"]
        if name in names:
            yield Finding(f"{path}.name", "a different name for each container", f"{shown(name)} again")
        names.add(name)
        yield from resource_rules.of_container(container.get("resources", {}), f"{path}.resources")
        if spec.get("hostNetwork") and path.startswith("spec.containers"):
            yield from _of_ports_on_host(container.get("ports", ()), f"{path}.ports")


def _of_ports_on_host(ports: Sequence[Object], path: str) -> Iterator[Finding]:
    for index, port in enumerate(ports):
        own, host = port["containerPort"], port.get("hostPort", 0)
        if host not in (0, own):
            expected = f"{own}, the containerPort, because of hostNetwork"
            yield Finding(f"{path}[{index}].hostPort", expected, shown(host))


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


# --- other kinds --------------------------------------------------------------------------------------------


def _of_node(node: Object) -> Iterator[Finding]:
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


_RULES: Final[Mapping[str, Callable[[Object], Iterator[Finding]]]] = {
    "Pod": _of_pod,
    "Node": _of_node,
    "PriorityClass": _of_priority_class,
}
