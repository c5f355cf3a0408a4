"""Scopes of a preemption problem: the nodes of one domain and the units that matter there."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from phalanx.solver.preemption.problem import PreemptionProblem, Vector

Gives = tuple[tuple[int, Vector], ...]


class Scope(Struct, frozen=True):
    """Nodes that may take pods, and the units that matter to them.

    A unit matters if it frees capacity there, releases quota, or is required by such a unit.
    """

    nodes: tuple[int, ...]
    frees: Mapping[int, Gives]

    def by_node(self) -> dict[int, list[tuple[int, Vector]]]:
        """Per node index, the units and what they free there."""
        found: dict[int, list[tuple[int, Vector]]] = {}
        for unit, frees in self.frees.items():
            for node, vector in frees:
                found.setdefault(node, []).append((unit, vector))
        return found


def scopes_of(problem: PreemptionProblem) -> list[Scope]:
    """Return one scope per domain, in order."""
    nodes: dict[int, list[int]] = {}
    for index, node in enumerate(problem.nodes):
        if any(node.max_pods):
            nodes.setdefault(node.domain, []).append(index)
    frees: dict[int, dict[int, list[tuple[int, Vector]]]] = {domain: {} for domain in nodes}
    for index, unit in enumerate(problem.units):
        for at, vector in unit.frees:
            if any(problem.nodes[at].max_pods):
                frees[problem.nodes[at].domain].setdefault(index, []).append((at, vector))
    payers = sorted({unit for quota in problem.quota_limits for unit, _ in quota.frees})
    return [
        Scope(tuple(found), with_required(problem, frees[domain], payers))
        for domain, found in sorted(nodes.items())
    ]


def whole(problem: PreemptionProblem) -> Scope:
    """Return the scope of all nodes and units."""
    frees = {index: unit.frees for index, unit in enumerate(problem.units)}
    return Scope(tuple(range(len(problem.nodes))), frees)


def with_required(
    problem: PreemptionProblem, frees: Mapping[int, Sequence[tuple[int, Vector]]], payers: Sequence[int]
) -> dict[int, Gives]:
    """Add units that release quota or are required, ascending."""
    found, pending = {*frees, *payers}, [*frees, *payers]
    while pending:
        more = [other for other in problem.units[pending.pop()].requires if other not in found]
        found.update(more)
        pending += more
    return {unit: tuple(frees.get(unit, ())) for unit in sorted(found)}
