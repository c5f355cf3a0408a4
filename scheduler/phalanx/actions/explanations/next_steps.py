"""The next step of a verdict: the solver's single changes that would make a demand fit, in words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from phalanx.actions import formatting
from phalanx.actions.demands.demand import Demand
from phalanx.actions.explanations.completions import Completions
from phalanx.actions.nodes.resource_projection import is_place
from phalanx.framework.session import Session
from phalanx.model.gpu_shares import requests_share
from phalanx.model.resources import PODS, Resources, add
from phalanx.model.rules import SameDomain, SubgroupRule, SubgroupSegments
from phalanx.solver.infeasibility.explain import Explanation
from phalanx.solver.infeasibility.relaxations import Relaxation, RelaxationKind
from phalanx.solver.problem import PlacementProblem

CHANGES_MAX: Final = 3
"""Changes that a sentence can hold; the solver lists the best ones first."""

NODES_NAMED_MAX: Final = 3
"""Nodes that are named; of more, only their number helps."""

GANGS_NAMED_MAX: Final = 3
"""Gangs that are named; the evidence has all of them."""


def while_waiting(
    demand: Demand, problem: PlacementProblem, facts: Explanation, session: Session, ending: Completions = ()
) -> str:
    """What to wait for, and in a second sentence what would let it start at once."""
    changes = _first_of_each_kind(facts)
    events = " or ".join(_events(changes, session, ending))
    awaited = f"Fits when {events}" if events else "Wait for work to end"
    asked = _Asked(demand, problem, session)
    at_once = list(_changes(asked, changes, but=RelaxationKind.ADD_CAPACITY))[:CHANGES_MAX]
    return f"{awaited}. To start now, {', or '.join(at_once)}" if at_once else awaited


def _first_of_each_kind(facts: Explanation) -> dict[RelaxationKind, Relaxation]:
    """In the order in which to offer them, as the explanation has them."""
    changes: dict[RelaxationKind, Relaxation] = {}
    for change in facts.relaxations:
        changes.setdefault(change.kind, change)
    return changes


def _events(
    changes: Mapping[RelaxationKind, Relaxation], session: Session, ending: Completions
) -> Iterator[str]:
    """Each of what may happen by itself that would make it fit."""
    room, budget = changes.get(RelaxationKind.ADD_CAPACITY), changes.get(RelaxationKind.RAISE_BUDGET)
    if ending:
        yield _who_ends([each.name for each in ending])
    if budget is not None:
        yield f"work gives back {formatting.amounts(budget.amounts)} of the {budget.rule}"
    elif room is not None and not room.needs_new_node and not _is_of_parts(room.amounts):
        yield _room(room, session)


def _is_of_parts(amounts: Resources) -> bool:
    """Whether it is missing on devices or in zones: so much of a node may be free without any help."""
    return requests_share(amounts) or any(map(is_place, amounts))


def _who_ends(names: Sequence[str]) -> str:
    """Of more than two it is not known whether fewer would do."""
    if len(names) == 1:
        return f"{names[0]} ends"
    if len(names) == 2:
        return f"{names[0]} and {names[1]} end"
    more = len(names) - GANGS_NAMED_MAX
    named = [*names[:GANGS_NAMED_MAX], *([f"{more} more"] if more > 0 else [])]
    return f"at most {len(names)} end ({formatting.listed(named)})"


def _room(room: Relaxation, session: Session) -> str:
    """On nodes that are named, or, where these are many, on any that take so many pods more."""
    if room.pods and len(room.capacity) > NODES_NAMED_MAX:
        least = formatting.more(room.amounts)
        return f"nodes{_domain(room)} have room for {formatting.more({PODS: room.pods})} (at least {least})"
    amounts = formatting.more(add(room.amounts, _excess(room, session)))
    if len(room.capacity) <= NODES_NAMED_MAX:
        nodes = formatting.listed(each.node for each in room.capacity)
        return f"{amounts} are free{_domain(room)} on {nodes}"
    return f"{amounts} are free{_domain(room)} on {len(room.capacity)} nodes"


def _excess(room: Relaxation, session: Session) -> Resources:
    """What is used beyond what these nodes have, of what is missing there: it must be given back first."""
    total: Resources = {}
    for each in room.capacity:
        free = session.free(each.node)
        total = add(total, {name: -free[name] for name in each.amounts if free.get(name, 0) < 0})
    return total


def when_impossible(demand: Demand, problem: PlacementProblem, facts: Explanation, session: Session) -> str:
    """What must be changed: the gang, a limit, or the cluster."""
    changes = _first_of_each_kind(facts)
    ways = list(_changes(_Asked(demand, problem, session), changes, but=None))[:CHANGES_MAX]
    text = ", or ".join(ways) or "make the gang smaller, or add nodes"
    return text[:1].upper() + text[1:]


class _Asked(Struct, frozen=True):
    """What the changes are about."""

    demand: Demand
    problem: PlacementProblem
    session: Session


def _changes(
    asked: _Asked, changes: Mapping[RelaxationKind, Relaxation], *, but: RelaxationKind | None
) -> Iterator[str]:
    """Each change as an order, in the order in which the solver offers them."""
    for kind, change in changes.items():
        if kind is not but and (text := _order(asked, change)):
            yield text


def _order(asked: _Asked, change: Relaxation) -> str:
    demand, problem = asked.demand, asked.problem
    match change.kind:
        case RelaxationKind.WIDEN_LEVEL:
            level, of_part = _level_of(problem, change.rule)
            return f"require {change.level} instead of {level}{of_part}"
        case RelaxationKind.PREFER_LEVEL:
            _, of_part = _level_of(problem, change.rule)
            if any(isinstance(rule, SubgroupSegments) and rule.name == change.rule for rule in problem.rules):
                return f"require no {change.level}{of_part}"
            return f"make {change.level} the preferred level{of_part}, not the required one"
        case RelaxationKind.RAISE_BUDGET:
            return f"raise the {change.rule} by {formatting.amounts(change.amounts)}"
        case RelaxationKind.DROP_ELIGIBILITY:
            return _other_nodes(demand, asked.session)
        case RelaxationKind.LOWER_MINIMUM:
            return _lower(demand, sum(change.minimums))
        case RelaxationKind.ADD_CAPACITY:
            return f"add nodes with {formatting.amounts(change.amounts)}{_domain(change)}"


def _other_nodes(demand: Demand, session: Session) -> str:
    """Who chose too few nodes must choose more; nodes that nobody may use must come back."""
    judged = [session.eligibility(batch.pods[0]) for batch in demand.batches]
    rejected = {name for each in judged for name in each.rejected}
    distrusted = session.health.distrusted
    lost = [name for name in rejected if name in distrusted or session.is_out_of_service(name)]
    if len(lost) == len(rejected):
        nodes = "the node that is" if len(lost) == 1 else f"the {len(lost)} nodes that are"
        return f"bring back {nodes} out of service"
    but = f"; {len(lost)} more are out of service" if lost else ""
    return f"let the pods use other nodes too (selector, affinity, tolerations{but})"


def _level_of(problem: PlacementProblem, name: str) -> tuple[str, str]:
    """The level that the rule of this name is about, and of which subgroup, in words."""
    rule = next(rule for rule in problem.rules if rule.name == name)
    if isinstance(rule, SubgroupRule):
        return rule.level, f" for subgroup {rule.subgroup}"
    assert isinstance(rule, SameDomain)
    return rule.level, ""


def _lower(demand: Demand, fit: int) -> str:
    """Only a whole gang of one shape can be told how small it must be."""
    gang = demand.gang
    whole = len(demand.batches) == 1 and demand.count == gang.min_member and not gang.min_subgroups
    return f"lower minMember to {fit}" if whole and fit else ""


def _domain(room: Relaxation) -> str:
    return f" in {room.level} {'/'.join(room.domain)}" if room.domain else ""
