"""Gangs whose pods have other fields, for trials.

A changed pod has another shape, so the session computes which nodes it may use. Such gangs exist only while a
gang is explained.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from msgspec.structs import replace

from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.names import ShapeKey
from phalanx.model.nodes import Taint
from phalanx.model.pods import Pod, PodShape, Toleration, without_affinity_state


class Field(StrEnum):
    """A field of pods that excludes nodes, as in `spec` or `spec.affinity`."""

    NODE_SELECTOR = "nodeSelector"
    NODE_AFFINITY = "nodeAffinity"
    POD_AFFINITY = "podAffinity"
    POD_ANTI_AFFINITY = "podAntiAffinity"
    TOPOLOGY_SPREAD = "topologySpreadConstraints"


Restriction = Field | Taint
"""A field to remove, or a taint to tolerate."""

_PARTS: Final[Mapping[Field, str]] = {
    Field.NODE_SELECTOR: "node_selector",
    Field.NODE_AFFINITY: "required_affinity",
    Field.POD_AFFINITY: "affinity",
    Field.POD_ANTI_AFFINITY: "anti_affinity",
    Field.TOPOLOGY_SPREAD: "spread",
}


def fields_of(shapes: Sequence[PodShape]) -> list[Field]:
    """The fields that some of these pods have."""
    return [field for field, part in _PARTS.items() if any(getattr(shape, part) for shape in shapes)]


def with_other_pods(session: Session, gang: Gang, change: Callable[[PodShape], PodShape]) -> Gang:
    """The gang with changed waiting members. `change` returns a shape with a key of its own, or the same."""
    members = tuple(_changed(pod, change) if pod.is_waiting else pod for pod in gang.members)
    changed = replace(gang, members=members)
    return changed if session.affinity_index is None else session.affinity_index.with_states(changed)


def _changed(pod: Pod, change: Callable[[PodShape], PodShape]) -> Pod:
    return replace(pod, shape=change(without_affinity_state(pod.shape)))


def without_restrictions(shape: PodShape, removed: Sequence[Restriction]) -> PodShape:
    """The shape without these fields, and with tolerations of these taints."""
    changes: dict[str, Any] = {
        _PARTS[each]: () for each in removed if isinstance(each, Field) and getattr(shape, _PARTS[each])
    }
    taints = [each for each in removed if isinstance(each, Taint)]
    if taints:
        more = tuple(Toleration(taint.key, "Equal", taint.value, taint.effect) for taint in taints)
        changes["tolerations"] = (*shape.tolerations, *more)
    if not changes:
        return shape
    return replace(shape, key=ShapeKey(f"{shape.key} without {sorted(changes)} {taints}"), **changes)
