"""Find the member losses of started gangs from which `recovery` recovers.

Losses are derived from the cluster in each cycle, so that a new leader continues where the last one stopped.
The memory adds when a loss began, and keeps losses that the cluster does not show any more, such as a failed
pod that was deleted.

A loss is recovered when every member that holds a node was created after it. So a gang that was restarted is
not restarted again for an old failed pod, or for a pod that cannot be deleted on a lost node.

All members of a restarted gang get a condition before the first one is deleted (`kube/evictor.py`). An
unfinished restart is visible on the members that are left, and is finished even if its cause is gone.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from phalanx.framework.nodes.tolerations import is_on_lost_node
from phalanx.framework.session import Session
from phalanx.limits import NODE_LOSS_GRACE_MS
from phalanx.model import named_parts
from phalanx.model.api.pod_groups import RecoveryMode
from phalanx.model.decisions import EvictionReason
from phalanx.model.gangs import Gang
from phalanx.model.memory import LossKind, Memory
from phalanx.model.names import GangId
from phalanx.model.pods import Pod, PodPhase

_MEMBER_FAILURE_GRACE_MS: Final = 0
"""Milliseconds between the failure of a member and the restart of its gang, unless the gang sets another
value. A failed pod never recovers."""


class MemberLoss(Struct, frozen=True):
    """A loss of members, and the recovery from it."""

    kind: LossKind
    mode: RecoveryMode
    since: int
    grace_end: int
    """End (ms) of the grace period."""
    victims: tuple[Pod, ...]
    """The pods to evict at that time."""
    cause: str
    """A noun phrase for messages."""


MemberLosses = Mapping[GangId, tuple[MemberLoss, ...]]
"""By gang, the worst loss first: a restart makes all others irrelevant."""


def find(session: Session) -> MemberLosses:
    """All losses of gangs that request recovery."""
    found: dict[GangId, tuple[MemberLoss, ...]] = {}
    for gang in session.incomplete:
        if gang.started and _requests_recovery(gang) and not gang.is_finishing:
            member_losses = tuple(_losses_of(gang, session))
            if member_losses:
                found[gang.id] = member_losses
    return found


def pending_restart(member_losses: MemberLosses, gang: Gang) -> MemberLoss | None:
    """The loss for which the whole gang will be restarted; until then its new pods are not placed."""
    first = next(iter(member_losses.get(gang.id, ())), None)
    return first if first is not None and first.mode is RecoveryMode.RESTART else None


def _requests_recovery(gang: Gang) -> bool:
    recovery = gang.recovery
    return (
        recovery.node_loss_mode is not RecoveryMode.WAIT
        or recovery.member_failure_mode is RecoveryMode.RESTART
    )


def _losses_of(gang: Gang, session: Session) -> Iterable[MemberLoss]:
    now, memory = session.snapshot.now, session.snapshot.memory
    holders = [pod for pod in gang.members if pod.holds_node and not pod.deleting]
    known = memory.member_losses.get(gang.id, {})
    causes = _causes(gang, holders, session)
    still_open = {
        kind: [pod for pod in pods if not _is_recovered(pod, holders, memory)]
        for kind, pods in causes.items()
    }
    for kind, mode, grace in _modes(gang):
        is_open, since = bool(still_open[kind]), known.get(kind)
        victims = _victims(gang, mode, causes[kind], holders, is_open=is_open, goes_on=since is not None)
        if victims:
            began = min(now, now if since is None else since)
            cause = _cause(kind, still_open if is_open else causes)
            yield MemberLoss(kind, mode, began, began + grace, tuple(victims), cause)
            if mode is RecoveryMode.RESTART:
                return


def _causes(gang: Gang, holders: list[Pod], session: Session) -> Mapping[LossKind, list[Pod]]:
    """The lost members by kind of loss, recovered or not."""
    lost = [pod for pod in gang.members if is_on_lost_node(pod, session)]
    failed = [pod for pod in gang.members if pod.phase is PodPhase.FAILED and not pod.deleting]
    return {
        LossKind.RESTART: [pod for pod in holders if _is_marked_for_restart(pod, gang)],
        LossKind.MEMBER_FAILURE: [pod for pod in failed if not _is_node_loss(pod)],
        LossKind.NODE_LOSS: [*lost, *(pod for pod in failed if _is_node_loss(pod))],
    }


def _is_node_loss(pod: Pod) -> bool:
    return pod.failure is not None and pod.failure.is_node_loss


def _modes(gang: Gang) -> Iterable[tuple[LossKind, RecoveryMode, int]]:
    """The requested mode and grace period (ms) by kind of loss; an unfinished restart continues at once."""
    recovery = gang.recovery
    if RecoveryMode.RESTART in (recovery.member_failure_mode, recovery.node_loss_mode):
        yield LossKind.RESTART, RecoveryMode.RESTART, 0
    for kind, mode, usual in (
        (LossKind.MEMBER_FAILURE, recovery.member_failure_mode, _MEMBER_FAILURE_GRACE_MS),
        (LossKind.NODE_LOSS, recovery.node_loss_mode, NODE_LOSS_GRACE_MS),
    ):
        yield kind, mode, usual if recovery.grace_ms is None else recovery.grace_ms


def _is_marked_for_restart(pod: Pod, gang: Gang) -> bool:
    """Whether its condition was set for this gang, not for an earlier gang with the same PodGroup name."""
    is_of_gang = pod.created >= gang.created or pod.disrupted >= gang.created
    return pod.disruption == EvictionReason.GANG_RESTARTED and is_of_gang


def _victims(
    gang: Gang, mode: RecoveryMode, causes: list[Pod], holders: list[Pod], *, is_open: bool, goes_on: bool
) -> list[Pod]:
    if mode is RecoveryMode.REPLACE:
        return [pod for pod in causes if pod.holds_node and not pod.deleting]
    if mode is RecoveryMode.WAIT:
        return []
    return holders if is_open or (goes_on and not gang.minimum.is_reached(holders)) else []


def _is_recovered(cause: Pod, holders: list[Pod], memory: Memory) -> bool:
    if cause.holds_node and not cause.deleting:
        return False
    return all(_was_created_after(pod, cause, memory) for pod in holders)


def _was_created_after(pod: Pod, cause: Pod, memory: Memory) -> bool:
    """Whether the pod was created after the loss.

    If this leader saw the failure, it knows which members held nodes at that time. Otherwise timestamps are
    compared.
    """
    if cause.phase is PodPhase.FAILED and cause.node is not None and memory.cycle:
        seen = memory.failed.get(cause.uid)
        if seen is None:
            return False
        if pod.created > seen.newest_member or not seen.before_start:
            return pod.created > seen.newest_member
    if cause.deleting and pod.created > memory.deleting_members.get(cause.uid, pod.created):
        return True
    return pod.created > cause.created and pod.created >= cause.ended


def _cause(kind: LossKind, causes: Mapping[LossKind, list[Pod]]) -> str:
    """The cause of the loss, as a noun phrase that fits after "after"."""
    if kind is LossKind.RESTART:
        seen = [other for other in causes if other is not kind and causes[other]]
        return _cause(seen[0], causes) if seen else "an unfinished restart"
    if not causes[kind]:
        return "the loss of members" if kind is LossKind.NODE_LOSS else "the failure of a member"
    first = causes[kind][0]
    if kind is LossKind.NODE_LOSS:
        return f"the loss of {named_parts.node(first.node or '', titled=True)} of member {first.name}"
    where = f" on {named_parts.node(first.node, titled=True)}" if first.node else ""
    return f"the failure of member {first.name}{where}"
