"""The part of a problem that one domain sees: its places, and what units free there."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from phalanx.solver.preemption.problem import PreemptionProblem, Vector

Gives = tuple[tuple[int, Vector], ...]


class Scope(Struct, frozen=True):
    """Places that may take pods, ascending, and the units that matter to them, with what they free there.

    A unit matters that frees something there, that pays into an allowance, or that must go with such a one.
    """

    nodes: tuple[int, ...]
    frees: Mapping[int, Gives]

    def by_node(self) -> dict[int, list[tuple[int, Vector]]]:
        """Per place, who frees what there, by index."""
        found: dict[int, list[tuple[int, Vector]]] = {}
        for unit, frees in self.frees.items():
            for node, vector in frees:
                found.setdefault(node, []).append((unit, vector))
        return found


def scopes_of(problem: PreemptionProblem) -> list[Scope]:
    """One for each domain, in their order."""
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
    """All places and all units, whatever the domains are."""
    frees = {index: unit.frees for index, unit in enumerate(problem.units)}
    return Scope(tuple(range(len(problem.nodes))), frees)


def with_required(
    problem: PreemptionProblem, frees: Mapping[int, Sequence[tuple[int, Vector]]], payers: Sequence[int]
) -> dict[int, Gives]:
    """With those that free nothing there, but pay or must go with another, ascending."""
    found, pending = {*frees, *payers}, [*frees, *payers]
    while pending:
        more = [other for other in problem.units[pending.pop()].requires if other not in found]
        found.update(more)
        pending += more
    return {unit: tuple(frees.get(unit, ())) for unit in sorted(found)}
