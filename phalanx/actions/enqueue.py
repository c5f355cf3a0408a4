"""Step 2: which gangs may be tried, and in which order. The others get their verdict at once."""

from collections.abc import Iterator

from phalanx.actions import words
from phalanx.actions.agenda import Agenda
from phalanx.actions.demand import Demand, demands_of
from phalanx.actions.troubles import Troubles, restart_of
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.reasons import Problem, Reason, Verdict


def execute(session: Session, troubles: Troubles) -> Agenda:
    """The demands of every gang that has members without a node and that nothing holds back."""
    return Agenda(session, _demands(session, troubles))


def _demands(session: Session, troubles: Troubles) -> Iterator[Demand]:
    for gang in session.gangs.values():
        if not any(pod.is_waiting for pod in gang.members):
            continue
        found = _objection(gang, session) or _restart(gang, troubles) or demands_of(gang)
        if isinstance(found, Problem):
            session.refuse(gang, verdict_of(gang, found))
        else:
            yield from found


def _objection(gang: Gang, session: Session) -> Problem | None:
    """The first objection that a plugin has."""
    for plugin in session.plugins.checks:
        problem = plugin.refuse_gang(gang, session)
        if problem is not None:
            return problem
    return None


def _restart(gang: Gang, troubles: Troubles) -> Problem | None:
    """What is made anew waits until all is: else old and new members would mix."""
    trouble = restart_of(troubles, gang)
    if trouble is None:
        return None
    orphans = sum(1 for pod in trouble.victims if pod.controller is None)
    if orphans:
        return Problem(
            reason=Reason.HELD_AFTER_FAILURE,
            message=f"the gang should be restarted because {trouble.cause}, but {words.pods(orphans)} of it "
            "have no controller that would make them again and are not deleted",
            next_step="Delete all pods of the gang and create them again",
        )
    return Problem(
        reason=Reason.RECOVERING,
        message=f"the gang is restarted because {trouble.cause}: "
        f"{words.pods(len(trouble.victims))} must give back their nodes first",
        next_step="It starts anew by itself; spec.recovery says when it is restarted",
    )


def verdict_of(gang: Gang, problem: Problem) -> Verdict:
    """The verdict on a gang whose objects, or whose queue's, do not let it be tried."""
    return Verdict(
        gang=gang.id,
        group=str(gang),
        reason=problem.reason,
        message=problem.message,
        next_step=problem.next_step,
    )
