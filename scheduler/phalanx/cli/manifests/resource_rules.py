"""Requests and limits as the API server validates them.

Source: k8s.io/kubernetes, pkg/apis/core/validation (`validateResourceRequirements`) and pkg/apis/core/helper.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from phalanx.cli.manifests.findings import Finding, inside, shown
from phalanx.cli.manifests.formats import is_qualified_name
from phalanx.model.resources import billionths

Quantities = Mapping[str, Any]

_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_POD_LEVEL: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"
_NATIVE: Final = "kubernetes.io/"
_OF_QUOTAS: Final = "requests."
_COUNTED: Final = frozenset(
    {
        *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
        *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
    }
)
"""Native resources that are whole numbers."""

_UNIT: Final = 10**9
_THOUSANDTH: Final = 10**6


def of_container(requirements: Mapping[str, Any], path: str) -> Iterator[Finding]:
    """The findings about the resources of a container or of an init container."""
    yield from _of(requirements, path, _container_name)


def of_pod(requirements: Mapping[str, Any], path: str) -> Iterator[Finding]:
    """The findings about the resources of a pod as a whole, without comparing them with its containers."""
    yield from _of(requirements, path, _pod_level_name)


def of_overhead(overhead: Quantities, path: str) -> Iterator[Finding]:
    """The findings about the overhead of a pod, which counts like limits."""
    for name, quantity in overhead.items():
        yield from _container_name(name, path)
        yield from _requested(name, quantity, inside(path, name))


def of_node(amounts: Quantities, path: str) -> Iterator[Finding]:
    """The findings about capacity or allocatable amounts of a node, whose names may be anything."""
    for name, quantity in amounts.items():
        yield from amount(name, quantity, inside(path, name))


def amount(name: str, quantity: Any, path: str) -> Iterator[Finding]:
    """A finding if the amount is negative, or a fraction of something that is counted."""
    number = billionths(quantity)
    if number < 0:
        yield Finding(path, "an amount that is not negative", shown(quantity))
    elif (name in _COUNTED or _is_extended(name)) and -(-number // _THOUSANDTH) % 1000:
        yield Finding(path, f"a whole number of {name}", shown(quantity))


def _requested(name: str, quantity: Any, path: str) -> Iterator[Finding]:
    """The findings about an amount of a pod; amounts of huge pages on nodes may be anything."""
    found = list(amount(name, quantity, path))
    yield from found
    if not found and name.startswith(_HUGE_PAGES) and not _is_multiple(billionths(quantity), name):
        yield Finding(path, "a multiple of the size of the pages", shown(quantity))


def with_defaults(requirements: Mapping[str, Any]) -> dict[str, Any]:
    """Requests, with limits in place of missing requests."""
    return {**requirements.get("limits", {}), **requirements.get("requests", {})}


def _of(requirements: Mapping[str, Any], path: str, check_name: Any) -> Iterator[Finding]:
    limits = requirements.get("limits", {})
    requests = with_defaults(requirements)
    for kind, amounts in (("limits", limits), ("requests", requirements.get("requests", {}))):
        for name, quantity in amounts.items():
            yield from check_name(name, f"{path}.{kind}")
            yield from _requested(name, quantity, inside(f"{path}.{kind}", name))
    for name, quantity in requests.items():
        yield from _beside_limit(name, quantity, limits, path)
    names = {*limits, *requests}
    if any(name.startswith(_HUGE_PAGES) for name in names) and names.isdisjoint(_POD_LEVEL):
        yield Finding(path, "cpu or memory beside huge pages", "neither")


def _beside_limit(name: str, quantity: Any, limits: Quantities, path: str) -> Iterator[Finding]:
    """A request is at most the limit; of resources that cannot be overcommitted, exactly the limit."""
    is_exact = name.startswith(_HUGE_PAGES) or not _is_native(name)
    if name not in limits:
        if is_exact:
            yield Finding(inside(f"{path}.limits", name), "a limit equal to the request", "nothing")
        return
    request, limit = billionths(quantity), billionths(limits[name])
    if is_exact and request != limit:
        yield Finding(inside(f"{path}.requests", name), f"the limit of {limits[name]}", shown(quantity))
    elif request > limit:
        yield Finding(
            inside(f"{path}.requests", name), f"at most the limit of {limits[name]}", shown(quantity)
        )


def _container_name(name: str, path: str) -> Iterator[Finding]:
    is_known = name in _STANDARD or name.startswith(_HUGE_PAGES)
    if "/" in name:
        is_known = _is_native(name) or _is_extended(name)
    if not is_known or not is_qualified_name(name):
        expected = f"{', '.join(_STANDARD)}, {_HUGE_PAGES}SIZE or a name such as nvidia.com/gpu"
        yield Finding(path, expected, shown(name))


def _pod_level_name(name: str, path: str) -> Iterator[Finding]:
    is_known = name in _POD_LEVEL or name.startswith(_HUGE_PAGES)
    if not is_known or not is_qualified_name(name):
        yield Finding(path, f"{', '.join(_POD_LEVEL)} or {_HUGE_PAGES}SIZE", shown(name))


def _is_native(name: str) -> bool:
    return "/" not in name or _NATIVE in name


def _is_extended(name: str) -> bool:
    if _is_native(name) or name.startswith(_OF_QUOTAS):
        return False
    return is_qualified_name(f"{_OF_QUOTAS}{name}")


def _is_multiple(number: int, name: str) -> bool:
    """Whether the amount is a multiple of the page size that the name states."""
    try:
        size = billionths(name.removeprefix(_HUGE_PAGES))
    except ValueError:
        return False
    return size > 0 and size % _UNIT == 0 and -(-number // _UNIT) % (size // _UNIT) == 0


def above_pod(
    pod: Mapping[str, Any], containers: Iterable[tuple[str, Mapping[str, Any]]], total: Mapping[str, int]
) -> Iterator[Finding]:
    """The containers' requests together, `total`, and each container's limits fit into those of the pod."""
    for name, quantity in pod.get("requests", {}).items():
        if total.get(name, 0) > billionths(quantity):
            yield Finding(
                inside("spec.resources.requests", name),
                "at least what the containers request together",
                shown(quantity),
            )
    for path, requirements in containers:
        for name, quantity in requirements.get("limits", {}).items():
            limit = pod.get("limits", {}).get(name)
            if limit is not None and billionths(quantity) > billionths(limit):
                expected = f"at most {limit}, the limit of the pod"
                yield Finding(inside(f"{path}.limits", name), expected, shown(quantity))
