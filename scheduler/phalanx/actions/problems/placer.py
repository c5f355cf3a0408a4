"""Place one demand: choices of shared devices x problem x solve x take. All actions do it here, in one way.

The problem bounds volumes and devices by amounts that add up. So an answer may place pods where their claims
cannot all have some. Such an answer is refused, and what was refused is cut off the problem, which is solved
again, a bounded number of times: nodes that are short of devices get a part of their pods that has devices
(`cuts`), or else one of the nodes is left out. Whatever is placed then has the bound of the problem without
cuts. If nothing is placed, there may still be a placement: that no placement exists is said only where the
problem without cuts has none.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand
from phalanx.actions.problems.certificates import certified_elsewhere
from phalanx.actions.problems.cuts import Short, assuming, orders, parts_that_fit, short_of_devices
from phalanx.actions.problems.device_choices import placed_by_choice
from phalanx.actions.problems.placement import DemandPlacement, Lacking, lacking_of
from phalanx.actions.problems.pod_assignment import assign_pods
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.session import Session
from phalanx.model.names import GangId, NodeName
from phalanx.model.pods import Assignments
from phalanx.solver.answer import Placed
from phalanx.solver.engine import place

DECLINED_NODES_MAX: Final = 8
"""Nodes of a placement whose claims lack volumes or devices that are left out, one at a time, in another try.
Each is a solve."""

DEVICE_DIVISIONS_MAX: Final = 12
"""Corrections of a placement whose nodes are short of devices for members that differ. Each is a solve, and
for each node some searches for devices."""

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
        return _count(self.answer)


class _Refused(Struct, frozen=True):
    """An answer with which claims lack volumes or devices. `short`: nodes that are short of devices."""

    answer: Placed
    lacking: Lacking
    short: Short


class Placer:
    """Places demands of one session."""

    def __init__(
        self, session: Session, problems: ProblemBuilder, notes: dict[GangId, Lacking] | None = None
    ) -> None:
        """`notes`: receives what answers lacked for gangs that are not placed."""
        self._session = session
        self._problems = problems
        self._notes = notes

    def place(
        self, demand: Demand, solve: Solve | None = None, avoiding: frozenset[NodeName] = NOWHERE
    ) -> Taken | None:
        """The placement of the demand, or of a part of it; None if no pod is placed.

        Without `solve`, the problem is solved as the session is then.
        """
        solve = solve or (lambda nodes: self._solve(demand, nodes))
        first = self._tried(demand, solve, avoiding)
        if first is None:
            return None
        if isinstance(first, Taken):
            self._note(demand.gang.id, None)
            return first
        found = self._with_parts(demand, solve, avoiding, first) if first.short else None
        found = found or self._elsewhere(demand, solve, avoiding, first)
        is_less = found is not None and found.count < _count(first.answer) and first.short
        self._note(demand.gang.id, first.lacking if found is None or is_less else None)
        return replace(found, is_restricted=True) if found is not None else None

    def place_whole(self, demand: Demand, avoiding: frozenset[NodeName] = NOWHERE) -> Taken | None:
        """The placement of all pods of the demand."""
        found = self.place(demand, avoiding=avoiding)
        return found if found is not None and found.count == demand.count else None

    def take(self, demand: Demand, answer: Placed) -> Taken | None:
        """The pods with their nodes; None if their claims cannot all have volumes and devices there."""
        assignments = assign_pods(self._session, demand, answer.assignments)
        return None if lacking_of(self._session, assignments) is not None else Taken(answer, assignments)

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

    def _with_parts(
        self, demand: Demand, solve: Solve, avoiding: frozenset[NodeName], first: _Refused
    ) -> Taken | None:
        """The placement of most pods with which nodes that are short of devices keep a part of their pods."""
        best: Taken | None = None
        left = iter(range(DEVICE_DIVISIONS_MAX))
        for names in orders(demand):
            found = self._corrected(demand, solve, avoiding, first, names, left)
            if found is not None and (best is None or found.count > best.count):
                best = found
            if best is not None and best.count == _count(first.answer):
                return best
        return self.take(demand, best.answer) if best is not None else None

    def _corrected(
        self,
        demand: Demand,
        solve: Solve,
        avoiding: frozenset[NodeName],
        refused: _Refused,
        names: Sequence[str],
        left: Iterator[int],
    ) -> Taken | None:
        """A placement with which no node is short of devices; None if none is found.

        `names`: of needs, in the order in which their pods stay on such nodes. `left`: one for each try.
        """
        parts: dict[NodeName, tuple[tuple[str, int], ...]] = {}
        for _ in left:
            parts.update(parts_that_fit(self._session, demand, refused.short, names))
            with assuming(self._session, parts):
                found = self._tried(demand, solve, avoiding)
            if not isinstance(found, _Refused):
                return found
            if not found.short:
                return None
            refused = found
        return None

    def _elsewhere(
        self, demand: Demand, solve: Solve, avoiding: frozenset[NodeName], refused: _Refused
    ) -> Taken | None:
        """A placement without one of the nodes of the answer."""
        nodes = dict.fromkeys(each.node for each in refused.answer.assignments)
        for node in list(nodes)[:DECLINED_NODES_MAX]:
            found = self._tried(demand, solve, avoiding | {node})
            if isinstance(found, Taken):
                return found
        return None

    def _tried(self, demand: Demand, solve: Solve, avoiding: frozenset[NodeName]) -> Taken | _Refused | None:
        is_noted = self._notes is not None
        answer = placed_by_choice(self._session, demand, lambda: solve(avoiding), is_noted=is_noted)
        if answer is None:
            return None
        assignments = assign_pods(self._session, demand, answer.assignments)
        lacking = lacking_of(self._session, assignments)
        if lacking is None:
            return Taken(answer, assignments)
        short = short_of_devices(self._session, assignments, lacking.supply)
        return _Refused(answer, replace(lacking, on_nodes=bool(short)), short)

    def _solve(self, demand: Demand, avoiding: frozenset[NodeName]) -> Placed | None:
        answer = place(self._problems.build_problem(demand, avoiding=avoiding).problem)
        return answer if isinstance(answer, Placed) else None

    def _note(self, gang: GangId, lacking: Lacking | None) -> None:
        if self._notes is None:
            return
        self._notes.pop(gang, None)
        if lacking is not None:
            self._notes[gang] = lacking


def _count(answer: Placed) -> int:
    return sum(each.count for each in answer.assignments)
