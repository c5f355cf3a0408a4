"""The two problems that an explanation compares: the cluster as it is now, and with nothing on it.

Other than a problem that is to be solved, they hold nodes that are full, and those that the pods may not
use: what would have to change there is what is asked. Both list the same nodes, grouped by what is free on
them now and what would be if nothing ran.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import Batch, Demand, without_affinity_terms
from phalanx.actions.explanations.relaxed_clusters import EmptyCluster
from phalanx.actions.nodes.fullness import Fullness
from phalanx.actions.nodes.gang_constraints import GangConstraints, constraints_of
from phalanx.actions.nodes.node_classes import StaticPart, asked_for, request_vectors, static_parts
from phalanx.actions.nodes.pod_capacity import Vector, capped, pods_that_fit, used_together
from phalanx.actions.nodes.resource_projection import ResourceProjection, projection_for
from phalanx.actions.problems.problem_builder import narrowed, roles_of
from phalanx.framework.eligibility import Eligibility
from phalanx.framework.session import Session
from phalanx.model.names import NodeName
from phalanx.model.resources import Resources
from phalanx.model.rules import AffinityRule, Rule, SameDomain
from phalanx.solver.problem import NodeClass, PlacementProblem


class Question(Struct, frozen=True):
    """The same demand twice."""

    now: PlacementProblem
    empty: PlacementProblem


class Questions:
    """Makes the questions about one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ideal = EmptyCluster(session)
        self._fullness = Fullness(session)

    def ask(self, demand: Demand) -> Question:
        """The demand, now and on the empty cluster, under the rules as they are there."""
        ideal = self._ideal.session_for(demand.gang)
        now, empty = constraints_of(self._session, demand.gang), constraints_of(ideal, demand.gang)
        pods = [batch.pods[0] for batch in demand.batches]
        projection = projection_for(self._session, pods)
        asked = projection.asked(pods)
        resources = asked_for(asked)
        requests = request_vectors(asked, resources)
        most = [len(batch.pods) for batch in demand.batches]
        full, vacant = self._classes(demand, now, ideal, _Room(resources, requests, most), projection)
        kept = tuple(rule for rule in empty.rules if not _of_company(rule))
        kept += tuple(rule for rule in now.rules if _of_company(rule))
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
        ideally = replace(problem, classes=vacant, rules=narrowed(kept, vacant))
        return Question(now=problem, empty=ideally)

    def _classes(
        self,
        demand: Demand,
        constraints: GangConstraints,
        ideal: Session,
        room: "_Room",
        projection: ResourceProjection,
    ) -> tuple[tuple[NodeClass, ...], tuple[NodeClass, ...]]:
        """Each class now and on the empty cluster. It lists no more nodes than can matter."""
        groups: dict[_Key, list[tuple[Vector, NodeName]]] = {}
        free, vacant = projection.free(self._session), projection.free(ideal)
        parts = static_parts(self._session, self._judged(demand.batches), constraints)
        lonely = tuple(map(without_affinity_terms, demand.batches))
        ideal_parts = (
            static_parts(self._session, self._judged(lonely), constraints)
            if lonely != demand.batches
            else parts
        )
        for node, part in parts.items():
            amounts = room.useful(free(node), vacant(node))
            if amounts is not None:
                entry = (self._fullness.of(node), node)
                groups.setdefault((part, ideal_parts[node], amounts), []).append(entry)
        pairs = [_pair(key, sorted(groups[key])[: demand.count]) for key in sorted(groups)]
        return tuple(now for now, _ in pairs), tuple(empty for _, empty in pairs)

    def _judged(self, batches: Sequence[Batch]) -> list[Eligibility]:
        return [self._session.eligibility(batch.pods[0]) for batch in batches]


def _of_company(rule: Rule) -> bool:
    """Whether it is about pods that ask for each other: nobody else changes what they ask."""
    return isinstance(rule, AffinityRule) or (isinstance(rule, SameDomain) and rule.fixed)


_Key = tuple[StaticPart, StaticPart, tuple[Vector, Vector]]


class _Room:
    """What of a node's amounts could be of use to the batches if the node were empty."""

    def __init__(self, resources: Sequence[str], requests: Sequence[Vector], most: Sequence[int]) -> None:
        self._resources = resources
        self._requests = requests
        self._most = most
        self._caps: dict[Vector, tuple[Vector, Vector] | None] = {}

    def useful(self, free: Resources, vacant: Resources) -> tuple[Vector, Vector] | None:
        """The amounts now and when empty; None where not one pod would fit even then."""
        empty = tuple([vacant.get(name, 0) for name in self._resources])
        if empty not in self._caps:
            self._caps[empty] = self._most_used(empty)
        known = self._caps[empty]
        if known is None:
            return None
        caps, vacancy = known
        return capped([free.get(name, 0) for name in self._resources], caps), vacancy

    def _most_used(self, empty: Vector) -> tuple[Vector, Vector] | None:
        """What the pods that fit an empty node, one batch at a time, use together; and that of the node."""
        pairs = zip(self._requests, self._most, strict=True)
        counts = [pods_that_fit(request, empty, most) for request, most in pairs]
        caps = used_together(self._requests, counts)
        return (caps, capped(empty, caps)) if any(counts) else None


def _pair(key: _Key, entries: list[tuple[Vector, NodeName]]) -> tuple[NodeClass, NodeClass]:
    (path, eligible, cost, budgets, label_values), (_, possible, *_), (free, vacant) = key
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
