"""Build the placement problem of a demand in the session as it is now."""

from collections.abc import Hashable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import Batch, Demand
from phalanx.actions.nodes.gang_constraints import GangConstraints, constraints_of
from phalanx.actions.nodes.node_classes import (
    ClassKey,
    ClassTable,
    ClassTableCache,
    NodeClassSpec,
    is_cacheable,
    is_refreshable,
)
from phalanx.actions.nodes.node_order import NodeOrders, objective_of
from phalanx.actions.nodes.pod_capacity import Vector
from phalanx.framework.session import Session
from phalanx.model.names import NodeName
from phalanx.model.pods import Assignments, Pod
from phalanx.model.queues import Objective
from phalanx.model.supplies.joined import are_bounded, key_of
from phalanx.model.supplies.known import is_alone_on_node
from phalanx.model.supplies.supply import Parts
from phalanx.rules.budget import Budget, with_budgets
from phalanx.rules.problem import NodeClass, Obstacle, PlacementProblem, RoleDemand, Rule


class KeyedProblem(Struct, frozen=True):
    """A problem with a key that is equal for demands that differ only in the names of their pods.

    While capacity only shrinks, a demand with the key of a demand that did not fit does not fit either.
    """

    problem: PlacementProblem
    key: Hashable


class ProblemBuilder:
    """Builds the problems of one session; demands with equal node class specs share a class table.

    A table for pods with affinity terms is refreshed for each problem: a placement may change which nodes
    are eligible, and what they cost.
    """

    def __init__(
        self, session: Session, *, may_grow: bool = False, kept: ClassTableCache | None = None
    ) -> None:
        self._session = session
        self._kept = kept
        self._taken: list[tuple[NodeClassSpec, ClassTable]] = []
        self._orders = NodeOrders(session)
        self._tables: dict[Hashable, ClassTable] = {}
        self._concerned: dict[Hashable, ClassTable] = {}
        """Tables for pods with affinity terms; such a table is refreshed for each problem."""
        self._may_grow = may_grow

    def build_problem(
        self,
        demand: Demand,
        *,
        avoiding: frozenset[NodeName] = frozenset(),
        listing: Sequence[NodeName] = (),
    ) -> KeyedProblem:
        """The problem to place this demand now, without the avoided nodes.

        It contains the nodes of `listing` in any case, even if other nodes are at least as good.
        """
        constraints = constraints_of(self._session, demand.gang)
        class_spec = self._class_spec(demand, constraints, avoiding)
        table = self._table(class_spec)
        classes = table.classes(
            demand.count,
            only=None if listing else _only_classes(demand, class_spec, table),
            listing=(*constraints.occupied_nodes, *listing),
        )
        problem = PlacementProblem(
            resources=table.resources,
            levels=constraints.levels,
            roles=roles_of(demand, table.requests, constraints),
            classes=classes,
            rules=_with_members(narrowed(constraints.rules, classes), demand, constraints),
            anchors=constraints.anchors,
            subgroup_anchors=constraints.subgroup_anchors,
            seed=self._session.snapshot.seed,
            ties=class_spec.ties,
            keys=constraints.keys,
            spread=class_spec.spread,
        )
        return KeyedProblem(problem=problem, key=self._key(demand, class_spec))

    def key(self, demand: Demand, *, avoiding: frozenset[NodeName] = frozenset()) -> Hashable:
        """The key of the problem, without building it."""
        constraints = constraints_of(self._session, demand.gang)
        return self._key(demand, self._class_spec(demand, constraints, avoiding))

    def _key(self, demand: Demand, class_spec: NodeClassSpec) -> Hashable:
        return (self._session.respected_nominations, *_key(demand, class_spec))

    def _class_spec(
        self, demand: Demand, constraints: GangConstraints, avoided: frozenset[NodeName]
    ) -> NodeClassSpec:
        at_most = tuple([self._at_most(batch.pods) for batch in demand.batches])
        pods = tuple(batch.pods[0] for batch in demand.batches)
        versions = tuple(map(self._session.eligibility_version, pods))
        ties = objective_of(self._session, demand)
        return NodeClassSpec(
            pods=pods,
            at_most=at_most,
            constraints=constraints,
            avoided=avoided,
            ties=ties,
            spread=_levels_to_spread_over(demand, constraints) if ties is Objective.SPREAD else 0,
            eligibility_versions=versions if any(versions) else (),
            supplies=key_of(self._session.supplies, demand.gang, pods),
        )

    def _at_most(self, pods: Sequence[Pod]) -> int:
        """A bound on the pods of a batch that fit one node; 1 for a single pod."""
        return 1 if len(pods) == 1 else min(len(pods), self.most_on_one_node(pods[0]))

    def _table(self, class_spec: NodeClassSpec) -> ClassTable:
        table = self._tables.get(class_spec.key)
        if table is None and class_spec.eligibility_versions and is_refreshable(self._session, class_spec):
            return self._refreshed(class_spec)
        if table is None:
            order = self._orders.order(
                class_spec.ties, class_spec.constraints.topology, class_spec.pods, spread=class_spec.spread
            )
            if self._kept is not None and is_cacheable(self._session, class_spec):
                table = self._kept.take(self._session, class_spec, order)
                self._taken.append((class_spec, table))
            else:
                table = ClassTable(self._session, class_spec, order)
            is_bounded = bool(class_spec.supplies) and are_bounded(self._session.supplies)
            if not class_spec.eligibility_versions and not is_bounded:
                self._tables[class_spec.key] = table
        return table

    def _refreshed(self, class_spec: NodeClassSpec) -> ClassTable:
        """The table of the last problem of such pods, as placements have changed their eligibility."""
        key = replace(class_spec, eligibility_versions=()).key
        order = self._orders.order(class_spec.ties, class_spec.constraints.topology, class_spec.pods)
        table = self._concerned.get(key)
        if table is None:
            table = self._concerned[key] = ClassTable(self._session, class_spec, order)
        else:
            table.refresh(class_spec, order)
        return table

    def give_back(self) -> None:
        """Return the tables to the cache for the next session. No problem may be built afterwards."""
        if self._kept is not None:
            for class_spec, table in self._taken:
                self._kept.give_back(class_spec, table)
        self._taken, self._tables, self._concerned = [], {}, {}

    def parts(self, demand: Demand, assignments: Assignments) -> Parts:
        """The parts of nodes that the node order chooses for these pods, before they are assigned."""
        return self._orders.parts(demand, assignments)

    def most_on_one_node(self, pod: Pod) -> int:
        """An upper bound on the pods of this shape that fit one node at the start of the cycle.

        A bound lets demands of different sizes share a class table.
        """
        if is_alone_on_node(pod.shape):
            return 1
        largest = self._session.facts.largest_allocatable if self._may_grow else self._session.largest_free
        needs = pod.shape.requests.items()
        return max(1, min((largest.get(name, 0) // need for name, need in needs if need > 0), default=1))


def _levels_to_spread_over(demand: Demand, constraints: GangConstraints) -> int:
    """All levels of the topology of the gang; none for a single pod, which goes to the emptiest node."""
    return len(constraints.topology.levels) if constraints.topology is not None and demand.count > 1 else 0


def _only_classes(demand: Demand, class_spec: NodeClassSpec, table: ClassTable) -> Sequence[ClassKey] | None:
    """The classes of the tightest domain of the deepest level, if equal pods have no better one; else None.

    If the pods must share a domain, those that fit as many of them differ in tightness only. If they only
    prefer to, no domain is better than one that fits all. Then the problem needs no other nodes.
    """
    constraints = class_spec.constraints
    if class_spec.ties is Objective.LEAST_FRAGMENTATION:
        return None
    if len(demand.batches) != 1 or table.has_costs or not _is_indifferent_to_domains(constraints):
        return None
    (batch,) = demand.batches
    most = _most_allowed(batch, table, constraints)
    must_share = constraints.required_depth == len(constraints.levels)
    least = max(1, batch.minimum) if must_share else max(most, batch.minimum)
    return table.tightest(least=least, most=most, required=constraints.required_depth)


def _most_allowed(batch: Batch, table: ClassTable, constraints: GangConstraints) -> int:
    """How many pods of the batch the budgets allow; all budgets count all nodes."""
    request = dict(zip(table.resources, table.requests[0], strict=True))
    allowed = [
        max(0, remaining[name]) // need
        for remaining in [budget.remaining for budget in constraints.budgets]
        for name, need in request.items()
        if need > 0 and name in remaining
    ]
    return min([len(batch.pods), *allowed])


def _is_indifferent_to_domains(constraints: GangConstraints) -> bool:
    """Whether rules only ask for few domains, and neither rules nor running members distinguish domains."""
    others = [rule for rule in constraints.rules if rule.obstacle is not Obstacle.LIMITS]
    prefers_few = bool(constraints.levels) and bool(others) and all(rule.gang_level for rule in others)
    return prefers_few and not constraints.anchors and all(nodes is None for nodes in constraints.scopes)


def _key(demand: Demand, class_spec: NodeClassSpec) -> tuple[Hashable, ...]:
    counts = tuple((batch.minimum, len(batch.pods)) for batch in demand.batches)
    gang, constraints = demand.gang, class_spec.constraints
    parts = (gang.subgroups, tuple(batch.subgroup for batch in demand.batches), constraints.subgroup_anchors)
    affinity = tuple(rule for rule in constraints.rules if rule.keys)
    return (class_spec.key, counts, gang.queue, gang.topology, constraints.anchors, parts, affinity)


def roles_of(
    demand: Demand, requests: Sequence[Vector], constraints: GangConstraints
) -> tuple[RoleDemand, ...]:
    """One role for each batch."""
    return tuple(
        RoleDemand(
            name=batch.name,
            request=request,
            minimum=batch.minimum,
            maximum=len(batch.pods),
            subgroups=constraints.ancestor_chains.get(batch.subgroup, ()),
            shape=batch.pods[0].shape.key if constraints.has_affinity_terms else "",
        )
        for batch, request in zip(demand.batches, requests, strict=True)
    )


def _with_members(rules: tuple[Rule, ...], demand: Demand, constraints: GangConstraints) -> tuple[Rule, ...]:
    """The rules; traffic knows the role of each batch, and where running members are."""
    if not demand.gang.spec.traffic:
        return rules
    members = tuple(batch.pods[0].role for batch in demand.batches)
    return tuple(rule.with_roles(members, constraints.role_anchors) for rule in rules)


def narrowed(rules: Sequence[Rule], classes: Sequence[NodeClass]) -> tuple[Rule, ...]:
    """The rules, with budgets restricted to the nodes of the problem."""

    def narrow(budget: Budget) -> Budget:
        nodes = budget.nodes
        if nodes is None:
            return budget
        return replace(
            budget, nodes=frozenset(node for group in classes for node in group.nodes if node in nodes)
        )

    return with_budgets(rules, narrow)
