"""Build the two problems that an explanation compares: the cluster as it is now, and the empty cluster.

Unlike problems to be solved, they contain full and ineligible nodes, since the explanation asks what would
have to change there. Both have the same nodes in the same classes, by the free amounts now and when empty.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import Batch, Demand
from phalanx.actions.explanations.changed_nodes import ChangedNode, FreeNode, with_changed_nodes
from phalanx.actions.explanations.exclusion_causes import (
    ANTI_AFFINITY,
    eligible_when_empty,
    exclusion_causes,
    near_anything,
)
from phalanx.actions.explanations.relaxed_clusters import EmptyCluster
from phalanx.actions.nodes.fullness import Fullness
from phalanx.actions.nodes.gang_constraints import GangConstraints, constraints_of
from phalanx.actions.nodes.node_classes import StaticPart, asked_for, request_vectors, static_parts
from phalanx.actions.nodes.pod_capacity import Vector, capped, pods_that_fit, used_together
from phalanx.actions.nodes.resource_projection import free_amounts, projections_for
from phalanx.actions.problems.problem_builder import narrowed, roles_of
from phalanx.framework.eligibility import Eligibility
from phalanx.framework.session import Session
from phalanx.model.names import NodeName
from phalanx.model.resources import Resources
from phalanx.model.supplies.joined import only_certain as certain
from phalanx.model.supplies.known import requested
from phalanx.model.supplies.supply import Projection
from phalanx.rules.problem import NodeClass, Obstacle, PlacementProblem, Rule
from phalanx.solver.infeasibility.relaxations import ELIGIBILITY, Exclusions

_Allowed = tuple[bool, ...]
"""By batch."""

_Key = tuple[StaticPart, tuple[_Allowed, ...], tuple[Vector, Vector]]
"""Static part; eligibility by cause and at last when empty; the amounts now and when empty."""


class ProblemPair(Struct, frozen=True):
    """The same demand in the cluster as it is now and in the empty cluster."""

    now: PlacementProblem
    empty: PlacementProblem
    exclusions: Exclusions
    """Why nodes are ineligible now."""
    exclusions_when_empty: Exclusions
    """Why they are when empty: other members of the gang may repel its pods."""


class ExplanationProblems:
    """Builds the problems of one session."""

    def __init__(self, session: Session, empty: EmptyCluster) -> None:
        self._session = session
        self._empty = empty
        self._fullness = Fullness(session)

    def build(self, demand: Demand, *, only_certain: bool = False) -> ProblemPair:
        """The two problems of the demand, each with the rules that hold there.

        `only_certain`: by default, what is not known not to fit must not be called impossible.
        """
        empty_session = self._empty.session_for(demand.gang)
        now = constraints_of(self._session, demand.gang)
        empty = constraints_of(empty_session, demand.gang)
        pods = [batch.pods[0] for batch in demand.batches]
        most = [len(batch.pods) for batch in demand.batches]
        with certain(self._session.supplies) if only_certain else nullcontext():
            projections = projections_for(self._session, pods)
        asked = requested(projections, pods)
        resources = asked_for(asked)
        requests = request_vectors(asked, resources)
        relevant = _RelevantAmounts(resources, requests, most)
        full, vacant, exclusions = self._classes(demand, now, empty_session, relevant, projections)
        rules = _rules_when_empty(now, empty)
        problem = PlacementProblem(
            resources=resources,
            levels=now.levels,
            roles=roles_of(demand, requests, now),
            classes=full,
            rules=narrowed(now.rules, full),
            anchors=now.anchors,
            subgroup_anchors=now.subgroup_anchors,
            seed=self._session.snapshot.seed,
            keys=now.keys,
        )
        empty_problem = replace(problem, classes=vacant, rules=narrowed(rules, vacant))
        static, possible = exclusions[ELIGIBILITY], [group.eligible for group in vacant]
        when_empty = {ELIGIBILITY: static}
        if static != possible:
            when_empty[ANTI_AFFINITY] = [_implied(*pair) for pair in zip(static, possible, strict=True)]
        return ProblemPair(problem, empty_problem, exclusions, when_empty)

    def build_with_all_nodes(self, demand: Demand) -> PlacementProblem:
        """The problem of the empty cluster with all nodes available, under the same rules."""
        empty = self._empty.session_for(demand.gang)
        constraints = constraints_of(self._session, demand.gang), constraints_of(empty, demand.gang)
        back = [
            ChangedNode(state.node.as_available, name)
            for name, state in empty.nodes.items()
            if self._session.is_out_of_service(name)
        ]
        return with_changed_nodes(
            self.build(demand).empty,
            replace(demand, batches=tuple(map(near_anything, demand.batches))),
            empty,
            [FreeNode(each, empty.free(each.like)) for each in back],
            _rules_when_empty(*constraints),
        )

    def _classes(
        self,
        demand: Demand,
        constraints: GangConstraints,
        empty: Session,
        relevant: "_RelevantAmounts",
        projections: Sequence[Projection],
    ) -> tuple[tuple[NodeClass, ...], tuple[NodeClass, ...], Exclusions]:
        """Each class now and when empty, with no more nodes than pods, and the causes of its eligibility."""
        groups: dict[_Key, list[tuple[Vector, NodeName]]] = {}
        free, vacant = free_amounts(projections, self._session), free_amounts(projections, empty)
        parts = static_parts(self._session, self._eligibilities(demand.batches), constraints)
        causes = exclusion_causes(self._session, demand.batches)
        possible = eligible_when_empty(empty, demand.batches)
        allowed_by_causes = _by_node([*causes.values(), possible])
        for node, part in parts.items():
            amounts = relevant.of(free(node), vacant(node))
            if amounts is not None:
                entry = (self._fullness.of(node), node)
                key = (part, allowed_by_causes(node), amounts)
                groups.setdefault(key, []).append(entry)
        keys = sorted(groups)
        pairs = [_pair(key, sorted(groups[key])[: demand.count]) for key in keys]
        exclusions = {name: [key[1][index] for key in keys] for index, name in enumerate(causes)}
        return tuple(now for now, _ in pairs), tuple(empty for _, empty in pairs), exclusions

    def _eligibilities(self, batches: Sequence[Batch]) -> list[Eligibility]:
        return [self._session.eligibility(batch.pods[0]) for batch in batches]


def _implied(static: _Allowed, possible: _Allowed) -> _Allowed:
    """What a second cause allows, if both together allow what is possible."""
    return tuple([after or not before for before, after in zip(static, possible, strict=True)])


def _by_node(groups: Sequence[Sequence[Eligibility]]) -> Callable[[NodeName], tuple[_Allowed, ...]]:
    """For a node, what each group of eligibilities allows."""
    special = {node for group in groups for eligibility in group for node in eligibility.rejected}
    plain = tuple([(True,) * len(group) for group in groups])

    def allowed(node: NodeName) -> tuple[_Allowed, ...]:
        if node not in special:
            return plain
        return tuple([tuple([node not in each.rejected for each in group]) for group in groups])

    return allowed


def _rules_when_empty(now: GangConstraints, empty: GangConstraints) -> tuple[Rule, ...]:
    """The rules of the empty cluster, with the affinity of now.

    Pods outside the gang that satisfy a rule too may be anywhere in the empty cluster.
    """
    affinity = [rule for rule in now.rules if _is_of_affinity(rule) and not rule.is_met_by_others]
    return (*(rule for rule in empty.rules if not _is_of_affinity(rule)), *affinity)


def _is_of_affinity(rule: Rule) -> bool:
    """Whether the rule is about affinity among members of the gang. Spread counts other pods too."""
    return rule.obstacle is Obstacle.AFFINITY and not rule.counts_others


class _RelevantAmounts:
    """The amounts of a node that the batches could use if the node were empty."""

    def __init__(self, resources: Sequence[str], requests: Sequence[Vector], most: Sequence[int]) -> None:
        self._resources = resources
        self._requests = requests
        self._most = most
        self._caps: dict[Vector, tuple[Vector, Vector] | None] = {}

    def of(self, free: Resources, vacant: Resources) -> tuple[Vector, Vector] | None:
        """The amounts now and when empty; None if no pod fits the empty node."""
        empty = tuple([vacant.get(name, 0) for name in self._resources])
        if empty not in self._caps:
            self._caps[empty] = self._most_used(empty)
        known = self._caps[empty]
        if known is None:
            return None
        caps, vacancy = known
        return capped([free.get(name, 0) for name in self._resources], caps), vacancy

    def _most_used(self, empty: Vector) -> tuple[Vector, Vector] | None:
        """The amounts that the pods fitting an empty node use, and those capped by the node."""
        pairs = zip(self._requests, self._most, strict=True)
        counts = [pods_that_fit(request, empty, most) for request, most in pairs]
        caps = used_together(self._requests, counts)
        return (caps, capped(empty, caps)) if any(counts) else None


def _pair(key: _Key, entries: list[tuple[Vector, NodeName]]) -> tuple[NodeClass, NodeClass]:
    (path, eligible, cost, budgets, label_values), (*_, possible), (free, vacant) = key
    now = NodeClass(
        path=path,
        free=free,
        eligible=eligible,
        cost=cost,
        nodes=tuple(node for _, node in entries),
        budgets=budgets,
        label_values=label_values,
    )
    return now, replace(now, free=vacant, eligible=possible)
