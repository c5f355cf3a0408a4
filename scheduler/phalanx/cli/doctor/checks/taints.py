"""No taint and no cordon keeps all pods of this scheduler away from nodes."""

from collections.abc import Iterator
from typing import Final

from phalanx.cli.doctor.finding import Finding, Severity, names
from phalanx.cli.doctor.installation import Installation, work_nodes
from phalanx.cli.formatting import count
from phalanx.framework.nodes.tolerations import covers
from phalanx.model import nodes as model_nodes
from phalanx.model import pods as model_pods
from phalanx.model.api.core import Node, Pod, Taint, Toleration

_CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def check(seen: Installation) -> Iterator[Finding]:
    """One finding for each taint that no pod of this scheduler tolerates, and one if no node is left."""
    nodes = work_nodes(seen.nodes)
    pods = [pod for pod in seen.pods if seen.is_ours(pod)]
    nodes_of: dict[tuple[str, str, str], list[str]] = {}
    for node in nodes:
        for taint in _not_tolerated(node, pods):
            nodes_of.setdefault((taint.key, taint.value, taint.effect), []).append(node.metadata.name)
    kept_out = {name for found in nodes_of.values() for name in found}
    if nodes and len(kept_out) == len(nodes):
        yield Finding(
            Severity.ERROR,
            "all nodes",
            f"Each of the {count(len(nodes), 'node')} has a taint that no pod of {seen.scheduler_name}"
            " tolerates.",
            "Remove the taints, or give the pods tolerations.",
        )
    for (key, value, effect), found in sorted(nodes_of.items()):
        yield Finding(
            Severity.WARNING,
            f"taint {key}{f'={value}' if value else ''}:{effect}",
            f"No pod of {seen.scheduler_name} tolerates it, on {count(len(found), 'node')} of {len(nodes)}:"
            f" {names(found)}.",
            "`kubectl uncordon` the nodes when they are ready."
            if key == _CORDON.key
            else "Remove the taint, or give the pods a toleration, if gangs may run there.",
        )


def _not_tolerated(node: Node, pods: list[Pod]) -> Iterator[Taint]:
    """The taints of the node that no pod tolerates; a cordoned node gets its taint a little later."""
    taints = [taint for taint in node.spec.taints if taint.effect in model_nodes.HARD_EFFECTS]
    if node.spec.unschedulable and _CORDON.key not in {taint.key for taint in taints}:
        taints.append(_CORDON)
    for taint in taints:
        if not any(tolerates(each, taint) for pod in pods for each in pod.spec.tolerations):
            yield taint


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """By the rule of the scheduler; an operator other than Exists compares."""
    operator = "Exists" if toleration.operator == "Exists" else "Equal"
    known = model_pods.Toleration(toleration.key, operator, toleration.value, toleration.effect)
    return covers(known, model_nodes.Taint(taint.key, taint.effect, taint.value))
