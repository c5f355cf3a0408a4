"""The states of pods and gangs within one cycle, and all legal transitions."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from phalanx.model.pods import Pod


class PodState(StrEnum):
    """Waiting, bound and ended come from the snapshot; the other states last for one cycle."""

    WAITING = "Waiting"
    ALLOCATED = "Allocated"
    BOUND = "Bound"
    RELEASING = "Releasing"
    ENDED = "Ended"


class GangState(StrEnum):
    """What the cycle has decided about a gang so far."""

    UNTRIED = "Untried"
    PLACED = "Placed"
    REFUSED = "Refused"
    RELEASING = "Releasing"


POD_TRANSITIONS: Final[Mapping[PodState, frozenset[PodState]]] = {
    PodState.WAITING: frozenset({PodState.ALLOCATED}),
    PodState.BOUND: frozenset({PodState.RELEASING}),
    PodState.ALLOCATED: frozenset({PodState.WAITING}),
    PodState.RELEASING: frozenset(),
    PodState.ENDED: frozenset(),
}

GANG_TRANSITIONS: Final[Mapping[GangState, frozenset[GangState]]] = {
    GangState.UNTRIED: frozenset({GangState.PLACED, GangState.RELEASING, GangState.REFUSED}),
    GangState.PLACED: frozenset(
        {GangState.PLACED, GangState.REFUSED, GangState.RELEASING, GangState.UNTRIED}
    ),
    GangState.REFUSED: frozenset({GangState.RELEASING}),
    GangState.RELEASING: frozenset({GangState.RELEASING, GangState.REFUSED}),
}
"""A placed gang is placed again for surplus members, and refused when some members do not fit. A gang that
gets a member may also lose one that must be replaced. A gang whose start is given up is as before the start.
"""


class IllegalTransition(Exception):
    """An action requested a transition that is not in the tables: an error in the code."""


def first_state(pod: Pod) -> PodState:
    """The state of a pod when the cycle begins."""
    if pod.is_finished:
        return PodState.ENDED
    if pod.deleting:
        return PodState.RELEASING
    return PodState.WAITING if pod.node is None else PodState.BOUND


def check_pod_transition(pod: Pod, before: PodState, after: PodState) -> None:
    """Raise IllegalTransition unless the table allows it."""
    if after not in POD_TRANSITIONS[before]:
        raise IllegalTransition(f"pod {pod}: {before} -> {after}")


def check_gang_transition(gang: object, before: GangState, after: GangState) -> None:
    """Raise IllegalTransition unless the table allows it."""
    if after not in GANG_TRANSITIONS[before]:
        raise IllegalTransition(f"gang {gang}: {before} -> {after}")
