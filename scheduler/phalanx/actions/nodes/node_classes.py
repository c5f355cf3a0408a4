"""Node classes: nodes that are equal to a placement problem, and tables of them that follow changes.

The key of a class holds the domain path down to the deepest relevant level, eligibility and cost per batch,
the budgets that count the node, the labels of affinity rules, and the free amounts of the requested
resources, each capped at what the batches can use on that node. So remainders of memory and host names do not
matter, and devices and NUMA zones count by what the batches can use of them (`resource_projection.py`).

A table follows the log of changed nodes of its session, so that the next gang costs only what changed since
the last one, not all nodes. A cache passes tables on to the next session, which classifies only changed nodes
again.
"""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from operator import itemgetter

from msgspec import Struct

from phalanx.actions.limits import CLASS_TABLE_CHANGES_PART, CLASS_TABLES_KEPT
from phalanx.actions.nodes.gang_constraints import GangConstraints
from phalanx.actions.nodes.node_order import NodeOrder
from phalanx.actions.nodes.pod_capacity import (
    Vector,
    Weights,
    capacity_in_pods,
    pod_weights,
    pods_that_fit,
    relevant_amounts,
)
from phalanx.actions.nodes.resource_projection import projection_for
from phalanx.framework.eligibility import Eligibility
from phalanx.framework.nodes.affinity import label_value
from phalanx.framework.nodes.topology import Path
from phalanx.framework.session import Session
from phalanx.model.names import NodeName, ShapeKey
from phalanx.model.pods import Pod
from phalanx.model.queues import Objective
from phalanx.model.resources import Resources
from phalanx.solver.problem import NodeClass

ClassKey = tuple[Path, tuple[bool, ...], Vector, Vector, tuple[str, ...], Vector]
Entry = tuple[Vector, NodeName]
StaticPart = tuple[Path, tuple[bool, ...], Vector, Vector, tuple[str, ...]]


class NodeClassSpec(Struct, frozen=True):
    """All that distinguishes nodes for one demand."""

    pods: tuple[Pod, ...]
    """One pod of each batch."""

    at_most: Vector
    """A bound on the pods of each batch that fit one node."""

    constraints: GangConstraints
    avoided: frozenset[NodeName] = frozenset()
    """Nodes that the table leaves out."""

    ties: Objective = Objective.PACK
    """Decides which of equally good nodes are taken first."""

    spread: int = 0
    """The number of levels over which pods are spread."""

    eligibility_versions: tuple[tuple[int, ...], ...] = ()
    """By batch, equal while no placement changes which nodes are eligible; empty if none can change them."""

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for specs that classify nodes in the same way."""
        shapes: tuple[ShapeKey, ...] = tuple(pod.shape.key for pod in self.pods)
        topology = self.constraints.topology.name if self.constraints.topology else None
        constraints = (topology, len(self.constraints.levels), self.constraints.scopes, self.constraints.keys)
        means = (self.is_tight, self.ties, self.spread)
        return (shapes, self.at_most, *constraints, self.avoided, *means, self.eligibility_versions)

    @property
    def is_tight(self) -> bool:
        """Whether domains with little free capacity are preferred, to keep large free blocks."""
        return self.ties is not Objective.LEAST_FRAGMENTATION and self.constraints.is_about_whole_gang


def asked_for(requests: Iterable[Resources]) -> tuple[str, ...]:
    """The requested resources, sorted by name."""
    return tuple(sorted({name for amounts in requests for name, need in amounts.items() if need > 0}))


def request_vectors(requests: Iterable[Resources], resources: Sequence[str]) -> tuple[Vector, ...]:
    """Each request as a vector in the order of the resources."""
    return tuple(tuple([amounts.get(name, 0) for name in resources]) for amounts in requests)


class ClassTable:
    """The node classes of a session for one spec. `has_costs`: whether some node costs more than others."""

    def __init__(self, session: Session, class_spec: NodeClassSpec, node_order: NodeOrder) -> None:
        self._follows_from: tuple[object, ...] = ()
        self._weights: Weights | None = None
        self._made: dict[ClassKey, NodeClass] = {}
        self._open(session, class_spec, node_order)
        self._classify_all()

    def attach(self, session: Session, class_spec: NodeClassSpec, node_order: NodeOrder) -> None:
        """Continue in another session, with a cacheable spec of the same key."""
        before, seen = self._static, self._seen
        self._open(session, class_spec, node_order)
        changed = self._changed_since(before, seen)
        if len(changed) * CLASS_TABLE_CHANGES_PART > len(self._static):
            self._classify_all()
            return
        for node in [node for node in before if node not in self._static]:
            self._remove(node)
            del seen[node]
        for node in changed:
            self._move(node)

    def _changed_since(
        self, before: Mapping[NodeName, StaticPart], seen: Mapping[NodeName, Resources]
    ) -> Collection[NodeName]:
        """The nodes that changed since they were classified."""
        states, static = self._session.nodes, self._static
        changed = {node for node in self._session.changed_nodes if node in static}
        changed.update([node for node in static if states[node].free is not seen.get(node)])
        if static is not before:
            changed.update([node for node, part in static.items() if part != before.get(node)])
        return changed

    def detach(self) -> None:
        """Drop the session; the table is unusable until it is attached again."""
        del self._session, self._free, self._node_order

    def _open(self, session: Session, class_spec: NodeClassSpec, node_order: NodeOrder) -> None:
        projection = projection_for(session, class_spec.pods)
        asked = projection.asked(class_spec.pods)
        self.resources = asked_for(asked)
        self.requests = request_vectors(asked, self.resources)
        self._session = session
        self._free = projection.free(session)
        self._node_order = node_order
        self._has_order = class_spec.ties is not Objective.PACK
        self._spread = class_spec.spread
        self._at_most = class_spec.at_most
        self._levels = len(class_spec.constraints.levels)
        self._relevant = relevant_amounts(self.resources, self.requests, class_spec.at_most)
        self._open_weights(session, class_spec)
        eligibilities = [session.eligibility(pod) for pod in class_spec.pods]
        self.has_costs = any(found.cost for found in eligibilities)
        self._open_static(session, eligibilities, class_spec)
        self._followed = len(session.changed_nodes)

    def _open_weights(self, session: Session, class_spec: NodeClassSpec) -> None:
        before, largest = self._weights, session.facts.largest_allocatable
        self._weights = pod_weights(self.requests, self.resources, largest) if class_spec.is_tight else None
        if self._weights != before:
            self._made = {}

    def _open_static(
        self, session: Session, eligibilities: Sequence[Eligibility], class_spec: NodeClassSpec
    ) -> None:
        """Compute the part of the keys that placements do not change, if anything it depends on changed."""
        follows_from = (session.facts, tuple(eligibilities), class_spec.constraints.topology)
        if self._follows_from == follows_from:
            return
        parts, avoided = static_parts(session, eligibilities, class_spec.constraints), class_spec.avoided
        self._static = {node: part for node, part in parts.items() if True in part[1] and node not in avoided}
        self._follows_from = follows_from

    def _classify_all(self) -> None:
        self._seen: dict[NodeName, Resources] = {}
        self._class_of: dict[NodeName, tuple[ClassKey, Entry]] = {}
        self._members: dict[ClassKey, list[Entry]] = {}
        self._made = {}
        self._most = 0
        for node in self._static:
            self._classify(node)
        self._order = sorted(self._members)
        for members in self._members.values():
            members.sort()

    def classes(self, most: int, *, within: Path | None = None) -> tuple[NodeClass, ...]:
        """The classes now, sorted by key, each with at most `most` nodes; `within` selects one path."""
        if most != self._most:
            self._made.clear()
            self._most = most
        self._follow()
        keys = self._order if within is None else self._keys_within(within)
        return tuple([self._made.get(key) or self._make(key) for key in keys])

    def tightest(self, *, least: int, most: int) -> Path | None:
        """The domain of the deepest level that fits most pods of the only batch, with the least excess.

        None if no domain fits the least number. Paths that end above the deepest level are no domains.
        """
        self._follow()
        capacity = self._capacity_by_path()
        target = min(most, max(capacity.values(), default=0))
        if target < least:
            return None
        return min((pods, path) for path, pods in capacity.items() if pods >= target)[1]

    def _capacity_by_path(self) -> dict[Path, int]:
        (request,), (at_most,) = self.requests, self._at_most
        fits: dict[Vector, int] = {}
        capacity: dict[Path, int] = {}
        for (path, _, _, _, _, free), members in self._members.items():
            if free not in fits:
                fits[free] = pods_that_fit(request, free, at_most)
            if len(path) == self._levels:
                capacity[path] = capacity.get(path, 0) + fits[free] * len(members)
        return capacity

    def _keys_within(self, path: Path) -> list[ClassKey]:
        start = bisect_left(self._order, path, key=itemgetter(0))
        end = bisect_right(self._order, path, key=itemgetter(0))
        return self._order[start:end]

    def _follow(self) -> None:
        log = self._session.changed_nodes
        if self._followed == len(log):
            return
        for node in dict.fromkeys(log[self._followed :]):
            if node in self._static:
                self._move(node)
        self._followed = len(log)

    def _move(self, node: NodeName) -> None:
        self._remove(node)
        key = self._classify(node)
        if key is None:
            return
        members = self._members[key]
        if len(members) == 1:
            insort(self._order, key)
        else:
            insort(members, members.pop())
        self._made.pop(key, None)

    def _classify(self, node: NodeName) -> ClassKey | None:
        """Append the node to its class; None if no pod fits the node."""
        path, eligible, cost, budgets, label_values = self._static[node]
        amounts = self._seen[node] = self._free(node)
        free = self._relevant(eligible, amounts)
        if free is None:
            return None
        key = (path, eligible, cost, budgets, label_values, free)
        entry = (self._node_order.of(node), node)
        self._class_of[node] = (key, entry)
        members = self._members.get(key)
        if members is None:
            self._members[key] = [entry]
        else:
            members.append(entry)
        return key

    def _remove(self, node: NodeName) -> None:
        known = self._class_of.pop(node, None)
        if known is None:
            return
        key, entry = known
        members = self._members[key]
        members.pop(bisect_left(members, entry))
        self._made.pop(key, None)
        if not members:
            del self._members[key]
            self._order.pop(bisect_left(self._order, key))

    def _make(self, key: ClassKey) -> NodeClass:
        path, eligible, cost, budgets, label_values, free = key
        members, weights = self._listed(self._members[key]), self._weights
        made = NodeClass(
            path=path,
            free=free,
            eligible=eligible,
            cost=cost,
            nodes=tuple([node for _, node in members]),
            budgets=budgets,
            order=tuple([order for order, _ in members]) if self._has_order else (),
            label_values=label_values,
            capacity=capacity_in_pods(free, eligible, self.requests, self._at_most, weights)
            if weights
            else 0,
            left_out=len(self._members[key]) - len(members) if weights else 0,
        )
        self._made[key] = made
        return made

    def _listed(self, members: list[Entry]) -> list[Entry]:
        """As many nodes as there are pods; if pods are spread, as many in each domain."""
        return spread_out(members, self._most, self._spread) if self._spread else members[: self._most]


def spread_out(members: Iterable[Entry], most: int, levels: int) -> list[Entry]:
    """The nodes that `most` pods could need: the first nodes of each domain, and of the first domains in it.

    The keys of the nodes end with the numbers of their domains.
    """
    inside: Counter[Vector] = Counter()
    known: set[Vector] = set()
    done: set[Vector] = set()
    found = []
    for entry in members:
        domains = entry[0][-levels:]
        if domains in done:
            continue
        around = [domains[:depth] for depth in range(levels + 1)]
        new = [depth for depth in range(1, levels + 1) if around[depth] not in known]
        if any(inside[around[depth - 1]] >= most for depth in new):
            done.add(domains)
            continue
        for depth in new:
            known.add(around[depth])
            inside[around[depth - 1]] += 1
        inside[domains] += 1
        if inside[domains] == most:
            done.add(domains)
        found.append(entry)
    return found


def static_parts(
    session: Session, eligibilities: Sequence[Eligibility], constraints: GangConstraints
) -> dict[NodeName, StaticPart]:
    """The part of each node's key that placements do not change.

    That is path, eligibility, cost, budgets, and the labels of affinity rules.
    """
    paths = (
        session.topologies.paths(constraints.topology) if constraints.topology and constraints.levels else {}
    )
    scoped = [(index, nodes) for index, nodes in enumerate(constraints.scopes) if nodes is not None]
    everywhere = tuple(index for index, nodes in enumerate(constraints.scopes) if nodes is None)
    special = {node for found in eligibilities for marked in (found.rejected, found.cost) for node in marked}
    plain = (tuple([True] * len(eligibilities)), tuple([0] * len(eligibilities)))
    keys = constraints.keys
    if not (special or scoped or keys):
        alike = (*plain, everywhere, ())
        return {node: (paths.get(node, ())[: len(constraints.levels)], *alike) for node in session.nodes}
    parts: dict[NodeName, StaticPart] = {}
    for node, state in session.nodes.items():
        label_values = tuple([label_value(state.node.labels, key) for key in keys]) if keys else ()
        eligible, cost = plain if node not in special else _eligibility_of(node, eligibilities)
        budgets = _sorted(everywhere, [index for index, nodes in scoped if node in nodes])
        parts[node] = (paths.get(node, ())[: len(constraints.levels)], eligible, cost, budgets, label_values)
    return parts


def _eligibility_of(node: NodeName, eligibilities: Sequence[Eligibility]) -> tuple[tuple[bool, ...], Vector]:
    eligible = tuple([node not in found.rejected for found in eligibilities])
    return eligible, tuple([found.cost.get(node, 0) for found in eligibilities])


def _sorted(left: Vector, right: Sequence[int]) -> Vector:
    return tuple(sorted([*left, *right])) if right else left


class ClassTableCache:
    """Class tables of the last session. Cached tables never change a decision; they only save work.

    A taken table leaves the cache, and is lost unless it is given back. So an error in the middle of a change
    costs one table and corrupts none.
    """

    def __init__(self, kept: int = CLASS_TABLES_KEPT) -> None:
        self._size = kept
        self._known: dict[Hashable, ClassTable] = {}

    def __len__(self) -> int:
        return len(self._known)

    def take(self, session: Session, class_spec: NodeClassSpec, node_order: NodeOrder) -> ClassTable:
        """The table of a session for a cacheable spec, from the cache if possible."""
        table = self._known.pop(class_spec.key, None)
        if table is None:
            return ClassTable(session, class_spec, node_order)
        table.attach(session, class_spec, node_order)
        return table

    def give_back(self, class_spec: NodeClassSpec, table: ClassTable) -> None:
        """Store a table that this session needs no more."""
        table.detach()
        self._known[class_spec.key] = table
        if len(self._known) > self._size:
            del self._known[next(iter(self._known))]


def is_cacheable(session: Session, class_spec: NodeClassSpec) -> bool:
    """Whether another session may reuse a table of this spec."""
    return (
        class_spec.ties is Objective.PACK
        and not class_spec.eligibility_versions
        and projection_for(session, class_spec.pods).are_plain
    )
