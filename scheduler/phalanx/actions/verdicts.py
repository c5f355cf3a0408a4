"""Verdicts: explain each gang that has members without a node, and remember the explanation."""

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from phalanx.actions import formatting
from phalanx.actions.context import Cycle
from phalanx.actions.demands.demand import Demand
from phalanx.actions.enqueue import verdict_of
from phalanx.actions.explanations import start_messages
from phalanx.actions.explanations.diagnoses import Diagnosis
from phalanx.actions.explanations.explainer import Explainer
from phalanx.actions.explanations.unfit_members import unfit_members
from phalanx.actions.limits import CYCLE_EXPLANATIONS_MAX
from phalanx.actions.outcome import Failure, Outcome
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.memory import Refusal
from phalanx.model.names import GangId
from phalanx.model.reasons import Category, Evidence, Reason, Verdict


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
        else:
            refusal = _with_evidence(found[gang.id], _protection(failure, cycle.protected.get(gang.id)))
            verdict = refusal.verdict
            if failure.tried and failure.objection is None:
                refusals[gang.id] = refusal
        if gang.id not in session.verdicts:
            noted = replace(verdict, evidence=(*verdict.evidence, *cycle.notes.get(gang.id, ())))
            session.refuse(gang, start_messages.with_start(noted, reserved_starts.get(gang.id)))
    complete = all(_is_complete(failure, refusals) for failure in outcome.failures.values())
    # A refusal that an error of a plugin may have caused must not be remembered.
    remembered = {} if session.hooks.errors.messages else dict(sorted(refusals.items()))
    cycle.memory = replace(cycle.memory, refusals=remembered)
    cycle.is_complete &= complete and not _unblocks_queue(outcome, refusals)


class _Explanations:
    """The explanations of one cycle. Every gang is explained in some cycle, even if the cluster changes."""

    def __init__(self, cycle: Cycle) -> None:
        self._session = cycle.session
        self._outcome = cycle.outcome
        failed = [failure.demand for failure in cycle.outcome.failures.values()]
        self._explainer = Explainer(cycle.session, cycle.answers, failed)
        self._retry_keys = cycle.refusals()
        self._before = cycle.session.snapshot.memory.refusals

    def all(self) -> dict[GangId, Refusal]:
        """The explanations of all failures that no reservation blocks."""
        failures = [failure for failure in self._outcome.failures.values() if failure.blocked_by is None]
        ordered = sorted(failures, key=self._waiting_since)
        return {failure.demand.gang.id: self._explain(failure) for failure in ordered}

    def _waiting_since(self, failure: Failure) -> int:
        """The cycle since which the gang waits for an explanation."""
        before = self._before.get(failure.demand.gang.id)
        return (
            self._session.cycle
            if before is None or before.unexplained_since is None
            else before.unexplained_since
        )

    def _explain(self, failure: Failure) -> Refusal:
        gang = failure.demand.gang
        if failure.objection is not None:
            return Refusal(fingerprint="", verdict=verdict_of(gang, failure.objection))
        if failure.remembered is not None and failure.remembered.explained:
            return failure.remembered
        if not failure.tried:
            return Refusal(
                fingerprint="", verdict=_not_tried(gang), unexplained_since=self._waiting_since(failure)
            )
        known, may_solve = len(self._outcome.errors), self._explainer.count < CYCLE_EXPLANATIONS_MAX
        diagnosis = self._outcome.isolate_errors(
            lambda: self._explainer.explain(failure.demand, may_solve=may_solve), about=f"why {gang} waits"
        )
        has_failed = len(self._outcome.errors) > known
        if diagnosis is not None:
            verdict = _explained(failure.demand, diagnosis, self._session)
        else:
            verdict = _not_explained(gang, self._before.get(gang.id), has_failed=has_failed)
        return Refusal(
            fingerprint=self._retry_keys.fingerprint(gang, failure.demand.cause),
            verdict=verdict,
            unexplained_since=None if diagnosis is not None or has_failed else self._waiting_since(failure),
        )


def _protection(failure: Failure, found: tuple[Evidence, ...] | None) -> tuple[Evidence, ...]:
    """The limits that protect victims, found in this cycle or in an earlier one that did not explain it."""
    known = failure.remembered
    if found is None and known is not None and not known.explained:
        return known.verdict.evidence
    return found or ()


def _with_evidence(refusal: Refusal, more: tuple[Evidence, ...]) -> Refusal:
    new = tuple(item for item in more if item not in refusal.verdict.evidence)
    if not new:
        return refusal
    verdict = replace(refusal.verdict, evidence=(*refusal.verdict.evidence, *new))
    return replace(refusal, verdict=verdict)


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


def _explained(demand: Demand, diagnosis: Diagnosis, session: Session) -> Verdict:
    return Verdict(
        gang=demand.gang.id,
        group=str(demand.gang),
        reason=diagnosis.reason,
        message=f"subgroup {demand.outer_subgroup}: {diagnosis.message}"
        if demand.outer_subgroup
        else diagnosis.message,
        evidence=(*diagnosis.evidence, *_absent(demand), *unfit_members(demand.gang, session)),
        next_step=diagnosis.next_step,
    )


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
    if before is not None and not before.explained:
        return _pending(gang, before.verdict.message)
    last = f"; before the last change: {before.verdict.message}" if before is not None else ""
    return _pending(gang, f"does not fit; a later cycle finds the reason{last}")


def _not_tried(gang: Gang) -> Verdict:
    return _pending(gang, "not tried yet: the cycle reached its limit of solves")


def _pending(gang: Gang, message: str) -> Verdict:
    return Verdict(
        gang=gang.id,
        group=str(gang),
        reason=Reason.NOT_TRIED_YET,
        message=message,
        next_step="Wait for the next cycles",
    )
