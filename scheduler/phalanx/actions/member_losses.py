"""Which started gangs have lost members in a way that their `recovery` answers, and what is to be done.

All of it is read from the cluster in each cycle, so that a new leader goes on where the last one was. Memory
adds since when a trouble lasts, and keeps one in mind whose traces are gone: a failed pod that was deleted.

A trouble is answered when every member that holds a node was created after it: a gang that was restarted is
not restarted again for a failed pod of the time before, or for one stuck in deletion on a lost node.

All members of a gang that is restarted are told so before the first one is deleted (`kube/evictor.py`). What
was begun is seen on those that are left, and is finished, though its cause be gone or over by then.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from phalanx.framework.nodes.tolerations import is_on_lost_node
from phalanx.framework.session import Session
from phalanx.limits import MEMBER_FAILURE_GRACE_MS, NODE_LOSS_GRACE_MS
from phalanx.model.api.pod_groups import RecoveryMode
from phalanx.model.decisions import EvictionReason
from phalanx.model.gangs import Gang
from phalanx.model.memory import LossKind, Memory
from phalanx.model.names import GangId
from phalanx.model.pods import Pod, PodFailure, PodPhase


class MemberLoss(Struct, frozen=True):
    """What befell a gang, since when and until when (ms) it is left alone, and who is to be evicted then."""

    kind: LossKind
    mode: RecoveryMode
    since: int
    due: int
    victims: tuple[Pod, ...]
    cause: str


MemberLosses = Mapping[GangId, tuple[MemberLoss, ...]]
"""The troubles of each gang that has any, worst first: a restart makes all else needless."""


def find(session: Session) -> MemberLosses:
    """All troubles of gangs that ask for help."""
    found: dict[GangId, tuple[MemberLoss, ...]] = {}
    for gang in session.incomplete:
        if gang.started and _asks_for_help(gang) and not gang.is_finishing:
            member_losses = tuple(_of(gang, session))
            if member_losses:
                found[gang.id] = member_losses
    return found


def pending_restart(member_losses: MemberLosses, gang: Gang) -> MemberLoss | None:
    """The trouble for which the whole gang is restarted, or will be: until then it gets no nodes."""
    first = next(iter(member_losses.get(gang.id, ())), None)
    return first if first is not None and first.mode is RecoveryMode.RESTART else None


def _asks_for_help(gang: Gang) -> bool:
    wish = gang.recovery
    return wish.node_loss_mode is not RecoveryMode.WAIT or wish.member_failure_mode is RecoveryMode.RESTART


def _of(gang: Gang, session: Session) -> Iterable[MemberLoss]:
    now, memory = session.snapshot.now, session.snapshot.memory
    holders = [pod for pod in gang.members if pod.holds_node and not pod.deleting]
    known = memory.member_losses.get(gang.id, {})
    causes = _causes(gang, holders, session)
    still_open = {
        kind: [pod for pod in pods if not _is_answered(pod, holders, memory)] for kind, pods in causes.items()
    }
    for kind, wish, grace in _wishes(gang):
        is_open, since = bool(still_open[kind]), known.get(kind)
        victims = _victims(gang, wish, causes[kind], holders, is_open=is_open, goes_on=since is not None)
        if victims:
            began = min(now, now if since is None else since)
            cause = _cause(kind, still_open if is_open else causes)
            yield MemberLoss(kind, wish, began, began + grace, tuple(victims), cause)
            if wish is RecoveryMode.RESTART:
                return


def _causes(gang: Gang, holders: list[Pod], session: Session) -> Mapping[LossKind, list[Pod]]:
    """The members for which something may have to be done, open or answered."""
    lost = [pod for pod in gang.members if is_on_lost_node(pod, session)]
    failed = [pod for pod in gang.members if pod.phase is PodPhase.FAILED and not pod.deleting]
    return {
        LossKind.RESTART: [pod for pod in holders if _is_told_to_restart(pod, gang)],
        LossKind.MEMBER_FAILURE: [pod for pod in failed if pod.failure is not PodFailure.NODE_LOST],
        LossKind.NODE_LOSS: [*lost, *(pod for pod in failed if pod.failure is PodFailure.NODE_LOST)],
    }


def _wishes(gang: Gang) -> Iterable[tuple[LossKind, RecoveryMode, int]]:
    """What the gang asks for in each kind of trouble, and the grace (ms), which a restart has had already."""
    wish = gang.recovery
    if RecoveryMode.RESTART in (wish.member_failure_mode, wish.node_loss_mode):
        yield LossKind.RESTART, RecoveryMode.RESTART, 0
    for kind, mode, usual in (
        (LossKind.MEMBER_FAILURE, wish.member_failure_mode, MEMBER_FAILURE_GRACE_MS),
        (LossKind.NODE_LOSS, wish.node_loss_mode, NODE_LOSS_GRACE_MS),
    ):
        yield kind, mode, usual if wish.grace_ms is None else wish.grace_ms


def _is_told_to_restart(pod: Pod, gang: Gang) -> bool:
    """Whether it was told so as a member of this gang, and not of one that had the PodGroup's name before."""
    is_of_this = pod.created >= gang.created or pod.disrupted >= gang.created
    return pod.disruption == EvictionReason.GANG_RESTARTED and is_of_this


def _victims(
    gang: Gang, wish: RecoveryMode, causes: list[Pod], holders: list[Pod], *, is_open: bool, goes_on: bool
) -> list[Pod]:
    if wish is RecoveryMode.REPLACE:
        return [pod for pod in causes if pod.holds_node and not pod.deleting]
    if wish is RecoveryMode.WAIT:
        return []
    return holders if is_open or (goes_on and not gang.minimum.is_reached(holders)) else []


def _is_answered(cause: Pod, holders: list[Pod], memory: Memory) -> bool:
    if cause.holds_node and not cause.deleting:
        return False
    return all(_is_younger(pod, cause, memory) for pod in holders)


def _is_younger(pod: Pod, cause: Pod, memory: Memory) -> bool:
    """Whether it was created after the trouble.

    Whoever saw a failure come knows who held nodes then. Who did not has times to go by, for those of then.
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
        seen = [each for each in causes if each is not kind and causes[each]]
        return _cause(seen[0], causes) if seen else "an unfinished restart"
    if not causes[kind]:
        return "the loss of members" if kind is LossKind.NODE_LOSS else "the failure of a member"
    first = causes[kind][0]
    if kind is LossKind.NODE_LOSS:
        return f"the loss of node {first.node} of member {first.name}"
    return f"the failure of member {first.name}{f' on node {first.node}' if first.node else ''}"
