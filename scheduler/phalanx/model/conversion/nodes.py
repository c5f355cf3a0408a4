"""Conversion of nodes."""

from collections.abc import Iterable, Mapping
from sys import intern
from typing import Final

from phalanx.model.api import core
from phalanx.model.api.values import seconds
from phalanx.model.conversion.images import read_node_images
from phalanx.model.conversion.metadata import identity
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, Taint, is_state_taint
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import InvalidQuantity, capacity_amount
from phalanx.model.supplies.gpu_shares.read import add_shared_devices

_NODE_JOIN_GRACE_S: Final = 120
"""Seconds after its creation during which condition changes of a node count as joining. Kubernetes waits 60 s
for a kubelet."""


def read_node(
    written: core.Node,
    annotation_keys: tuple[str, ...] = (),
    *,
    with_images: bool = False,
    state_taints: tuple[str, ...] = (),
) -> Node:
    """Convert one node. Without allocatable its capacity counts, as the API server defaults it.

    `state_taints`: those that the configuration adds to the ones of `is_state_taint`.
    """
    meta, status = written.metadata, written.status
    field = "allocatable" if status.allocatable else "capacity"
    problems: list[Objection] = []
    conditions = sorted(status.conditions, key=lambda each: each.type)
    amounts = read_capacity(status.allocatable or status.capacity, f"status.{field}", problems)
    return Node(
        name=NodeName(meta.name),
        uid=identity("Node", meta),
        labels=dict(sorted(meta.labels.items())),
        taints=tuple(
            Taint(each.key, each.effect, each.value, is_state_taint(each.key, state_taints))
            for each in written.spec.taints
        ),
        unschedulable=written.spec.unschedulable,
        allocatable=add_shared_devices(amounts, meta.labels, problems),
        problems=tuple(problems),
        conditions={each.type: each.status for each in conditions},
        condition_changes=_condition_changes(conditions, joined=seconds(meta.creation_timestamp)),
        annotations={key: meta.annotations[key] for key in annotation_keys if key in meta.annotations},
        declared_features=tuple([intern(each) for each in status.declared_features]),
        images=read_node_images(status) if with_images else {},
    )


def _condition_changes(conditions: Iterable[core.NodeCondition], *, joined: int) -> dict[str, int]:
    """When each condition last changed.

    Left out are changes within _NODE_JOIN_GRACE_S of the creation of the node: they are part of joining, or
    come from a clock that is behind. Empty for a manifest without a creation time.
    """
    changes = {each.type: seconds(each.last_transition_time) for each in conditions}
    return {kind: at for kind, at in changes.items() if joined and at > joined + _NODE_JOIN_GRACE_S}


def read_capacity(
    written: Mapping[str, core.Quantity], path: str, problems: list[Objection]
) -> Mapping[str, int]:
    """Offered amounts, rounded down, sorted by name. Invalid ones are left out."""
    amounts = {}
    for name, quantity in sorted(written.items()):
        try:
            amounts[name] = capacity_amount(name, quantity)
        except InvalidQuantity as invalid:
            problems.append(Objection(Reason.INVALID_OBJECT, f"{path}[{name}]: {invalid}"))
    return amounts
