"""Step 3: try each demand in order. It is placed whole, or as far as it need not be whole, or not at all."""

from collections import Counter
from collections.abc import Hashable
from typing import Final

from msgspec import Struct

from phalanx.actions import claims
from phalanx.actions.agenda import Agenda
from phalanx.actions.demand import Demand, without
from phalanx.actions.failures import Failures
from phalanx.actions.placing import Placing, put, seats_of
from phalanx.actions.problems import Problems
from phalanx.actions.refusals import Refusals
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement
from phalanx.limits import CYCLE_SEARCHES_MAX, CYCLE_SOLVES_MAX
from phalanx.model.memory import Refusal
from phalanx.model.names import GangId, NodeName
from phalanx.solver.engine import place
from phalanx.solver.problem import Answer, Placed

THOROUGH: Final = "cp-sat"
"""The backend whose answers take long: what it answers is counted by itself."""

_NOWHERE: Final[frozenset[NodeName]] = frozenset()


class Failure(Struct, frozen=True):
    """A demand that found no place. `carried` is what an earlier cycle said of exactly this, if it did.

    `tried` is False when this cycle had solved as much as it may before it came to this demand.
    """

    demand: Demand
    carried: Refusal | None = None
    tried: bool = True


class Outcome:
    """What step 3 did: at most one failure per gang, in the order of the agenda, and what it cost.

    `steps`: what was placed, in order, each with the statement that did it.
    """

    def __init__(self) -> None:
        self.failures: dict[GangId, Failure] = {}
        self.steps: list[tuple[Placing, Statement]] = []
        self.tried = 0
        self.solves: Counter[str] = Counter()
        self.defects: list[str] = []

    @property
    def is_exhausted(self) -> bool:
        """Whether this cycle has solved as much as it may."""
        return self.solves.total() >= CYCLE_SOLVES_MAX or self.solves[THOROUGH] >= CYCLE_SEARCHES_MAX


def execute(session: Session, agenda: Agenda, failures: Failures) -> Outcome:
    """Try every demand; the surplus of a gang whose minimum failed is not tried."""
    attempts = _Attempts(session, failures)
    for demand in agenda:
        if demand.gang.id not in attempts.outcome.failures:
            attempts.attempt(demand)
    return attempts.outcome


class _Attempts:
    """The attempts of one cycle and what they learned from each other."""

    def __init__(self, session: Session, failures: Failures) -> None:
        self.outcome = Outcome()
        self._failures = failures
        self._session = session
        self._problems = Problems(session)
        self._refusals = Refusals(session)
        self._hopeless: set[Hashable] = set()

    def attempt(self, demand: Demand) -> None:
        """Place the demand, or note that it failed."""
        is_claim = demand.cause == claims.CAUSE
        refusal = None if is_claim else self._refusals.recall(demand)
        if refusal is not None:
            self._fail(Failure(demand, carried=refusal))
        elif is_claim:
            self._keep(demand)
        elif self.outcome.is_exhausted:
            self._fail(Failure(demand, tried=False))
        else:
            self._solve(demand)

    def _solve(self, demand: Demand) -> None:
        """First without the nodes that failed the gang, then, for what found no place, with them."""
        self.outcome.tried += 1
        rest: Demand | None = demand
        avoided = self._failures.nodes_to_avoid(demand.gang.id)
        for avoiding in (avoided, _NOWHERE) if avoided else (_NOWHERE,):
            rest = self._place(rest, avoiding) if rest is not None else None
        if rest is not None:
            self._fail(Failure(rest))

    def _place(self, demand: Demand, avoiding: frozenset[NodeName]) -> Demand | None:
        """What is left of the demand."""
        answer = self._ask(demand, avoiding)
        if answer is None:
            return demand
        seats = seats_of(demand, answer.assignments)
        self._put(Placing(demand, seats, answer.certificate))
        if sum(each.count for each in answer.assignments) == demand.count:
            return None
        return without(demand, (pod for _, pods in seats for pod in pods))

    def _ask(self, demand: Demand, avoiding: frozenset[NodeName]) -> Placed | None:
        """None when not one pod finds a place."""
        posed = self._problems.pose(demand, avoiding=avoiding)
        if posed.key in self._hopeless:
            return None
        answer = place(posed.problem)
        self.outcome.solves[_backend(answer)] += 1
        self.outcome.defects.extend(answer.defects)
        if isinstance(answer, Placed) and answer.assignments:
            return answer
        self._hopeless.add(posed.key)
        return None

    def _keep(self, demand: Demand) -> None:
        """As many of the stand-ins as find room; that others do not is nobody's failure."""
        avoided = self._failures.nodes_to_avoid(demand.gang.id)
        answer = self._ask(demand, avoided)
        if answer is None and avoided:
            answer = self._ask(demand, _NOWHERE)
        if answer is not None:
            self._put(Placing(demand, seats_of(demand, answer.assignments)))

    def _fail(self, failure: Failure) -> None:
        self.outcome.failures[failure.demand.gang.id] = failure

    def _put(self, placing: Placing) -> None:
        self.outcome.steps.append((placing, put(self._session, placing)))


def _backend(answer: Answer) -> str:
    return answer.certificate.by if isinstance(answer, Placed) else answer.by
