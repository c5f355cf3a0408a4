"""The next step of a verdict: what to wait for, and single changes that would make the demand fit."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from phalanx.actions import formatting
from phalanx.actions.demands.demand import Demand
from phalanx.actions.explanations.completions import Completions
from phalanx.actions.nodes.resource_projection import is_numa_slot
from phalanx.framework.nodes.topology import domain_name
from phalanx.framework.session import Session
from phalanx.model.gpu_shares import requests_share
from phalanx.model.resources import PODS, Resources, add
from phalanx.model.rules import SameDomain, SubgroupRule, SubgroupSegments
from phalanx.solver.infeasibility.explain import Explanation
from phalanx.solver.infeasibility.relaxations import Relaxation, RelaxationKind
from phalanx.solver.problem import PlacementProblem

CHANGES_MAX: Final = 3
"""Changes in one sentence; the solver lists the best ones first."""

NODES_NAMED_MAX: Final = 3
"""Nodes that are named; if there are more, only their number helps."""

GANGS_NAMED_MAX: Final = 3
"""Gangs that are named; the evidence has all of them."""


class _Context(Struct, frozen=True):
    """The demand and the problem that the changes are about."""

    demand: Demand
    problem: PlacementProblem
    session: Session


def while_waiting(
    demand: Demand,
    problem: PlacementProblem,
    facts: Explanation,
    session: Session,
    completions: Completions = (),
) -> str:
    """What to wait for, then what would let the demand start at once."""
    changes = _first_of_each_kind(facts)
    events = " or ".join(_events(changes, session, completions)) or "running work ends"
    context = _Context(demand, problem, session)
    at_once = list(_changes(context, changes, without=RelaxationKind.ADD_CAPACITY))[:CHANGES_MAX]
    wait = f"Wait until {events}"
    return f"{wait}; to start now, {', or '.join(at_once)}" if at_once else wait


def when_impossible(demand: Demand, problem: PlacementProblem, facts: Explanation, session: Session) -> str:
    """What to change: the gang, a limit, or the cluster."""
    changes = _first_of_each_kind(facts)
    ways = list(_changes(_Context(demand, problem, session), changes, without=None))[:CHANGES_MAX]
    text = ", or ".join(ways) or "make the gang smaller, or add nodes"
    return text[:1].upper() + text[1:]


def _first_of_each_kind(facts: Explanation) -> dict[RelaxationKind, Relaxation]:
    """The first change of each kind, in the order of the explanation."""
    changes: dict[RelaxationKind, Relaxation] = {}
    for change in facts.relaxations:
        changes.setdefault(change.kind, change)
    return changes


# --- events to wait for -------------------------------------------------------------------------------------


def _events(
    changes: Mapping[RelaxationKind, Relaxation], session: Session, completions: Completions
) -> Iterator[str]:
    """Events that may happen by themselves and would make the demand fit."""
    capacity, budget = changes.get(RelaxationKind.ADD_CAPACITY), changes.get(RelaxationKind.RAISE_BUDGET)
    if completions:
        yield _ends([holder.name for holder in completions])
    if budget is not None:
        yield f"{formatting.amounts(budget.amounts)} of the {budget.rule} are released"
    elif capacity is not None and not capacity.needs_new_node and not _is_fragmented(capacity.amounts):
        yield _is_free(capacity, session)


def _is_fragmented(amounts: Resources) -> bool:
    """Whether devices or NUMA zones lack the amounts; a node may have them free without helping."""
    return requests_share(amounts) or any(map(is_numa_slot, amounts))


def _ends(names: Sequence[str]) -> str:
    """A set of more than two may be larger than necessary."""
    if len(names) == 1:
        return f"{names[0]} ends"
    if len(names) == 2:
        return f"{names[0]} and {names[1]} end"
    more = len(names) - GANGS_NAMED_MAX
    named = [*names[:GANGS_NAMED_MAX], *([f"{more} more"] if more > 0 else [])]
    return f"at most {len(names)} end ({formatting.listed(named)})"


def _is_free(capacity: Relaxation, session: Session) -> str:
    """Name the nodes; if there are too many, say how many more pods the nodes of the domain must fit."""
    if capacity.pods and len(capacity.capacity) > NODES_NAMED_MAX:
        least = formatting.more(capacity.amounts)
        return f"nodes{_domain(capacity)} fit {formatting.more({PODS: capacity.pods})} (at least {least})"
    amounts = formatting.more(add(capacity.amounts, _excess(capacity, session)))
    if len(capacity.capacity) <= NODES_NAMED_MAX:
        nodes = formatting.listed(found.node for found in capacity.capacity)
        return f"{amounts} are free{_domain(capacity)} on {nodes}"
    return f"{amounts} are free{_domain(capacity)} on {len(capacity.capacity)} nodes"


def _excess(capacity: Relaxation, session: Session) -> Resources:
    """Usage beyond the allocatable amounts of these nodes, which must be released first."""
    total: Resources = {}
    for found in capacity.capacity:
        free = session.free(found.node)
        total = add(total, {name: -free[name] for name in found.amounts if free.get(name, 0) < 0})
    return total


# --- changes that help at once ------------------------------------------------------------------------------


def _changes(
    context: _Context, changes: Mapping[RelaxationKind, Relaxation], *, without: RelaxationKind | None
) -> Iterator[str]:
    """Each change as an imperative, in the order of the solver."""
    for kind, change in changes.items():
        if kind is not without and (text := _imperative(context, change)):
            yield text


def _imperative(context: _Context, change: Relaxation) -> str:
    demand, problem = context.demand, context.problem
    match change.kind:
        case RelaxationKind.WIDEN_LEVEL:
            level, of_subgroup = _level_of(problem, change.rule)
            return f"require {change.level} instead of {level}{of_subgroup}"
        case RelaxationKind.PREFER_LEVEL:
            _, of_subgroup = _level_of(problem, change.rule)
            if any(isinstance(rule, SubgroupSegments) and rule.name == change.rule for rule in problem.rules):
                return f"require no {change.level}{of_subgroup}"
            return f"prefer {change.level}{of_subgroup} instead of requiring it"
        case RelaxationKind.RAISE_BUDGET:
            return f"raise the {change.rule} by {formatting.amounts(change.amounts)}"
        case RelaxationKind.DROP_ELIGIBILITY:
            return _more_nodes(demand, context.session)
        case RelaxationKind.LOWER_MINIMUM:
            return _lower_minimum(demand, sum(change.minimums))
        case RelaxationKind.ADD_CAPACITY:
            return f"add nodes with {formatting.amounts(change.amounts)}{_domain(change)}"


def _more_nodes(demand: Demand, session: Session) -> str:
    """Bring back unavailable nodes if there are no others; otherwise allow nodes that the pods exclude."""
    eligibilities = [session.eligibility(batch.pods[0]) for batch in demand.batches]
    rejected = {name for found in eligibilities for name in found.rejected}
    distrusted = session.health.distrusted
    lost = [name for name in rejected if name in distrusted or session.is_out_of_service(name)]
    if len(lost) == len(rejected):
        return f"bring back {len(lost)} unavailable node{'' if len(lost) == 1 else 's'}"
    more = f"; {len(lost)} more are unavailable" if lost else ""
    return f"allow other nodes (nodeSelector, affinity, tolerations{more})"


def _level_of(problem: PlacementProblem, name: str) -> tuple[str, str]:
    """The level of the rule with this name, and its subgroup as a text."""
    rule = next(rule for rule in problem.rules if rule.name == name)
    if isinstance(rule, SubgroupRule):
        return rule.level, f" for subgroup {rule.subgroup}"
    assert isinstance(rule, SameDomain)
    return rule.level, ""


def _lower_minimum(demand: Demand, fit: int) -> str:
    """A lower minMember; empty unless the demand is a whole gang of one shape."""
    gang = demand.gang
    whole = len(demand.batches) == 1 and demand.count == gang.min_member and not gang.min_subgroups
    return f"lower minMember to {fit}" if whole and fit else ""


def _domain(capacity: Relaxation) -> str:
    return f" in {capacity.level} {domain_name(capacity.domain)}" if capacity.domain else ""
