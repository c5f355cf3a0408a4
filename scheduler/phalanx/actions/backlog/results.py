"""What a cycle remembers of its refusals, and its verdicts on gangs that it did not look at."""

from collections.abc import Iterable, Mapping
from itertools import chain

from msgspec import Struct

from phalanx.actions.backlog.backlog import Backlog, CrowdedQueue, Objected
from phalanx.actions.backlog.queue_index import START
from phalanx.actions.enqueue import verdict_of
from phalanx.actions.explanations.start_messages import with_deadline
from phalanx.actions.verdicts import not_tried
from phalanx.framework.retry import Refusals
from phalanx.framework.session import Session, with_ignored
from phalanx.framework.states import GangState
from phalanx.model.gangs import Gang, QueuePlace
from phalanx.model.memory import HelpedBy, Refusal
from phalanx.model.names import GangId, QueueName
from phalanx.model.reasons import Verdict


class Remembered(Struct, frozen=True):
    """The parts of the memory that say which gangs were refused."""

    refusals: Mapping[GangId, Refusal]
    set_aside: Mapping[GangId, Refusal]
    turns: Mapping[QueueName, QueuePlace]


def remembered(
    session: Session, backlog: Backlog, refusals: Refusals, refused: Mapping[GangId, Refusal]
) -> Remembered:
    """The refusals that the next cycle knows. `refused`: those of the demands that failed.

    After an error of a plugin, which may have caused a refusal, nothing new is remembered.
    """
    found = {} if session.hooks.errors.messages else dict(refused)
    for gang_id, objected in backlog.objections.items() if not session.hooks.errors.messages else ():
        found.setdefault(gang_id, _objection(backlog.snapshot.gangs[gang_id], objected, refusals))
    for queue in backlog.crowded.values():
        for entry in queue.seen.values():
            refusal = found.pop(entry.gang.id, entry.refusal)
            if session.gang_state(entry.gang) is GangState.PLACED:
                refusal = None
            if refusal != entry.refusal:
                queue.index.learn(entry, refusal)
    turns = {name: queue.last_in_turn for name, queue in backlog.crowded.items()}
    return Remembered(
        refusals=dict(sorted(found.items())),
        set_aside=backlog.set_aside(),
        turns={name: place for name, place in turns.items() if place is not None},
    )


def _objection(gang: Gang, objected: Objected, refusals: Refusals) -> Refusal:
    """The refusal of a gang because of an objection; only its verdict if the objection may end any time."""
    objection, verdict = objected.objection, verdict_of(gang, objected.objection)
    if not objected.lasts:
        return Refusal("", verdict, is_objection=True)
    helped_by = HelpedBy.NODE_SIZE if objected.resource else HelpedBy.CLUSTER
    return refusals.refuse(
        gang, START, verdict, helped_by, objected.resource, is_objection=True, until=objection.until
    )


def verdicts(found: tuple[Verdict, ...], backlog: Backlog, session: Session) -> tuple[Verdict, ...]:
    """All verdicts: those of this cycle, and the last ones on gangs that were set aside, in usual order."""
    if not backlog.crowded:
        return found
    new = {verdict.gang: verdict for verdict in found}
    seen = {gang for queue in backlog.crowded.values() for gang in queue.seen}
    rest = [verdict for verdict in found if verdict.gang not in seen]
    parts = [_in_order(queue, new, session.snapshot.now) for queue in backlog.crowded.values()]
    return tuple(chain(rest, *parts))


def _in_order(queue: CrowdedQueue, new: Mapping[GangId, Verdict], now: int) -> Iterable[Verdict]:
    index = queue.index
    for gang in index.outdated_verdicts(now):
        entry = index.entries[gang]
        verdict = entry.refusal.verdict if entry.refusal is not None else not_tried(entry.gang)
        index.show(entry, with_deadline(with_ignored(verdict, entry.gang), entry.gang, None, now), now)
    if not queue.seen:
        return index.shown_in_order
    shown = {**index.shown, **{gang: new.get(gang) for gang in queue.seen}}
    return [verdict for verdict in map(shown.get, index.ids) if verdict is not None]
