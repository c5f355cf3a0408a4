"""Objects of a workflow: nodes by their type, and objects from templates, made fit for this cluster."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from phalanx_simulator.embedded.kubelets.kubelet import RUN_SECONDS
from phalanx_simulator.embedded.manifests import Manifest

from bench.published.knavigator.files import BadWorkflow, VirtualNodes, labels, seconds

RUN_DELAY: Final = "pod-complete.stage.kwok.x-k8s.io/delay"
"""Annotation of a pod: how long it runs until it succeeds."""

_GPU: Final = "nvidia.com/gpu"
_SERVERS: Final[Mapping[str, Mapping[str, str]]] = {
    "dgxa100.40g": {"cpu": "256", "memory": "1Ti", _GPU: "8", "ephemeral-storage": "15Ti"},
    "dgxa100.80g": {"cpu": "256", "memory": "2Ti", _GPU: "8", "ephemeral-storage": "30Ti"},
    "dgxh100.80g": {"cpu": "224", "memory": "2Ti", _GPU: "8", "ephemeral-storage": "30Ti"},
    "cpu.x86": {"cpu": "48", "memory": "192Gi", "ephemeral-storage": "2Ti"},
}
"""The sizes of these servers in the data sheets of their maker, rounded."""


def nodes(wanted: Iterable[VirtualNodes]) -> Iterator[Manifest]:
    """The nodes, numbered within each type."""
    numbers: dict[str, int] = {}
    for kind in wanted:
        resources = {"pods": "110", **_resources(kind)} if kind.count else {}
        for _ in range(kind.count):
            number = numbers[kind.type] = numbers.get(kind.type, -1) + 1
            name = f"virtual-{kind.type}-{number}"
            yield {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "labels": {"kubernetes.io/hostname": name, "type": "kwok", **labels(kind.labels)},
                    "annotations": labels(kind.annotations),
                },
                "status": {
                    "allocatable": resources,
                    "capacity": dict(resources),
                    **({"conditions": list(kind.conditions)} if kind.conditions else {}),
                },
            }


def _resources(kind: VirtualNodes) -> dict[str, str]:
    if kind.resources:
        return {name: str(amount) for name, amount in kind.resources.items()}
    if kind.type not in _SERVERS:
        raise BadWorkflow(f"nodes of type {kind.type} need resources")
    return dict(_SERVERS[kind.type])


def adapted(item: Any, scheduler: str) -> Any:
    """A copy for this cluster: pods name the scheduler, and end after their run time in the simulator too."""
    if isinstance(item, list):
        return [adapted(each, scheduler) for each in item]
    if not isinstance(item, dict):
        return item
    made = {name: adapted(value, scheduler) for name, value in item.items()}
    if "containers" in made or "schedulerName" in made:
        made["schedulerName"] = scheduler
    if isinstance(made.get(RUN_DELAY), str):
        made[RUN_SECONDS] = f"{seconds(made[RUN_DELAY]):g}"
    return made


def is_subset(wanted: Any, found: Any) -> bool:
    """Whether `found` has everything that `wanted` names."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            name in found and is_subset(value, found[name]) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and len(wanted) == len(found) and all(map(is_subset, wanted, found))
    return bool(wanted == found)
