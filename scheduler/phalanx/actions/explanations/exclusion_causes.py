"""Why nodes are ineligible for the pods of a demand: because of fields of the pods, or of pods that run."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from phalanx.actions.demands.demand import Batch, without_affinity_terms
from phalanx.framework.eligibility import Eligibility
from phalanx.framework.session import Session
from phalanx.model.names import ShapeKey
from phalanx.model.pods import Pod, PodShape, Toleration, without_affinity_state
from phalanx.solver.infeasibility.relaxations import ELIGIBILITY

AFFINITY: Final = "pod affinity"
"""The cause of nodes that are ineligible because no pod there matches the affinity of the pods."""

ANTI_AFFINITY: Final = "pod anti-affinity"
"""The cause of nodes that are ineligible because of pods there that may not be near the pods."""


def exclusion_causes(session: Session, batches: Sequence[Batch]) -> dict[str, list[Eligibility]]:
    """By the name of each cause that excludes nodes, the nodes that it excludes for each batch.

    The first cause is everything but affinity.
    """
    causes = {ELIGIBILITY: [session.eligibility(without_affinity_terms(batch).pods[0]) for batch in batches]}
    for name, part in _AFFINITY_PARTS.items():
        found = [_excluded_by(session, batch.pods[0], part) for batch in batches]
        if any(eligibility.rejected for eligibility in found):
            causes[name] = found
    return causes


def eligible_when_empty(empty: Session, batches: Sequence[Batch]) -> list[Eligibility]:
    """The eligibility in the empty cluster, where pods that the batches must be near may run anywhere."""
    return [empty.eligibility(near_anything(batch).pods[0]) for batch in batches]


def near_anything(batch: Batch) -> Batch:
    """The batch with anti-affinity only."""
    return replace(batch, pods=tuple(map(_without_affinity, batch.pods)))


def _without_affinity(pod: Pod) -> Pod:
    state = pod.shape.affinity_state
    if state is None or state.affinity is None:
        return pod
    changed = replace(state, affinity=None)
    key = ShapeKey(f"{state.base_key} {changed}")
    return replace(pod, shape=replace(pod.shape, key=key, affinity_state=changed))


def _excluded_by(session: Session, pod: Pod, part: Mapping[str, object]) -> Eligibility:
    """The nodes that this part of the affinity state excludes, whatever else does."""
    state = pod.shape.affinity_state
    if state is None:
        return Eligibility(rejected={}, cost={})
    bare = _without_own_restrictions(without_affinity_state(pod.shape))
    changed = replace(state, base_key=bare.key, **part)
    key = ShapeKey(f"{bare.key} {changed}")
    with_part = session.eligibility(replace(pod, shape=replace(bare, key=key, affinity_state=changed)))
    others = session.eligibility(replace(pod, shape=bare)).rejected
    rejected = {node: why for node, why in with_part.rejected.items() if node not in others}
    return Eligibility(rejected=rejected, cost={})


_AFFINITY_PARTS: Final[Mapping[str, Mapping[str, object]]] = {
    AFFINITY: {"anti_affinity": (), "matched_by": ()},
    ANTI_AFFINITY: {"affinity": None},
}
"""By cause, the changes that leave only that part of the affinity state."""


def _without_own_restrictions(shape: PodShape) -> PodShape:
    return replace(
        shape,
        key=ShapeKey(f"{shape.key} unrestricted"),
        node_selector=(),
        required_affinity=(),
        tolerations=(Toleration(operator="Exists"),),
        volumes=(),
    )
