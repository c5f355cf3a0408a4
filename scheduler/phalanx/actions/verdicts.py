"""Step 5: a verdict on every gang that has members left without a node, and what to remember of it."""

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from phalanx.actions import formatting
from phalanx.actions.context import Cycle
from phalanx.actions.demands.demand import Demand
from phalanx.actions.enqueue import verdict_of
from phalanx.actions.error_isolation import isolate_errors
from phalanx.actions.explanations import start_messages
from phalanx.actions.explanations.diagnoses import Diagnosis
from phalanx.actions.explanations.explainer import Explainer
from phalanx.actions.explanations.refusals import Refusals
from phalanx.actions.limits import CYCLE_EXPLANATIONS_MAX
from phalanx.actions.outcome import Failure, Outcome
from phalanx.model.gangs import Gang
from phalanx.model.memory import Refusal
from phalanx.model.names import GangId
from phalanx.model.reasons import Category, Evidence, Reason, Verdict


def execute(cycle: Cycle) -> None:
    """Explain as many failures as one cycle may, those first that have waited for it in most cycles.

    Why nobody is evicted for a gang stays in the verdict that is remembered.
    """
    session, outcome = cycle.session, cycle.outcome
    judged = _judge_all(cycle)
    outcome.errors.extend(cycle.answers.take_errors())
    reserved_starts = {each.gang: each for each in outcome.reserved}
    refusals: dict[GangId, Refusal] = {}
    for failure in outcome.failures.values():
        gang = failure.demand.gang
        if failure.blocked_by is not None:
            verdict = start_messages.would_delay(gang, failure.blocked_by, session.snapshot.now)
        else:
            refusal = _with_evidence(judged[gang.id], _spared(failure, cycle.protected.get(gang.id)))
            verdict = refusal.verdict
            if failure.tried and failure.objection is None:
                refusals[gang.id] = refusal
        if gang.id not in session.verdicts:
            noted = replace(verdict, evidence=(*verdict.evidence, *cycle.notes.get(gang.id, ())))
            session.refuse(gang, start_messages.with_start(noted, reserved_starts.get(gang.id)))
    complete = all(_is_settled(failure, refusals) for failure in outcome.failures.values())
    cycle.memory = replace(cycle.memory, refusals=dict(sorted(refusals.items())))
    cycle.is_complete &= complete and not _is_passable(outcome, refusals)


def _judge_all(cycle: Cycle) -> dict[GangId, Refusal]:
    """By gang; in a cluster that never rests everybody's turn to be explained comes all the same."""
    session, outcome = cycle.session, cycle.outcome
    demands = [failure.demand for failure in outcome.failures.values()]
    explainer = Explainer(session, cycle.answers, demands)
    fingerprints = Refusals(session)
    past = session.snapshot.memory.refusals
    found: dict[GangId, Refusal] = {}

    def due(failure: Failure) -> int:
        before = past.get(failure.demand.gang.id)
        return session.cycle if before is None or before.due is None else before.due

    for failure in sorted(outcome.failures.values(), key=due):
        if failure.blocked_by is None:
            gang = failure.demand.gang
            found[gang.id] = _judge(
                failure,
                explainer,
                fingerprints,
                outcome.errors,
                before=past.get(gang.id),
                due=due(failure),
            )
    return found


def _spared(failure: Failure, found: tuple[Evidence, ...] | None) -> tuple[Evidence, ...]:
    """What was found now, or before while there was no explanation to add it to."""
    known = failure.remembered
    if found is None and known is not None and not known.explained:
        return known.verdict.evidence
    return found or ()


def _with_evidence(refusal: Refusal, more: tuple[Evidence, ...]) -> Refusal:
    new = tuple(each for each in more if each not in refusal.verdict.evidence)
    if not new:
        return refusal
    verdict = replace(refusal.verdict, evidence=(*refusal.verdict.evidence, *new))
    return replace(refusal, verdict=verdict)


def _is_passable(outcome: Outcome, refusals: Mapping[GangId, Refusal]) -> bool:
    """Whether some wait behind one that was found impossible only now: the next cycle lets them pass."""
    behind = {each.demand.gang.queue for each in outcome.failures.values() if each.objection is not None}
    return any(
        _is_explained_now(failure, refusals)
        and failure.demand.gang.queue in behind
        and refusals[gang].verdict.reason.category is Category.IMPOSSIBLE
        for gang, failure in outcome.failures.items()
    )


def _is_explained_now(failure: Failure, refusals: Mapping[GangId, Refusal]) -> bool:
    found, before = refusals.get(failure.demand.gang.id), failure.remembered
    return found is not None and found.explained and not (before is not None and before.explained)


def _is_settled(failure: Failure, refusals: Mapping[GangId, Refusal]) -> bool:
    if failure.blocked_by is not None or failure.objection is not None:
        return True
    return failure.tried and refusals[failure.demand.gang.id].explained


def _judge(
    failure: Failure,
    explainer: Explainer,
    fingerprints: Refusals,
    errors: list[str],
    *,
    before: Refusal | None,
    due: int,
) -> Refusal:
    gang = failure.demand.gang
    if failure.objection is not None:
        return Refusal(fingerprint="", verdict=verdict_of(gang, failure.objection))
    if failure.remembered is not None and failure.remembered.explained:
        return failure.remembered
    if not failure.tried:
        return Refusal(fingerprint="", verdict=_not_tried(gang), due=due)
    known, may_think = len(errors), explainer.count < CYCLE_EXPLANATIONS_MAX
    finding = isolate_errors(
        lambda: explainer.explain(failure.demand, may_think=may_think),
        about=f"why {gang} waits",
        errors=errors,
    )
    has_failed = len(errors) > known
    return Refusal(
        fingerprint=fingerprints.fingerprint(failure.demand),
        verdict=_explained(failure.demand, finding)
        if finding
        else _not_explained(gang, before, has_failed=has_failed),
        due=None if finding is not None or has_failed else due,
    )


def _explained(demand: Demand, finding: Diagnosis) -> Verdict:
    return Verdict(
        gang=demand.gang.id,
        group=str(demand.gang),
        reason=finding.reason,
        message=f"subgroup {demand.outer_subgroup}: {finding.message}"
        if demand.outer_subgroup
        else finding.message,
        evidence=(*finding.evidence, *_absent(demand)),
        next_step=finding.next_step,
    )


def _absent(demand: Demand) -> Iterator[Evidence]:
    """Members that do not exist yet, and count all the same."""
    pods = [pod for batch in demand.batches for pod in batch.pods if pod.is_placeholder]
    for role, count in Counter(pod.role for pod in pods).items():
        yield Evidence(f"role {role}", f"{formatting.pods(count)} to come, for which room is to be reserved")


def _not_explained(gang: Gang, before: Refusal | None, *, has_failed: bool) -> Verdict:
    """What was told last stays in sight. After an error it is not asked again until something changes."""
    if has_failed:
        return _pending(
            gang,
            "no place was found; an error of the scheduler, which its log tells, kept it from saying why",
        )
    if before is not None and not before.explained:
        return _pending(gang, before.verdict.message)
    last = f"; before something changed it was: {before.verdict.message}" if before is not None else ""
    return _pending(gang, f"no place was found; why is worked out in one of the next cycles{last}")


def _not_tried(gang: Gang) -> Verdict:
    return _pending(gang, "this cycle had solved as much as it may; the gang's turn comes in one of the next")


def _pending(gang: Gang, message: str) -> Verdict:
    return Verdict(
        gang=gang.id,
        group=str(gang),
        reason=Reason.NOT_TRIED_YET,
        message=message,
        next_step="Wait for the next cycles",
    )
