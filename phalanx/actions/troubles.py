"""Which started gangs have lost members in a way that their `recovery` answers, and what is to be done.

All of it is read from the cluster in each cycle, so that a new leader goes on where the last one was. Memory
adds since when a trouble lasts, and keeps one in mind whose traces are gone: a failed pod that was deleted.

A trouble is answered when every member that holds a node was created after it: a gang that was restarted is
not restarted again for a failed pod of the time before, or for one stuck in deletion on a lost node.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from phalanx.framework.lost import is_on_lost_node
from phalanx.framework.session import Session
from phalanx.limits import MEMBER_FAILURE_GRACE_MS, NODE_LOSS_GRACE_MS
from phalanx.model.gangs import Gang, RecoveryMode
from phalanx.model.memory import TroubleKind
from phalanx.model.names import GangId
from phalanx.model.pods import Pod, PodFailure, PodPhase


class Trouble(Struct, frozen=True):
    """What befell a gang, since when and until when (ms) it is left alone, and who is to be evicted then."""

    kind: TroubleKind
    mode: RecoveryMode
    since: int
    due: int
    victims: tuple[Pod, ...]
    cause: str


Troubles = Mapping[GangId, tuple[Trouble, ...]]
"""The troubles of each gang that has any, worst first: a restart makes all else needless."""


def find(session: Session) -> Troubles:
    """All troubles of gangs that ask for help."""
    found: dict[GangId, tuple[Trouble, ...]] = {}
    for gang in session.unsettled:
        if gang.started and _asks_for_help(gang) and not gang.is_finishing:
            troubles = tuple(_of(gang, session))
            if troubles:
                found[gang.id] = troubles
    return found


def restart_of(troubles: Troubles, gang: Gang) -> Trouble | None:
    """The trouble for which the whole gang is restarted, or will be: until then it gets no nodes."""
    first = next(iter(troubles.get(gang.id, ())), None)
    return first if first is not None and first.mode is RecoveryMode.RESTART else None


def _asks_for_help(gang: Gang) -> bool:
    wish = gang.recovery
    return wish.on_node_loss is not RecoveryMode.WAIT or wish.on_member_failure is RecoveryMode.RESTART


def _of(gang: Gang, session: Session) -> Iterable[Trouble]:
    holders = [pod for pod in gang.members if pod.holds_node and not pod.deleting]
    lost = [pod for pod in gang.members if is_on_lost_node(pod, session)]
    failed = [pod for pod in gang.members if pod.phase is PodPhase.FAILED and not pod.deleting]
    of_node = [*lost, *(pod for pod in failed if pod.failure is PodFailure.NODE_LOST)]
    own = [pod for pod in failed if pod.failure is not PodFailure.NODE_LOST]
    for kind, causes, wish, usual in (
        (TroubleKind.MEMBER_FAILURE, own, gang.recovery.on_member_failure, MEMBER_FAILURE_GRACE_MS),
        (TroubleKind.NODE_LOSS, of_node, gang.recovery.on_node_loss, NODE_LOSS_GRACE_MS),
    ):
        since = session.snapshot.memory.troubles.get(gang.id, {}).get(kind)
        victims = _victims(gang, wish, causes, holders, goes_on=since is not None)
        if victims:
            began = min(session.snapshot.now, session.snapshot.now if since is None else since)
            grace = usual if gang.recovery.grace_ms is None else gang.recovery.grace_ms
            cause = _cause(kind, [pod for pod in causes if not _is_answered(pod, holders)] or causes)
            trouble = Trouble(kind, wish, began, began + grace, tuple(victims), cause)
            yield trouble
            if wish is RecoveryMode.RESTART:
                return


def _victims(
    gang: Gang, wish: RecoveryMode, causes: list[Pod], holders: list[Pod], *, goes_on: bool
) -> list[Pod]:
    if wish is RecoveryMode.REPLACE:
        return [pod for pod in causes if pod.holds_node and not pod.deleting]
    if wish is RecoveryMode.WAIT:
        return []
    is_open = any(not _is_answered(pod, holders) for pod in causes)
    is_whole = gang.minimum.is_reached(holders)
    return holders if is_open or (goes_on and not is_whole) else []


def _is_answered(cause: Pod, holders: list[Pod]) -> bool:
    if cause.holds_node and not cause.deleting:
        return False
    if not cause.ended:
        return all(pod.created > cause.created for pod in holders)
    return all(pod.created >= cause.ended for pod in holders)


def _cause(kind: TroubleKind, causes: list[Pod]) -> str:
    """What happened, in words that fit behind "because"."""
    if not causes:
        return "members were lost" if kind is TroubleKind.NODE_LOSS else "a member failed"
    first = causes[0]
    if kind is TroubleKind.NODE_LOSS:
        return f"node {first.node} of member {first.name} is lost"
    return f"member {first.name} failed on node {first.node}" if first.node else f"member {first.name} failed"
