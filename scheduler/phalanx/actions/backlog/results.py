"""What a cycle remembers of its refusals, and its verdicts on gangs that it did not look at."""

from collections.abc import Mapping

from msgspec import Struct

from phalanx.actions.backlog.backlog import Backlog, Objected
from phalanx.actions.backlog.queue_backlog import Entry
from phalanx.actions.backlog.selection import Selection
from phalanx.actions.demands.demand import START
from phalanx.actions.enqueue import verdict_of
from phalanx.actions.explanations.start_messages import final_verdict
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
    refused_starts: Mapping[QueueName, Mapping[GangId, Refusal]]
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
    for selection in backlog.selections.values():
        for entry in selection.seen.values():
            refusal = found.pop(entry.gang.id, entry.refusal)
            if session.gang_state(entry.gang) is GangState.PLACED:
                refusal = None
            if refusal != entry.refusal:
                selection.backlog.learn(entry, refusal)
    turns = {name: selection.last_in_turn for name, selection in backlog.crowded.items()}
    return Remembered(
        refusals=dict(sorted(found.items())),
        refused_starts=backlog.refusals(),
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
    """The verdicts of this cycle, then the last ones on gangs that it did not try, in order by queue."""
    every = list(found)
    for selection in backlog.selections.values():
        every.extend(_last_verdicts(selection, session.snapshot.now))
    return tuple(every)


def _last_verdicts(selection: Selection, now: int) -> list[Verdict]:
    backlog, entries = selection.backlog, selection.untried
    if entries is not backlog.unschedulable:
        return [_last_verdict(entry, now) for entry in entries]
    if backlog.verdicts is None:
        backlog.verdicts = [_last_verdict(entry, now) for entry in entries]
    return backlog.verdicts


def _last_verdict(entry: Entry, now: int) -> Verdict:
    if entry.verdict is None:
        verdict = entry.refusal.verdict if entry.refusal is not None else not_tried(entry.gang)
        entry.verdict = final_verdict(with_ignored(verdict, entry.gang), entry.gang, None, now)
    return entry.verdict
