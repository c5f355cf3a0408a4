"""Several actions together, where no single one lets a gang start.

All of them together are tried first. Then those that are not necessary are left out.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from phalanx.actions.demands.demand import Demand, charged_alone
from phalanx.actions.explanations import advice, gang_changes, node_changes
from phalanx.actions.explanations.advice import Action
from phalanx.actions.explanations.changed_nodes import ChangedNode
from phalanx.actions.explanations.deletion_filter import necessary
from phalanx.actions.explanations.node_changes import Copy
from phalanx.actions.explanations.pod_fields import Restriction
from phalanx.actions.explanations.trials import Change, Trials
from phalanx.framework.session import Session
from phalanx.model.resources import Resources, largest
from phalanx.rules.budget import Budget
from phalanx.solver.infeasibility.relaxations import Raises


class Raise(Struct, frozen=True):
    """Raises of all limits of the queue and its ancestors that never limit the demand."""

    limits: Raises


class Prefer(Struct, frozen=True):
    """No required level for this subgroup, or for the whole gang if the name is empty."""

    subgroup: str


class Preemptible(Struct, frozen=True):
    """A preemptible gang."""


Part = Copy | Raise | ChangedNode | Restriction | Prefer | Preemptible


class CombinedActions:
    """The search for one demand."""

    def __init__(
        self, session: Session, demand: Demand, trials: Trials, limits: Sequence[Budget], *, is_empty: bool
    ) -> None:
        """`limits` are those of the demand; `is_empty`: whether all running work has ended."""
        self._session = session
        self._demand = demand
        self._trials = trials
        self._limits = limits
        self._is_empty = is_empty

    def find(self) -> tuple[Action, ...]:
        """Actions that are enough together, each of which is necessary; empty if none are proven to be."""
        parts = list(self._parts())
        if not self._fits(parts):
            return ()
        kept = necessary(parts, self._fits)
        if not self._trials.may_go_on:
            return ()
        self._trials.renew()
        return self._as_actions(kept)

    def _parts(self) -> Iterator[Part]:
        """All changes, those first that are to be avoided."""
        session, demand = self._session, self._demand
        restrictions = gang_changes.restrictions(session, demand)
        anywhere = gang_changes.unrestricted(session, demand, restrictions)
        size = largest(batch.pods[0].shape.requests for batch in demand.batches)
        models = node_changes.models(session, demand) or node_changes.models(session, anywhere)
        for model in models[:1]:
            own = node_changes.own_labels(session, demand.gang)
            place = node_changes.place_of(session, demand, model)
            yield Copy(model, node_changes.beyond(model, size), own, place)
        if self._limits:
            needed = charged_alone(demand)
            yield Raise({rule.name: _enough(rule, needed) for rule in self._limits})
        yield from node_changes.out_of_service(session, anywhere)[: node_changes.RETURNED_MAX]
        yield from restrictions
        yield from map(Prefer, gang_changes.requiring(demand.gang))
        if not demand.gang.disruption.is_preemptible:
            yield Preemptible()

    def _fits(self, parts: Sequence[Part]) -> bool:
        return bool(self._trials.starts(self._change(parts)))

    def _change(self, parts: Sequence[Part], new: Sequence[ChangedNode] = ()) -> Change:
        """All of these parts, beside new nodes."""
        demand = gang_changes.unrestricted(
            self._session, self._demand, [part for part in parts if isinstance(part, Restriction)]
        )
        nodes: list[ChangedNode] = []
        raised: Raises = {}
        for part in parts:
            if isinstance(part, Prefer):
                demand = gang_changes.preferring(demand, part.subgroup)
            elif isinstance(part, Preemptible):
                demand = gang_changes.as_preemptible(demand)
            elif isinstance(part, Copy):
                nodes += part.times(self._demand.count)
            elif isinstance(part, ChangedNode):
                nodes.append(part)
            elif isinstance(part, Raise):
                raised = part.limits
        return Change(demand, is_empty=self._is_empty, raised=raised, nodes=[*nodes, *new])

    def _as_actions(self, parts: Sequence[Part]) -> tuple[Action, ...]:
        """The actions of these parts, with amounts; empty if amounts that are enough are not found."""
        gang = self._demand.gang
        actions: list[Action] = []
        new: Sequence[ChangedNode] = ()
        copy = next((part for part in parts if isinstance(part, Copy)), None)
        if copy is not None:
            parts = [part for part in parts if part is not copy]
            added = self._fewest(copy, parts)
            if added is None:
                return ()
            actions.append(added)
            new = copy.times(added.count)
            parts = self._necessary_beside(new, parts)
        change = self._change(parts, new)
        if change.raised:
            change = change.raising({})
            found = next(iter(self._trials.raised_budgets(change)), None)
            if found is None or not self._trials.starts(change.raising(found)):
                return ()
            actions.append(advice.RaiseLimits(self._trials.fewest_raises(change, found)))
        back = [part for part in parts if isinstance(part, ChangedNode)]
        removed = [part for part in parts if isinstance(part, Restriction)]
        actions += [node_changes.bringing_back(self._session, back)] if back else []
        actions += [gang_changes.removal(removed)] if removed else []
        actions += [
            gang_changes.preference(gang, part.subgroup) for part in parts if isinstance(part, Prefer)
        ]
        actions += [advice.BePreemptible() for part in parts if isinstance(part, Preemptible)]
        return tuple(actions)

    def _necessary_beside(self, new: Sequence[ChangedNode], parts: Sequence[Part]) -> Sequence[Part]:
        """Those of the parts that are necessary with so many new nodes. Pods may be spread over more."""
        if not parts:
            return parts
        return necessary(parts, lambda fewer: self._trials.starts(self._change(fewer, new)))

    def _fewest(self, copy: Copy, parts: Sequence[Part]) -> advice.AddNodes | None:
        def fits(nodes: Sequence[ChangedNode]) -> bool | None:
            return self._trials.starts(self._change(parts, nodes))

        return next(node_changes.fewest_copies(copy, self._demand, fits), None)


def _enough(rule: Budget, needed: Resources) -> Resources:
    return {name: needed.get(name, 0) + max(0, -left) for name, left in rule.remaining.items()}
