"""Place one demand: choices of shared devices x problem x solve x take. All actions do it here, in one way.

The problem bounds volumes and devices by amounts that add up. So an answer may place pods where their claims
cannot all have some. Such an answer is refused, and the demand is solved again without one of its nodes, a
bounded number of times. Whatever is placed then keeps the bound of the problem that has all nodes.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand
from phalanx.actions.limits import DECLINED_NODES_MAX
from phalanx.actions.problems.certificates import certified_elsewhere
from phalanx.actions.problems.device_choices import placed_by_choice
from phalanx.actions.problems.divided_devices import placed_with_divided_devices
from phalanx.actions.problems.placement import DemandPlacement, Lacking, lacking_of
from phalanx.actions.problems.pod_assignment import assign_pods
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.session import Session
from phalanx.model.names import GangId, NodeName
from phalanx.model.pods import Assignments
from phalanx.solver.answer import Placed
from phalanx.solver.engine import place

NOWHERE: Final[frozenset[NodeName]] = frozenset()

Solve = Callable[[frozenset[NodeName]], Placed | None]
"""An answer without these nodes, for what the session assumes at the time; None if no pod fits."""


class Taken(Struct, frozen=True):
    """An answer, and its pods with their nodes: their claims can have volumes and devices there."""

    answer: Placed
    assignments: Assignments
    is_restricted: bool = False
    """Whether placements were left out that may be possible, and better."""

    @property
    def count(self) -> int:
        """How many pods are placed."""
        return sum(each.count for each in self.answer.assignments)


class Placer:
    """Places demands of one session."""

    def __init__(self, session: Session, problems: ProblemBuilder, *, is_noted: bool = False) -> None:
        """`is_noted`: the session notes why a demand is not placed, for its verdict."""
        self._session = session
        self._problems = problems
        self._is_noted = is_noted

    def place(
        self, demand: Demand, solve: Solve | None = None, avoiding: frozenset[NodeName] = NOWHERE
    ) -> Taken | None:
        """The placement of the demand, or of a part of it; None if no pod is placed.

        Without `solve`, the problem is solved as the session is then.
        """
        solve = solve or (lambda nodes: self._solve(demand, nodes))
        found = self._tried(demand, solve, avoiding)
        if not isinstance(found, _Refused):
            return found
        for node in found.nodes[:DECLINED_NODES_MAX]:
            again = self._tried(demand, solve, avoiding | {node})
            if isinstance(again, Taken):
                return replace(again, is_restricted=True)
        return None

    def place_whole(self, demand: Demand, avoiding: frozenset[NodeName] = NOWHERE) -> Taken | None:
        """The placement of all pods of the demand."""
        found = self.place(demand, avoiding=avoiding)
        return found if found is not None and found.count == demand.count else None

    def take(self, demand: Demand, answer: Placed) -> Taken | None:
        """The pods with their nodes; None if their claims cannot all have volumes and devices there."""
        assignments = assign_pods(self._session, demand, answer.assignments)
        lacking = lacking_of(self._session, assignments)
        if self._is_noted:
            self._note(demand.gang.id, lacking)
        return Taken(answer, assignments) if lacking is None else None

    def certified(self, demand: Demand, taken: Taken) -> Taken:
        """The same with a bound on all placements that may be possible."""
        if not taken.is_restricted:
            return taken
        answer = certified_elsewhere(self._problems, demand, taken.answer)
        return Taken(answer, taken.assignments)

    def placement(self, demand: Demand, taken: Taken) -> DemandPlacement:
        """What is applied to the session."""
        certificate = self.certified(demand, taken).answer.certificate
        parts = self._problems.parts(demand, taken.assignments)
        return DemandPlacement(demand, taken.assignments, certificate, parts)

    def _tried(
        self, demand: Demand, solve: Solve, avoiding: frozenset[NodeName]
    ) -> "Taken | _Refused | None":
        divided = placed_with_divided_devices(
            self._session,
            demand,
            lambda: placed_by_choice(self._session, demand, lambda: solve(avoiding), is_noted=self._is_noted),
        )
        if self._is_noted:
            undivided = self._session.devices.undivided
            (undivided.add if divided.may_fit else undivided.discard)(demand.gang.id)
        if divided.answer is None:
            return None
        taken = self.take(demand, divided.answer)
        if taken is None:
            return _Refused(list(dict.fromkeys(each.node for each in divided.answer.assignments)))
        return replace(taken, is_restricted=divided.is_restricted)

    def _solve(self, demand: Demand, avoiding: frozenset[NodeName]) -> Placed | None:
        answer = place(self._problems.build_problem(demand, avoiding=avoiding).problem)
        return answer if isinstance(answer, Placed) else None

    def _note(self, gang: GangId, lacking: Lacking | None) -> None:
        self._session.devices.declined.discard(gang)
        for supply in self._session.supplies:
            supply.declined.pop(gang, None)
        if lacking is not None and lacking.supply is not None:
            lacking.supply.declined[gang] = lacking.why
        elif lacking is not None:
            self._session.devices.declined.add(gang)


class _Refused(Struct, frozen=True):
    """The nodes of an answer with which claims lack volumes or devices."""

    nodes: list[NodeName]
