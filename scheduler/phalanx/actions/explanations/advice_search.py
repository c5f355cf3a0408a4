"""Find advice for a waiting demand: candidates of each kind, each verified by a trial (`trials`).

Events to wait for come from the explanation and from the search for completions; actions from the fields of
the gang, its limits and the nodes. Trials are bounded; what they do not prove is not advised.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand
from phalanx.actions.explanations import advice as kinds
from phalanx.actions.explanations import gang_changes, node_changes
from phalanx.actions.explanations.advice import Action, Advice, Event
from phalanx.actions.explanations.changed_nodes import ChangedNode
from phalanx.actions.explanations.combined_actions import CombinedActions
from phalanx.actions.explanations.completions import Completions
from phalanx.actions.explanations.deletion_filter import necessary_amounts
from phalanx.actions.explanations.exclusion_causes import AFFINITY, ANTI_AFFINITY
from phalanx.actions.explanations.fitting_pods import FittingPods
from phalanx.actions.explanations.trials import Change, Trials
from phalanx.actions.limits import ADVISED_NODES_MAX
from phalanx.actions.nodes.gang_constraints import constraints_of
from phalanx.actions.problems.capacity_holders import CapacityHolder
from phalanx.framework.session import Session
from phalanx.framework.statement import Usage
from phalanx.model import named_parts
from phalanx.model.resources import Resources, add
from phalanx.model.supplies.known import writer_of
from phalanx.rules.budget import Budget, budgets_in
from phalanx.rules.problem import Obstacle
from phalanx.solver.infeasibility.explain import Explanation
from phalanx.solver.infeasibility.relaxations import CAPACITY, ELIGIBILITY, NodeCapacity

ADVISED_PLACES_MAX: Final = 4
"""Nodes that are tried for a pod that the pod affinity of a gang needs."""

ACTIONS_MAX: Final = 3
"""Actions in one sentence, the best ones."""


class Question(Struct, frozen=True):
    """What advice is wanted about."""

    demand: Demand
    facts: Explanation | None
    """None if some pods may use no node."""

    is_impossible: bool
    """Whether the facts are about the empty cluster, which the demand does not fit."""

    fitting: FittingPods | None = None
    """How many pods fit."""

    completions: Completions = ()


class AdviceSearch:
    """The search of one explanation."""

    def __init__(self, session: Session, trials: Trials, question: Question) -> None:
        self._session = session
        self._trials = trials
        self._demand = question.demand
        self._facts = question.facts
        self._fitting = question.fitting
        self._completions = question.completions
        self._is_empty = question.is_impossible
        self._conflict = _conflict(session, question)

    def find(self) -> Advice:
        """All advice that helps, as far as the trials allow. Several actions together come last."""
        return self._when_impossible() if self._is_empty else self._while_waiting()

    def _when_impossible(self) -> Advice:
        """Actions that make it possible; those that let it start at once come first.

        Each action is found right after its change was proven.
        """
        now: list[Action] = []
        later: list[Action] = []
        for action in islice(chain(self._actions(), self._added_nodes()), ACTIONS_MAX):
            (now if self._trials.starts_at_once() else later).append(action)
        if not now and not later:
            now += self._together(is_empty=False)
            later += self._together(is_empty=True) if not now else ()
        return Advice(actions=tuple(now), later_actions=tuple(later))

    def _while_waiting(self) -> Advice:
        events = tuple(self._events())
        actions = tuple(islice(self._actions(), ACTIONS_MAX))
        if not actions and all(isinstance(event, kinds.AllEnd) for event in events):
            actions = tuple(self._added_nodes()) or self._together(is_empty=False)
        return Advice(events=events, actions=actions)

    # --- events ---------------------------------------------------------------------------------------------

    def _events(self) -> Iterator[Event]:
        """The end of all running work comes last: it is shown only if nothing less is known."""
        found = False
        for event in (*self._ends(), *self._released(), *self._freed(), *self._selected_pods()):
            yield event
            found = True
        if not found and self._helps(Change(self._demand, is_empty=True)):
            yield kinds.AllEnd()

    def _ends(self) -> Iterator[Event]:
        if self._completions:
            yield kinds.Ends(tuple(map(self._as_ending, self._completions)))

    def _as_ending(self, holder: CapacityHolder) -> str:
        terminating = " (terminating)" if holder.is_terminating else ""
        return named_parts.titled(holder.name) + terminating

    def _released(self) -> Iterator[Event]:
        """Usage of limits, or of a guarantee by gangs that are not preemptible. Whether what a plugin limits
        is ever released is not known."""
        unchanged = Change(self._demand)
        for raised in self._facts.raised if self._facts is not None else ():
            if self._of_plugins.isdisjoint(raised) and self._helps(unchanged.raising(raised)):
                yield kinds.Released(self._trials.fewest_raises(unchanged, raised))
                return

    def _freed(self) -> Iterator[Event]:
        missing = self._facts.missing if self._facts is not None else None
        if missing is None or _is_fragmented(missing.amounts):
            return
        capacity = tuple(self._with_excess(each) for each in missing.capacity)
        freed: Usage = {each.node: each.amounts for each in capacity}
        if not self._helps(Change(self._demand, freed=freed)):
            return
        freed = necessary_amounts(freed, lambda fewer: self._trials.starts(Change(self._demand, freed=fewer)))
        capacity = tuple(replace(each, amounts=freed[each.node]) for each in capacity if each.node in freed)
        if len(capacity) <= ADVISED_NODES_MAX:
            yield kinds.Freed(capacity, missing.level, missing.domain)
        elif missing.pods:
            yield kinds.PodsFit(missing.pods, missing.amounts, missing.level, missing.domain)

    def _with_excess(self, capacity: NodeCapacity) -> NodeCapacity:
        """The amounts with usage beyond the allocatable ones of the node, which must be released first."""
        free = self._session.free(capacity.node)
        excess = {name: -free[name] for name in capacity.amounts if free.get(name, 0) < 0}
        return replace(capacity, amounts=add(capacity.amounts, excess))

    def _selected_pods(self) -> Iterator[Event]:
        """A node on which a pod that the affinity of the gang selects would help.

        All anti-affinity of the demand selects it too. Spread constraints may count it or not.
        """
        shapes = [batch.pods[0].shape for batch in self._demand.batches]
        states = [shape.affinity_state for shape in shapes if shape.affinity_state is not None]
        near = {state.affinity for state in states if state.affinity is not None}
        if len(near) != 1:
            return
        selecting = near.union(*(state.anti_affinity for state in states))
        counting = selecting.union(*(state.spread for state in states))
        choices = {tuple(sorted(terms)) for terms in (selecting, counting)}
        nodes = sorted(self._session.nodes, key=self._session.facts.faults.__contains__)
        for node in nodes[:ADVISED_PLACES_MAX]:
            if all(self._helps(Change(self._demand, selected=(terms, node))) for terms in sorted(choices)):
                yield kinds.SelectedPodRuns(node)
                return

    # --- actions --------------------------------------------------------------------------------------------

    def _actions(self) -> Iterator[Action]:
        """Actions that relax a part of the conflict; not yet more nodes."""
        session, demand, conflict = self._session, self._demand, self._conflict
        if conflict.has_levels:
            yield from node_changes.labelled_nodes(session, demand, self._fits_with)
            yield from gang_changes.other_levels(session, demand, self._fits)
        if conflict.has_limits:
            yield from islice(self._raised_limits(), 1)
            yield from gang_changes.preemptible(demand, self._fits)
        if conflict.is_about_nodes:
            yield from node_changes.returned_nodes(session, demand, self._fits_with)
        if conflict.has_ineligible_nodes:
            yield from self._fewer_restrictions()
        yield from islice(self._lower_minimums(), 1)
        if conflict.is_about_requests:
            yield from gang_changes.smaller_requests(session, demand, self._fits)

    def _fewer_restrictions(self) -> Iterator[Action]:
        """Pods with one field less, else with as few less as necessary, if that is proven."""
        session, demand = self._session, self._demand
        single = gang_changes.without_one_restriction(session, demand, self._starts)
        if single is not None:
            yield single
            return
        self._trials.renew()
        several = gang_changes.without_restrictions_together(session, demand, self._starts)
        if several is not None and self._trials.may_go_on:
            yield several

    def _lower_minimums(self) -> Iterator[Action]:
        """A minimum of the pods that fit; else one with pods of each role and subgroup with a minimum."""
        if self._fitting is None:
            return
        yield from gang_changes.lower_minimum(self._session, self._demand, self._fitting.pods, self._starts)
        smallest = gang_changes.smallest_minimum(self._demand)
        pods = self._trials.most(Change(smallest, is_empty=self._is_empty))
        yield from gang_changes.lower_minimum(self._session, self._demand, pods, self._starts)

    def _added_nodes(self) -> Iterator[Action]:
        if self._conflict.is_about_nodes:
            as_decided = Change(self._demand, is_empty=self._is_empty)
            beside = None if self._trials.has_others(self._demand) else self._trials.session_for(as_decided)
            found = node_changes.added_nodes(self._session, self._demand, self._fits_with, beside=beside)
            yield from (each for each in islice(found, 1) if self._trials.may_go_on)

    def _fits(self, changed: Demand) -> bool:
        return self._helps(Change(changed, is_empty=self._is_empty))

    def _starts(self, changed: Demand) -> bool:
        """Whether it fits, or other subgroups do."""
        return bool(self._starts_after(Change(changed, is_empty=self._is_empty)))

    def _fits_with(self, nodes: Sequence[ChangedNode]) -> bool | None:
        return self._starts_after(Change(self._demand, is_empty=self._is_empty, nodes=nodes))

    def _starts_after(self, change: Change) -> bool | None:
        """Whether something of the gang starts; None if that is not known.

        In the empty cluster spread constraints may be harder, and pods that affinity selects have ended.
        """
        found = self._trials.starts(change)
        shapes = [batch.pods[0].shape for batch in change.demand.batches]
        may_be_harder = any(shape.spread or shape.affinity for shape in shapes)
        if found or not (self._is_empty and may_be_harder):
            return found
        is_now = self._trials.starts(replace(change, is_empty=False))
        return is_now if is_now or found is False else None

    def _together(self, *, is_empty: bool) -> tuple[Action, ...]:
        """One action that consists of several."""
        session = self._trials.session_for(Change(self._demand, is_empty=is_empty))
        limits = constraints_of(session, self._demand.gang).budgets
        budgets = [rule for rule in limits if rule.name in self._limits]
        self._trials.renew()
        found = CombinedActions(self._session, self._demand, self._trials, budgets, is_empty=is_empty).find()
        return (kinds.Together(found),) if found else ()

    def _raised_limits(self) -> Iterator[kinds.RaiseLimits]:
        """Raises of limits of queues; what other rules leave cannot be raised by an amount."""
        unchanged = Change(self._demand, is_empty=self._is_empty)
        for raised in self._facts.raised if self._facts is not None else ():
            if self._limits.issuperset(raised) and self._helps(unchanged.raising(raised)):
                yield kinds.RaiseLimits(self._trials.fewest_raises(unchanged, raised))

    @cached_property
    def _limits(self) -> frozenset[str]:
        """The names of the limits of the queue and its ancestors."""
        return frozenset(rule.name for rule in self._budgets if rule.queue is not None)

    @cached_property
    def _of_plugins(self) -> frozenset[str]:
        """The names of the limits that plugins explain in their own words."""
        return frozenset(rule.name for rule in self._budgets if rule.words is not None)

    @cached_property
    def _budgets(self) -> tuple[Budget, ...]:
        return constraints_of(self._session, self._demand.gang).budgets

    def _helps(self, change: Change) -> bool:
        return bool(self._trials.fits(change))


class _Conflict(Struct, frozen=True):
    """What the conflict is about. An action helps only if it relaxes a part of the conflict."""

    has_levels: bool = True
    has_limits: bool = True
    has_ineligible_nodes: bool = True
    is_about_nodes: bool = True
    is_about_requests: bool = True


def _conflict(session: Session, question: Question) -> _Conflict:
    facts = question.facts
    if facts is None:
        return _Conflict(has_levels=False, has_limits=False, is_about_requests=False)
    if not facts.irreducible or not facts.conflict:
        return _Conflict()
    rules = [
        rule for rule in constraints_of(session, question.demand.gang).rules if rule.name in facts.conflict
    ]
    limits = budgets_in(rules)
    obstacles = {rule.obstacle for rule in rules}
    has_capacity = CAPACITY in facts.conflict
    causes = {ELIGIBILITY, AFFINITY, ANTI_AFFINITY}
    return _Conflict(
        has_levels=Obstacle.LEVELS in obstacles or any(rule.gang_level for rule in rules),
        has_limits=bool(limits),
        has_ineligible_nodes=Obstacle.AFFINITY in obstacles or not causes.isdisjoint(facts.conflict),
        is_about_nodes=len(facts.conflict) > sum(rule.nodes is None for rule in limits),
        is_about_requests=has_capacity or bool(limits),
    )


def _is_fragmented(amounts: Resources) -> bool:
    """Whether parts of nodes lack the amounts; a node may have them free without helping.

    Ports have no amounts that a text could name.
    """
    return any(map(writer_of, amounts))
