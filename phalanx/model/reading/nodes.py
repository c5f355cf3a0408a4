"""Nodes: the wire form as the scheduler's own struct."""

from collections.abc import Mapping

from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, Taint
from phalanx.model.quantities import InvalidQuantity, capacity_amount
from phalanx.model.reading.metadata import identity
from phalanx.model.reading.shares import with_devices
from phalanx.model.reasons import Problem, Reason
from phalanx.model.wire import core


def read_node(written: core.Node) -> Node:
    """A node. Without allocatable its capacity counts, as the API server defaults it."""
    meta, status = written.metadata, written.status
    field = "allocatable" if status.allocatable else "capacity"
    problems: list[Problem] = []
    amounts = read_capacity(status.allocatable or status.capacity, f"status.{field}", problems)
    return Node(
        name=NodeName(meta.name),
        uid=identity("Node", meta),
        labels=dict(sorted(meta.labels.items())),
        taints=tuple(Taint(key=t.key, effect=t.effect, value=t.value) for t in written.spec.taints),
        unschedulable=written.spec.unschedulable,
        allocatable=with_devices(amounts, meta.labels, problems),
        problems=tuple(problems),
        conditions={each.type: each.status for each in sorted(status.conditions, key=lambda each: each.type)},
    )


def read_capacity(
    written: Mapping[str, core.Quantity], path: str, problems: list[Problem]
) -> Mapping[str, int]:
    """Amounts that are offered, rounded down, sorted by name, without those that cannot be read."""
    amounts = {}
    for name, quantity in sorted(written.items()):
        try:
            amounts[name] = capacity_amount(name, quantity)
        except InvalidQuantity as invalid:
            problems.append(Problem(Reason.INVALID_OBJECT, f"{path}[{name}]: {invalid}"))
    return amounts
