"""Gangs that differ by name only: whichever of them the master admits, the earlier ones get the places."""

from phalanx.model.rules import Budget
from phalanx.solver.joint.arrays import Field
from phalanx.solver.joint.plan import Plan, Share
from phalanx.solver.joint.symmetry import grade


def earliest_first(field: Field, plan: Plan) -> Plan:
    """The same plan, in which of equal gangs the first in order are admitted."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for gang in range(len(field.problem.gangs)):
        alike.setdefault(_key(field, gang), []).append(gang)
    names: dict[int, int] = {}
    for gangs in alike.values():
        names.update(zip((gang for gang in gangs if gang in plan.admitted), gangs, strict=False))
    pieces = {
        old: new
        for gang, named in names.items()
        for old, new in zip(field.pieces_of[gang], field.pieces_of[named], strict=True)
    }
    shares = (
        sorted((Share(pieces[share.piece], share.counts) for share in region), key=lambda share: share.piece)
        for region in plan.shares
    )
    return Plan(tuple(sorted(names.values())), plan.value, tuple(map(tuple, shares)))


def _key(field: Field, gang: int) -> tuple[object, ...]:
    demand = field.problem.gangs[gang]
    budgets = tuple(sorted(rule.name for rule in demand.rules if isinstance(rule, Budget)))
    pieces = tuple((grade(field, piece), field.pieces[piece].preferred) for piece in field.pieces_of[gang])
    return (pieces, budgets, demand.value, demand.must_admit)
