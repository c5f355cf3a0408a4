"""The first difference between a cached node, gang or queue and its object.

Objects that the scheduler finds fault with are compared in nothing that it cannot read.
"""

from typing import Final

from phalanx.model.gangs import Gang
from phalanx.model.nodes import Node
from phalanx.model.numa import is_numa_resource
from phalanx.model.queues import Queue
from phalanx.model.resources import Resources

from phalanx_simulator.embedded.store import Object
from phalanx_simulator.invariants.facts import GroupFact, NodeFact
from phalanx_simulator.invariants.oracle import amounts_of

_OPEN: Final = "Open"
_MISSING: Final = "missing:"


def of_node(node: Node, true: NodeFact) -> str:
    """Difference of a node in health, constraints or capacity."""
    taints = {(taint.key, taint.value, taint.effect) for taint in node.taints}
    if node.uid != true.uid:
        return "is another one"
    if node.unschedulable != true.is_cordoned:
        return f"is {'' if true.is_cordoned else 'not '}cordoned"
    if taints != {(one.get("key", ""), one.get("value", ""), one.get("effect", "")) for one in true.taints}:
        return "has other taints"
    if dict(node.labels) != dict(true.labels):
        return "has other labels"
    if dict(node.conditions) != dict(true.conditions):
        return "has other conditions"
    return "" if node.problems or not differ(node.allocatable, true.allocatable) else "offers other amounts"


def of_gang(gang: Gang, true: GroupFact | None) -> str:
    """Difference of a gang from its PodGroup; `true` is None where there is none."""
    if true is None:
        return "" if gang.id.startswith(_MISSING) else "has lost its PodGroup"
    if gang.id != true.uid:
        return "has another PodGroup" if not gang.id.startswith(_MISSING) else "has a PodGroup"
    wish = true.spec.get("topology") or {}
    believed = (
        gang.min_member,
        gang.reserves,
        gang.topology.topology,
        gang.topology.required or "",
        gang.topology.preferred or "",
        tuple((part.name, part.parent) for part in gang.subgroups),
    )
    is_so = (
        true.min_member,
        true.reserves,
        true.topology,
        true.required,
        wish.get("preferred") or "",
        tuple((part.name, part.parent) for part in true.subgroups),
    )
    if true.queue and gang.queue != true.queue:
        return f"is of queue {true.queue}, it believes {gang.queue}"
    return "" if believed == is_so else f"is {is_so}, it believes {believed}"


def of_queue(queue: Queue, true: Object) -> str:
    """Difference of a queue from its spec.

    A missing or circular parent counts as none.
    """
    if queue.parent != (true.get("parent") or None) and not (queue.parent is None and queue.problems):
        return f"is below {true.get('parent')}, it believes {queue.parent}"
    for name, amounts in (("guarantee", queue.guarantee), ("limit", queue.limit)):
        written = amounts_of(true.get(name) or {})
        if differ(amounts, written):
            return f"has the {name} {written}, it believes {dict(amounts)}"
    believed = (queue.weight, queue.priority, queue.state.value)
    is_so = (max(true.get("weight", 1), 1), true.get("priority") or 0, true.get("state") or _OPEN)
    return "" if believed == is_so else f"is {is_so}, it believes {believed}"


def differ(believed: Resources, true: Resources) -> bool:
    """Whether the amounts differ; NUMA zone pseudo-resources are ignored."""
    names = [name for name in believed.keys() | true.keys() if not is_numa_resource(name)]
    return any(believed.get(name, 0) != true.get(name, 0) for name in names)
