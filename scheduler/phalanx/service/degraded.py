"""Gangs that have started and have fewer members than their minimum: what they lack and wait for. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from phalanx.model.gangs import Gang, missing_by_role, missing_by_subgroup
from phalanx.model.pods import Pod, PodPhase
from phalanx.model.reasons import Reason, Verdict

_NAMES_SHOWN: Final = 3
"""Failed members that are named; all others are a number."""


def is_degraded(gang: Gang, verdict: Verdict | None, *, started: bool) -> bool:
    """Whether members are missing that are not there by intention.

    Intended are members that have succeeded and are gone, and those for which the start reserved capacity.
    """
    if not started or gang.minimum.is_reached(gang.bound):
        return False
    if any(pod.deleting or pod.phase is PodPhase.FAILED for pod in gang.members):
        return True
    if gang.reserves:
        return verdict is not None and verdict.reason is Reason.RESERVATION_EXPIRED
    return not gang.is_finishing or gang.has_waiting


def what_it_lacks(gang: Gang) -> str:
    """How many members are left, what became of the others, and who has to create them."""
    return "; ".join((_left(gang), *_lost(gang.members), *_awaited(gang)))


def _left(gang: Gang) -> str:
    have = len(gang.bound)
    if have < gang.min_member:
        return f"{have} of {gang.min_member} members {'is' if have == 1 else 'are'} left"
    by_part = {**missing_by_role(gang.bound, gang.roles), **missing_by_subgroup(gang.bound, gang.subgroups)}
    return "missing members: " + ", ".join(f"{number} of {part}" for part, number in by_part.items())


def _lost(members: Sequence[Pod]) -> Iterator[str]:
    failed = [pod for pod in members if pod.phase is PodPhase.FAILED]
    for pod in failed[:_NAMES_SHOWN]:
        cause = str(pod.failed or "") or (str(pod.failure.value) if pod.failure is not None else "")
        yield f"pod {pod.name} failed: {cause}" if cause else f"pod {pod.name} failed"
    if len(failed) > _NAMES_SHOWN:
        yield f"{len(failed) - _NAMES_SHOWN} more pods failed"
    deleting = sum(1 for pod in members if pod.deleting)
    if deleting:
        yield f"{_pods(deleting)} being deleted"


def _awaited(gang: Gang) -> Iterator[str]:
    waiting = sum(1 for pod in gang.members if pod.is_waiting)
    if waiting:
        yield f"{_pods(waiting)} waiting for a node"
    assumed = sum(1 for pod in gang.counted if pod.assumed)
    if assumed:
        yield f"{_pods(assumed)} being bound"
    missing = gang.min_member - len(gang.bound) - waiting - assumed
    if missing > 0:
        owners = Counter(
            f"{pod.controller.kind} {pod.controller.name}" for pod in gang.members if pod.controller
        )
        by = f" by {min(owners)}" if len(owners) == 1 else ""
        yield f"{_pods(missing)} to be created{by}"


def _pods(number: int) -> str:
    return f"{number} pod is" if number == 1 else f"{number} pods are"
