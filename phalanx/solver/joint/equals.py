"""Gangs that differ by name only: whichever of them the master admits, the earlier ones get the places."""

from phalanx.model.rules import Budget
from phalanx.solver.joint.field import Field
from phalanx.solver.joint.plan import Plan, Share


def earliest_first(field: Field, plan: Plan) -> Plan:
    """The same plan, in which of equal gangs the first in order are admitted."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for gang in range(len(field.wanted)):
        alike.setdefault(_key(field, gang), []).append(gang)
    names: dict[int, int] = {}
    for gangs in alike.values():
        names.update(zip((gang for gang in gangs if gang in plan.admitted), gangs, strict=False))
    shares = (
        sorted((Share(names[share.gang], share.counts) for share in region), key=lambda share: share.gang)
        for region in plan.shares
    )
    return Plan(tuple(sorted(names.values())), plan.value, tuple(map(tuple, shares)))


def _key(field: Field, gang: int) -> tuple[object, ...]:
    demand = field.problem.gangs[gang]
    budgets = tuple(sorted(rule.name for rule in demand.rules if isinstance(rule, Budget)))
    levels = (field.required[gang], field.preferred[gang])
    return (tuple(field.wanted[gang].tolist()), levels, budgets, demand.value, demand.must)
