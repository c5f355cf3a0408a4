"""Verdicts: explain each gang that has members without a node, and remember the explanation."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Final, TypeVar

from msgspec.structs import replace

from phalanx.actions import formatting
from phalanx.actions.context import Cycle
from phalanx.actions.demands.demand import START, Demand, has_affinity_terms
from phalanx.actions.enqueue import verdict_of
from phalanx.actions.explanations import start_messages
from phalanx.actions.explanations.diagnoses import Diagnosis
from phalanx.actions.explanations.supply_diagnoses import no_division
from phalanx.actions.explanations.unfit_members import unfit_members
from phalanx.actions.outcome import Failure, Outcome
from phalanx.framework.retry import ADVICE_RENEWAL_MS
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.memory import HelpedBy, Refusal
from phalanx.model.names import GangId, QueueName
from phalanx.model.reasons import Category, Evidence, Objection, Reason, Verdict
from phalanx.model.supplies.devices.session.session_devices import open_devices

CYCLE_EXPLANATIONS_MAX: Final = 10
"""Refusals that one cycle explains. Later cycles explain the others, first those that have waited longest."""

T = TypeVar("T")


def execute(cycle: Cycle) -> None:
    """Explain failures up to the limit of a cycle, first those that have waited for it in most cycles.

    The limits that protect victims become evidence of the remembered verdict.
    """
    session, outcome = cycle.session, cycle.outcome
    found = _Explanations(cycle).all()
    outcome.errors.extend(cycle.answers.take_errors())
    reserved_starts = {reservation.gang: reservation for reservation in outcome.reserved}
    refusals: dict[GangId, Refusal] = {}
    for failure in outcome.failures.values():
        gang = failure.demand.gang
        if failure.blocked_by is not None:
            verdict = start_messages.would_delay(gang, failure.blocked_by, session.snapshot.now)
            cycle.refused[gang.id] = Refusal(fingerprint="", verdict=verdict)
        else:
            refusal = _with_evidence(found[gang.id], _protection(failure, cycle.protected.get(gang.id)))
            verdict = refusal.verdict
            if failure.tried and failure.objection is None:
                refusals[gang.id] = refusal
                cycle.refused[gang.id] = refusal
        if gang.id not in session.verdicts:
            noted = replace(verdict, evidence=(*verdict.evidence, *cycle.notes.get(gang.id, ())))
            session.refuse(gang, start_messages.with_start(noted, reserved_starts.get(gang.id)))
    for refusal in refusals.values():
        cycle.wake_at(_advice_renewed_at(refusal, session.snapshot.now))
    complete = all(_is_complete(failure, refusals) for failure in outcome.failures.values())
    cycle.is_complete &= complete and not _unblocks_queue(outcome, refusals)


class _Explanations:
    """The explanations of one cycle. Every gang is explained in some cycle, even if the cluster changes."""

    def __init__(self, cycle: Cycle) -> None:
        self._session = cycle.session
        self._backlog = cycle.backlog
        self._outcome = cycle.outcome
        self._explainer = cycle.explainer
        self._refusals = cycle.refusals()
        self._explained: Counter[QueueName] = Counter()

    def all(self) -> dict[GangId, Refusal]:
        """The explanations of all failures that no reservation blocks."""
        failures = [failure for failure in self._outcome.failures.values() if failure.blocked_by is None]
        oldest_first = sorted(failures, key=self._waiting_since)
        ordered = in_turn(oldest_first, lambda failure: failure.demand.gang.queue, self._session.cycle)
        return {failure.demand.gang.id: self._explain(failure) for failure in ordered}

    def _waiting_since(self, failure: Failure) -> int:
        """The cycle since which the gang waits for an explanation."""
        before = self._backlog.known(failure.demand.gang)
        return (
            self._session.cycle
            if before is None or before.unexplained_since is None
            else before.unexplained_since
        )

    def _explain(self, failure: Failure) -> Refusal:
        gang, cause = failure.demand.gang, failure.demand.cause
        if failure.objection is not None:
            return Refusal(fingerprint="", verdict=verdict_of(gang, failure.objection))
        lacking = self._outcome.lacking.get(gang.id)
        if lacking is not None and not lacking.on_nodes:
            objection = Objection(lacking.supply.reason, lacking.why, lacking.supply.next_step)
            return Refusal(fingerprint="", verdict=verdict_of(gang, objection))
        if lacking is not None:
            return self._refusals.refuse(gang, cause, verdict_of(gang, no_division()), HelpedBy.CAPACITY)
        if failure.remembered is not None and failure.remembered.explained:
            return failure.remembered
        before = self._backlog.known(gang)
        if not failure.tried:
            return Refusal(
                fingerprint="",
                verdict=not_tried(gang),
                unexplained_since=self._waiting_since(failure),
            )
        known = len(self._outcome.errors)
        diagnosis = self._diagnosis(failure)
        has_failed = len(self._outcome.errors) > known
        if diagnosis is not None:
            since = self._advice_pending_since(before) if diagnosis.advice.is_pending else None
            verdict, helped_by = (
                explained(failure.demand, diagnosis, self._session),
                self._helped_by(failure, diagnosis),
            )
            refusal = self._refusals.refuse(gang, cause, verdict, helped_by, advice_pending_since=since)
            return _with_last_advice(refusal, before)
        verdict = _not_explained(gang, before, has_failed=has_failed)
        since = None if has_failed else self._waiting_since(failure)
        return self._refusals.refuse(gang, cause, verdict, unexplained_since=since)

    def _advice_pending_since(self, before: Refusal | None) -> int:
        """The cycle since which the gang waits for advice."""
        since = before.advice_pending_since if before is not None else None
        return self._session.cycle if since is None else since

    def _diagnosis(self, failure: Failure) -> Diagnosis | None:
        """Why the demand does not fit; None if the bounds of the cycle are reached, or after an error."""
        gang, explainer = failure.demand.gang, self._explainer
        most, selection = CYCLE_EXPLANATIONS_MAX, self._backlog.selection_of(gang)
        if selection is not None and selection.is_crowded:
            most = selection.bounds.explanations
        may_solve = (
            explainer.count < CYCLE_EXPLANATIONS_MAX
            and explainer.has_solves
            and self._explained[gang.queue] < most
        )
        count = explainer.count
        found = self._outcome.isolate_errors(
            lambda: explainer.explain(failure.demand, may_solve=may_solve), about=f"why {gang} waits"
        )
        self._explained[gang.queue] += explainer.count - count
        return found

    def _helped_by(self, failure: Failure, diagnosis: Diagnosis) -> HelpedBy:
        """What could help the gang. Other pods may help a gang with affinity, or the end of the breaker."""
        gang, session = failure.demand.gang, self._session
        is_lasting = (
            _is_impossible(diagnosis)
            and failure.demand.cause == START
            and self._backlog.snapshot.gangs[gang.id].is_untouched
            and not has_affinity_terms(failure.demand)
            and not session.health.is_open
            and session.hooks.are_answers_lasting
        )
        return HelpedBy.CLUSTER if is_lasting else HelpedBy.CAPACITY


def in_turn(items: Iterable[T], queue_of: Callable[[T], QueueName], cycle: int) -> Iterator[T]:
    """The items in an order in which the queues take turns; another one begins in each cycle."""
    by_queue: dict[QueueName, list[T]] = {}
    for item in items:
        by_queue.setdefault(queue_of(item), []).append(item)
    names = sorted(by_queue)
    start = cycle % max(1, len(names))
    turns = zip_longest(*(by_queue[name] for name in (*names[start:], *names[:start])))
    return (item for turn in turns for item in turn if item is not None)


def _protection(failure: Failure, found: tuple[Evidence, ...] | None) -> tuple[Evidence, ...]:
    """The limits that protect victims, found in this cycle or in an earlier one that did not explain it."""
    known = failure.remembered
    if found is None and known is not None and not known.explained:
        return known.verdict.evidence
    return found or ()


def _with_evidence(refusal: Refusal, more: tuple[Evidence, ...]) -> Refusal:
    """The refusal with the limits that protect victims, which its advice does not repeat."""
    if refusal.advice_pending_since is not None:
        refusal = replace(refusal, protection=tuple(dict.fromkeys((*refusal.protection, *more))))
    verdict = with_evidence(refusal.verdict, more)
    return refusal if verdict is refusal.verdict else replace(refusal, verdict=verdict)


def with_evidence(verdict: Verdict, more: tuple[Evidence, ...]) -> Verdict:
    """The verdict with further evidence."""
    new = tuple(item for item in more if item not in verdict.evidence)
    return replace(verdict, evidence=(*verdict.evidence, *new)) if new else verdict


def _with_last_advice(refusal: Refusal, before: Refusal | None) -> Refusal:
    """The refusal with the last complete verdict until its own advice is there, if only the cluster has
    changed and the reason is the same: its status does not change back and forth."""
    if (
        refusal.advice_pending_since is None
        or before is None
        or before.is_objection
        or before.fingerprint != refusal.fingerprint
        or before.verdict.reason is not refusal.verdict.reason
        or before.verdict.lacks_advice
    ):
        return refusal
    is_open = refusal.helped_by is HelpedBy.CAPACITY
    return replace(refusal, verdict=before.verdict, advised_at=before.advised_at if is_open else None)


def _advice_renewed_at(refusal: Refusal, now: int) -> int | None:
    """The time (ms) of a cycle after which the advice of before a change is searched again; None for none."""
    if refusal.advice_pending_since is None or refusal.advised_at is None:
        return None
    at = refusal.advised_at + 2 * ADVICE_RENEWAL_MS
    return at if at > now else None


def _unblocks_queue(outcome: Outcome, refusals: Mapping[GangId, Refusal]) -> bool:
    """Whether this cycle found the head of a strict queue impossible: the next cycle tries the others."""
    behind = {
        failure.demand.gang.queue for failure in outcome.failures.values() if failure.objection is not None
    }
    return any(
        _is_explained_now(failure, refusals)
        and failure.demand.gang.queue in behind
        and refusals[gang].verdict.reason.category is Category.IMPOSSIBLE
        for gang, failure in outcome.failures.items()
    )


def _is_explained_now(failure: Failure, refusals: Mapping[GangId, Refusal]) -> bool:
    found, before = refusals.get(failure.demand.gang.id), failure.remembered
    return found is not None and found.explained and not (before is not None and before.explained)


def _is_complete(failure: Failure, refusals: Mapping[GangId, Refusal]) -> bool:
    if failure.blocked_by is not None or failure.objection is not None:
        return True
    return failure.tried and refusals[failure.demand.gang.id].explained


def explained(demand: Demand, diagnosis: Diagnosis, session: Session) -> Verdict:
    """The verdict on the gang of a demand with this diagnosis."""
    return Verdict(
        gang=demand.gang.id,
        group=str(demand.gang),
        reason=diagnosis.reason,
        message=f"subgroup {diagnosis.subgroup}: {diagnosis.message}"
        if diagnosis.subgroup
        else diagnosis.message,
        evidence=(
            *diagnosis.evidence,
            *(_untried_choices(demand, session) if not _is_impossible(diagnosis) else ()),
            *_absent(demand),
            *unfit_members(demand.gang, session),
        ),
        next_step=diagnosis.next_step,
    )


def _is_impossible(diagnosis: Diagnosis) -> bool:
    return diagnosis.reason.category is Category.IMPOSSIBLE


def _untried_choices(demand: Demand, session: Session) -> Iterator[Evidence]:
    """Evidence that the search among devices of shared claims ended at its bound."""
    if (devices := open_devices(session)) is not None and demand.gang.id in devices.shared.bounded:
        found = "not all choices of their devices were tried; with others the gang might fit"
        yield Evidence("claims that pods share", found)


def _absent(demand: Demand) -> Iterator[Evidence]:
    """Evidence of members that do not exist yet, for which the gang reserves capacity."""
    pods = [pod for batch in demand.batches for pod in batch.pods if pod.is_placeholder]
    for role, count in Counter(pod.role for pod in pods).items():
        yield Evidence(f"role {role}", f"{formatting.pods(count)} to come, with capacity to reserve")


def _not_explained(gang: Gang, before: Refusal | None, *, has_failed: bool) -> Verdict:
    """A verdict with the last known reason. After an error there is no retry until something changes."""
    if has_failed:
        return _pending(
            gang,
            "does not fit; the reason is unknown after a scheduler error (see its log)",
        )
    if before is not None and before.is_objection:
        before = None
    if before is not None and not before.explained:
        return _pending(gang, before.verdict.message)
    last = f"; before the last change: {before.verdict.message}" if before is not None else ""
    return _pending(gang, f"does not fit; a later cycle finds the reason{last}")


def not_tried(gang: Gang) -> Verdict:
    """The verdict on a gang that no cycle has tried yet."""
    return _pending(gang, "not tried yet: the cycle reached its limit of solves")


def _pending(gang: Gang, message: str) -> Verdict:
    return Verdict(
        gang=gang.id,
        group=str(gang),
        reason=Reason.NOT_TRIED_YET,
        message=message,
        next_step="Wait for the next cycles",
    )
