"""The part of a problem that one domain sees: its places, and what units free there."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from phalanx.solver.preemption.problem import PreemptionProblem, Vector

Gives = tuple[tuple[int, Vector], ...]


class Scope(Struct, frozen=True):
    """Places that may take pods, ascending, and the units that matter to them, with what they free there.

    A unit matters that frees something there, that pays into an allowance, or that must go with such a one.
    """

    places: tuple[int, ...]
    gives: Mapping[int, Gives]

    def on_place(self) -> dict[int, list[tuple[int, Vector]]]:
        """Per place, who frees what there, by index."""
        found: dict[int, list[tuple[int, Vector]]] = {}
        for unit, gives in self.gives.items():
            for place, vector in gives:
                found.setdefault(place, []).append((unit, vector))
        return found


def scopes_of(problem: PreemptionProblem) -> list[Scope]:
    """One for each domain, in their order."""
    places: dict[int, list[int]] = {}
    for index, place in enumerate(problem.places):
        if any(place.takes):
            places.setdefault(place.domain, []).append(index)
    gives: dict[int, dict[int, list[tuple[int, Vector]]]] = {domain: {} for domain in places}
    for index, unit in enumerate(problem.units):
        for at, vector in unit.gives:
            if any(problem.places[at].takes):
                gives[problem.places[at].domain].setdefault(index, []).append((at, vector))
    payers = sorted({unit for allowance in problem.allowances for unit, _ in allowance.gives})
    return [
        Scope(tuple(found), with_needed(problem, gives[domain], payers))
        for domain, found in sorted(places.items())
    ]


def whole(problem: PreemptionProblem) -> Scope:
    """All places and all units, whatever the domains are."""
    gives = {index: unit.gives for index, unit in enumerate(problem.units)}
    return Scope(tuple(range(len(problem.places))), gives)


def with_needed(
    problem: PreemptionProblem, gives: Mapping[int, Sequence[tuple[int, Vector]]], payers: Sequence[int]
) -> dict[int, Gives]:
    """With those that free nothing there, but pay or must go with another, ascending."""
    found, open_ = {*gives, *payers}, [*gives, *payers]
    while open_:
        more = [other for other in problem.units[open_.pop()].needs if other not in found]
        found.update(more)
        open_ += more
    return {unit: tuple(gives.get(unit, ())) for unit in sorted(found)}
