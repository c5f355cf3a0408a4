"""What a cycle remembers of its refusals, and its verdicts on gangs that it did not look at."""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.backlog.backlog import Backlog, Objected
from phalanx.actions.backlog.equal_gangs import Entry, Kind
from phalanx.actions.backlog.selection import Selection
from phalanx.actions.demands.demand import START
from phalanx.actions.enqueue import verdict_of
from phalanx.actions.explanations.start_messages import final_verdict
from phalanx.actions.verdicts import not_tried
from phalanx.framework.retry import Refusals
from phalanx.framework.session import Session, with_ignored
from phalanx.framework.states import GangState
from phalanx.model.gangs import Gang, QueuePlace
from phalanx.model.memory import HelpedBy, Memory, Refusal
from phalanx.model.names import GangId, QueueName
from phalanx.model.reasons import Verdict


class Remembered(Struct, frozen=True):
    """The parts of the memory that say which gangs were refused."""

    refusals: Mapping[GangId, Refusal]
    refused_starts: Mapping[QueueName, Mapping[GangId, Refusal]]
    turns: Mapping[QueueName, QueuePlace]
    resting_turns: Mapping[QueueName, QueuePlace]


def remembered(
    session: Session,
    backlog: Backlog,
    refusals: Refusals,
    refused: Mapping[GangId, Refusal],
    memory: Memory,
) -> Remembered:
    """The refusals that the next cycle knows. `refused`: those of the demands that failed. `memory`: what
    else it knows.

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
            if selection.rests and refusal is not None:
                refusal = _with_search(refusal, entry.gang.id, memory)
            if refusal != entry.refusal:
                selection.backlog.learn(entry, refusal)
    turns = {name: selection.last_in_turn for name, selection in backlog.crowded.items()}
    return Remembered(
        refusals=dict(sorted(found.items())),
        refused_starts=backlog.refusals(),
        turns={name: place for name, place in turns.items() if place is not None},
        resting_turns={
            name: each.last_rested
            for name, each in backlog.crowded.items()
            if each.rests and each.last_rested is not None
        },
    )


def _with_search(refusal: Refusal, gang: GangId, memory: Memory) -> Refusal:
    """The refusal with the last search for victims: the next cycle may not look at the gang."""
    searched, search_at = memory.candidate_queues.get(gang), memory.preemption_retry_at.get(gang)
    if (searched, search_at) == (refusal.searched, refusal.search_at):
        return refusal
    return replace(refusal, searched=searched, search_at=search_at)


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
    """The verdicts of this cycle, then the last ones on gangs that it did not try, in order by queue.

    A gang behind equal ones has the verdict of the last one before it that has some.
    """
    every = list(found)
    for selection in backlog.selections.values():
        every.extend(_last_verdicts(selection, session.snapshot.now))
    kinds = [
        (each, kind) for each in backlog.selections.values() for kind in each.backlog.equal.long.values()
    ]
    known = {verdict.gang: verdict for verdict in every} if kinds else {}
    for selection, kind in kinds:
        every.extend(_verdicts_behind(kind, selection, known))
    return tuple(every)


def _verdicts_behind(kind: Kind, selection: Selection, known: Mapping[GangId, Verdict]) -> list[Verdict]:
    entries = selection.unseen_of(kind)
    last = next((each.gang for each in reversed(kind.front) if each.gang.id in known), None)
    if last is None:
        return [not_tried(entry.gang) for entry in entries]
    verdict = known[last.id]
    if kind.shown is None or kind.shown[0] != verdict or len(kind.shown[1]) != len(entries):
        kind.shown = (verdict, _on_equal_gangs(verdict, last, [entry.gang for entry in entries]))
    return kind.shown[1]


def _on_equal_gangs(verdict: Verdict, gang: Gang, others: Sequence[Gang]) -> list[Verdict]:
    pods = [str(pod) for pod in gang.members]
    if not any(pod in each.subject for each in verdict.evidence for pod in pods):
        return [_on(other, verdict, {}) for other in others]
    return [_on(other, verdict, dict(zip(pods, map(str, other.members), strict=True))) for other in others]


def _on(gang: Gang, verdict: Verdict, pods: Mapping[str, str]) -> Verdict:
    """The verdict on a gang that is equal to its gang. `pods`: what the pods of that gang are in this one."""
    marked, evidence = verdict.marked, verdict.evidence
    if marked is not None:
        marked = _on(gang, marked, pods)
    if pods:
        evidence = tuple([replace(each, subject=_renamed(each.subject, pods)) for each in evidence])
    named = (gang.id, f"{gang.namespace}/{gang.name}")
    return Verdict(*named, verdict.reason, verdict.message, evidence, verdict.next_step, None, marked)


def _renamed(subject: str, pods: Mapping[str, str]) -> str:
    return "".join([pods.get(word, word) for word in re.split("([ ,]+)", subject)])


def _last_verdicts(selection: Selection, now: int) -> list[Verdict]:
    backlog, entries = selection.backlog, selection.untried
    if entries is not backlog.unschedulable:
        return [_last_verdict(entry, now) for entry in entries]
    if backlog.verdicts is None:
        backlog.verdicts = [_last_verdict(entry, now) for entry in entries]
    return backlog.verdicts


def _last_verdict(entry: Entry, now: int) -> Verdict:
    if entry.verdict is not None:
        return entry.verdict
    verdict = entry.refusal.verdict if entry.refusal is not None else not_tried(entry.gang)
    found = final_verdict(with_ignored(verdict, entry.gang), entry.gang, None, now)
    deadline = entry.gang.deadline
    if deadline is None or deadline <= now:  # It says when the deadline has passed.
        entry.verdict = found
    return found
