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
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.nodes.gang_constraints import GangConstraints, label_values
from phalanx.actions.nodes.node_order import NodeOrder
from phalanx.actions.nodes.pod_capacity import (
    Vector,
    node_capacity,
    pod_weights,
)
from phalanx.actions.nodes.resource_projection import free_amounts, projections_for
from phalanx.framework.eligibility import Eligibility
from phalanx.framework.nodes.topology import Path
from phalanx.framework.session import Session
from phalanx.model.names import NodeName, ShapeKey
from phalanx.model.pods import Pod
from phalanx.model.queues import Objective
from phalanx.model.resources import Resources
from phalanx.model.supplies.known import requested
from phalanx.rules.problem import NodeClass

CLASS_TABLE_CHANGES_PART: Final = 4
"""A table is built again if more than one node in this many has changed: faster than node by node."""

CLASS_TABLES_KEPT: Final = 8
"""Node class tables that the next cycle reuses: one is 0.5 kB per node, 5 MB on 10,000 nodes."""

ClassKey = tuple[Path, tuple[bool, ...], Vector, Vector, tuple[str, ...], Vector, int]
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

    supplies: tuple[Hashable, ...] = ()
    """What is chosen for the claims to devices that pods of the gang share, and what is assumed of nodes
    where it is not known which pods fit together."""

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for specs that classify nodes in the same way."""
        shapes: tuple[ShapeKey, ...] = tuple(pod.shape.key for pod in self.pods)
        topology = self.constraints.topology.name if self.constraints.topology else None
        constraints = (topology, len(self.constraints.levels), self.constraints.scopes, self.constraints.keys)
        means = (self.tightness_depth, self.subgroup_depths, self.ties, self.spread)
        changing = (self.eligibility_versions, self.supplies)
        return (shapes, self.at_most, *constraints, self.avoided, *means, *changing)

    @property
    def tightness_depth(self) -> int:
        """The number of levels down to the one of the tightness term; 0 without such a term."""
        return 0 if self.ties is Objective.LEAST_FRAGMENTATION else self.constraints.gang_depth

    @property
    def subgroup_depths(self) -> tuple[int, ...]:
        """The same for the levels that subgroups ask for."""
        return () if self.ties is Objective.LEAST_FRAGMENTATION else self.constraints.subgroup_depths


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
        self._weights: Vector = ()
        self._made: dict[ClassKey, NodeClass] = {}
        self._open(session, class_spec, node_order)
        self._classify_all()

    def attach(self, session: Session, class_spec: NodeClassSpec, node_order: NodeOrder) -> None:
        """Continue in another session, with a cacheable spec of the same key."""
        before, seen, weights = self._static, self._seen, self._weights
        self._open(session, class_spec, node_order)
        changed = self._changed_since(before, seen)
        if weights != self._weights or len(changed) * CLASS_TABLE_CHANGES_PART > len(self._static):
            self._classify_all()
            return
        for node in [node for node in before if node not in self._static]:
            self._remove(node)
            del seen[node]
        for node in changed:
            self._move(node)

    def refresh(self, class_spec: NodeClassSpec, node_order: NodeOrder) -> None:
        """Continue in the same session where only the eligibility and the costs of nodes have changed."""
        self._follow()
        before = self._static
        self._open(self._session, class_spec, node_order)
        changed = [node for node, part in self._static.items() if part != before.get(node)]
        if len(changed) * CLASS_TABLE_CHANGES_PART > len(self._static):
            self._classify_all()
            return
        for node in [node for node in before if node not in self._static]:
            self._remove(node)
            del self._seen[node]
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
        projections = projections_for(session, class_spec.pods)
        asked = requested(projections, class_spec.pods)
        self.resources = asked_for(asked)
        self.requests = request_vectors(asked, self.resources)
        self._session = session
        self._free = free_amounts(projections, session)
        self._node_order = node_order
        self._has_order = class_spec.ties is not Objective.PACK
        self._spread = class_spec.spread
        self._levels = len(class_spec.constraints.levels)
        self._tightness_depth = class_spec.tightness_depth
        self._subgroup_depths = class_spec.subgroup_depths
        plain = [pod.shape.requests for pod in class_spec.pods]
        self._weights = pod_weights(self.requests, plain, session.facts.largest_allocatable)
        self._capacity = node_capacity(self.resources, self.requests, class_spec.at_most, self._weights)
        eligibilities = [session.eligibility(pod) for pod in class_spec.pods]
        self.has_costs = any(found.cost for found in eligibilities)
        self._open_static(session, eligibilities, class_spec)
        self._followed = len(session.changed_nodes)

    def _open_static(
        self, session: Session, eligibilities: Sequence[Eligibility], class_spec: NodeClassSpec
    ) -> None:
        """Compute the part of the keys that placements do not change, if anything it depends on changed."""
        constraints = class_spec.constraints
        topologies = (constraints.topology, constraints.other_topologies)
        follows_from = (session.facts, tuple(eligibilities), topologies)
        if self._follows_from == follows_from:
            return
        parts, avoided = static_parts(session, eligibilities, class_spec.constraints), class_spec.avoided
        self._static = {node: part for node, part in parts.items() if True in part[1] and node not in avoided}
        self._follows_from = follows_from

    def _classify_all(self) -> None:
        self._seen: dict[NodeName, Resources] = {}
        self._class_of: dict[NodeName, tuple[ClassKey, Entry, int]] = {}
        self._members: dict[ClassKey, list[Entry]] = {}
        self._capacities: dict[Path, int] = {}
        self._inner_capacities: dict[Path, int] = {}
        self._changed_domains: set[Path] = set()
        self._made = {}
        self._most = 0
        for node in self._static:
            self._classify(node)
        self._order = sorted(self._members)
        for members in self._members.values():
            members.sort()
        self._changed_domains.clear()

    def classes(
        self,
        most: int,
        *,
        only: Sequence[ClassKey] | None = None,
        listing: Sequence[NodeName] = (),
    ) -> tuple[NodeClass, ...]:
        """The classes now, sorted by key, each with at most `most` nodes and those of `listing`.

        `only` selects some of the classes. A node that is a domain of its own differs from other nodes of its
        class if the gang runs on it, so it must be listed.
        """
        if most != self._most:
            self._made.clear()
            self._most = most
        self._follow()
        self._drop_outdated()
        keys = self._order if only is None else only
        found = [self._made.get(key) or self._make(key) for key in keys]
        if listing:
            extra = self._by_class(listing)
            found = [
                self._with_nodes(each, extra[key]) if key in extra else each
                for key, each in zip(keys, found, strict=True)
            ]
        return tuple(found)

    def _by_class(self, nodes: Sequence[NodeName]) -> dict[ClassKey, list[Entry]]:
        found: dict[ClassKey, list[Entry]] = {}
        for node in dict.fromkeys(nodes):
            if node in self._class_of:
                key, entry, _ = self._class_of[node]
                found.setdefault(key, []).append(entry)
        return found

    def _with_nodes(self, made: NodeClass, entries: Sequence[Entry]) -> NodeClass:
        """The class with these of its nodes listed in any case."""
        more = [entry for entry in sorted(entries) if entry[1] not in made.nodes]
        return replace(
            made,
            nodes=(*made.nodes, *(node for _, node in more)),
            order=(*made.order, *(order for order, _ in more)) if self._has_order else (),
        )

    def tightest(self, *, least: int, most: int, required: int) -> Sequence[ClassKey] | None:
        """The classes of the deepest-level domain with the least capacity that fits most pods of the batch.

        A node that lacks the label of a level below the `required` ones may be a domain of its own. None if
        no domain fits the least number.
        """
        self._follow()
        alone = [key for key in self._members if required <= len(key[0]) < self._levels]
        target = min(most, max([*self._capacities.values(), *(key[-1] for key in alone)], default=0))
        if target < max(1, least):
            return None
        domains = [(capacity, path) for path, capacity in self._capacities.items() if capacity >= target]
        nodes = [(key[-1], key) for key in alone if key[-1] >= target]
        if not domains or (nodes and min(nodes)[0] < min(domains)[0]):
            return [min(nodes)[1]]
        return self._keys_within(min(domains)[1])

    def _keys_within(self, domain: Path) -> list[ClassKey]:
        depth = len(domain)

        def start(key: ClassKey) -> Path:
            return key[0][:depth]

        first = bisect_left(self._order, domain, key=start)
        return self._order[first : bisect_right(self._order, domain, lo=first, key=start)]

    def _follow(self) -> None:
        log = self._session.changed_nodes
        if self._followed == len(log):
            return
        for node in dict.fromkeys(log[self._followed :]):
            if node in self._static:
                self._move(node)
        self._followed = len(log)

    def _drop_outdated(self) -> None:
        """Drop the made classes of domains whose capacity changed."""
        for domain in self._changed_domains:
            for key in self._keys_within(domain):
                self._made.pop(key, None)
        self._changed_domains.clear()

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
        found = self._capacity(eligible, amounts)
        if found is None:
            return None
        free, capacity = found
        own = self._add_capacity(path, capacity)
        key = (path, eligible, cost, budgets, label_values, free, own)
        entry = (self._node_order.of(node), node)
        self._class_of[node] = (key, entry, capacity)
        members = self._members.get(key)
        if members is None:
            self._members[key] = [entry]
        else:
            members.append(entry)
        return key

    def _add_capacity(self, path: Path, capacity: int) -> int:
        """Add to the capacity of the domain with this path; return that of a node that is its own domain."""
        inside = [depth for depth in self._subgroup_depths if depth <= len(path)]
        for depth in inside:
            domain = path[:depth]
            self._inner_capacities[domain] = self._inner_capacities.get(domain, 0) + capacity
            self._changed_domains.add(domain)
        domain = path[: self._tightness_depth]
        if len(domain) < self._tightness_depth:
            return capacity
        if domain:
            self._capacities[domain] = self._capacities.get(domain, 0) + capacity
            self._changed_domains.add(domain)
        return capacity if len(inside) < len(self._subgroup_depths) else 0

    def _remove(self, node: NodeName) -> None:
        known = self._class_of.pop(node, None)
        if known is None:
            return
        key, entry, capacity = known
        self._add_capacity(key[0], -capacity)
        members = self._members[key]
        members.pop(bisect_left(members, entry))
        self._made.pop(key, None)
        if not members:
            del self._members[key]
            self._order.pop(bisect_left(self._order, key))

    def _make(self, key: ClassKey) -> NodeClass:
        path, eligible, cost, budgets, label_values, free, own = key
        members = self._listed(self._members[key])
        made = NodeClass(
            path=path,
            free=free,
            eligible=eligible,
            cost=cost,
            nodes=tuple([node for _, node in members]),
            budgets=budgets,
            order=tuple([order for order, _ in members]) if self._has_order else (),
            label_values=label_values,
            domain_capacity=self._capacity_at(path, self._tightness_depth, self._capacities, own),
            subgroup_capacities=tuple(
                [
                    (depth - 1, self._capacity_at(path, depth, self._inner_capacities, own))
                    for depth in self._subgroup_depths
                ]
            ),
        )
        self._made[key] = made
        return made

    @staticmethod
    def _capacity_at(path: Path, depth: int, capacities: Mapping[Path, int], own: int) -> int:
        """The capacity of the domain of this depth; a node without the label is one of its own."""
        if not depth:
            return 0
        return own if len(path) < depth else capacities[path[:depth]]

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
        values = label_values(session, constraints, state.node) if keys else ()
        eligible, cost = plain if node not in special else _eligibility_of(node, eligibilities)
        budgets = _sorted(everywhere, [index for index, nodes in scoped if node in nodes])
        parts[node] = (paths.get(node, ())[: len(constraints.levels)], eligible, cost, budgets, values)
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
    return not class_spec.eligibility_versions and is_refreshable(session, class_spec)


def is_refreshable(session: Session, class_spec: NodeClassSpec) -> bool:
    """Whether nothing but labels, eligibility, costs and plain resources of nodes matters to a table."""
    projections = projections_for(session, class_spec.pods)
    return class_spec.ties is Objective.PACK and not projections
