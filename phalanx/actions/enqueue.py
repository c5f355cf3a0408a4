"""Step 2: which gangs may be tried, and in which order. The others get their verdict at once."""

from collections.abc import Iterator

from phalanx.actions.agenda import Agenda
from phalanx.actions.demand import Demand, demands_of
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.reasons import Problem, Verdict


def execute(session: Session) -> Agenda:
    """The demands of every gang that has members without a node and that no plugin refuses."""
    return Agenda(session, _demands(session))


def _demands(session: Session) -> Iterator[Demand]:
    for gang in session.gangs.values():
        if not any(pod.is_waiting for pod in gang.members):
            continue
        found = _objection(gang, session) or demands_of(gang)
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


def verdict_of(gang: Gang, problem: Problem) -> Verdict:
    """The verdict on a gang whose objects, or whose queue's, do not let it be tried."""
    return Verdict(
        gang=gang.id,
        group=str(gang),
        reason=problem.reason,
        message=problem.message,
        next_step=problem.next_step,
    )
