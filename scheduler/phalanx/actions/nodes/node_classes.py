"""Nodes as classes: the one place where the key is made that says which nodes are the same to a problem.

The key holds the domain path down to the level that matters, eligibility and price per batch, the budgets
that count the node, the labels by which pods are near each other, and the free amounts of the resources that
the batches ask for, each capped at what the batches could use on that node at most. Odd bytes of memory and
different host names disappear in it, and so do devices and zones of which the batches can use the same: they
are counted as pieces (`lenses.py`).

A table follows its session's log of changed nodes, so that gangs of one demand in a row cost what changed
between them and not the number of nodes. The next session can take it up: then only the nodes that are not as
they were are seated anew.
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
    """What makes two nodes differ: a pod of each batch, how many of them a node could take, and the frame.

    `avoided` nodes are not there at all. `ties` tells which nodes are taken first, `spread` over how many
    levels pods are then spread. `stamps`: see `Session.stamp`.
    """

    pods: tuple[Pod, ...]
    at_most: Vector
    constraints: GangConstraints
    avoided: frozenset[NodeName] = frozenset()
    ties: Objective = Objective.PACK
    spread: int = 0
    stamps: tuple[tuple[int, ...], ...] = ()

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for lenses that see the same."""
        shapes: tuple[ShapeKey, ...] = tuple(pod.shape.key for pod in self.pods)
        topology = self.constraints.topology.name if self.constraints.topology else None
        constraints = (topology, len(self.constraints.levels), self.constraints.scopes, self.constraints.keys)
        means = (self.is_tight, self.ties, self.spread)
        return (shapes, self.at_most, *constraints, self.avoided, *means, self.stamps)

    @property
    def is_tight(self) -> bool:
        """Whether domains with little room are preferred, so that large holes stay whole."""
        return self.ties is not Objective.LEAST_FRAGMENTATION and self.constraints.is_about_whole_gang


def asked_for(requests: Iterable[Resources]) -> tuple[str, ...]:
    """The resources that are asked for, in order of their names."""
    return tuple(sorted({name for each in requests for name, need in each.items() if need > 0}))


def request_vectors(requests: Iterable[Resources], resources: Sequence[str]) -> tuple[Vector, ...]:
    """Each of these requests in the order of the resources."""
    return tuple(tuple([each.get(name, 0) for name in resources]) for each in requests)


class ClassTable:
    """All nodes of a session through one lens. `has_costs`: whether some node is dearer than others."""

    def __init__(self, session: Session, class_spec: NodeClassSpec, node_order: NodeOrder) -> None:
        self._follows_from: tuple[object, ...] = ()
        self._weights: Weights | None = None
        self._made: dict[ClassKey, NodeClass] = {}
        self._open(session, class_spec, node_order)
        self._seat_all()

    def take_up(self, session: Session, class_spec: NodeClassSpec, node_order: NodeOrder) -> None:
        """Go on in another session, through a lens with the same key by which only what is free matters."""
        before, seen = self._static, self._seen
        self._open(session, class_spec, node_order)
        changed = self._unlike(before, seen)
        if len(changed) * CLASS_TABLE_CHANGES_PART > len(self._static):
            self._seat_all()
            return
        for node in [node for node in before if node not in self._static]:
            self._remove(node)
            del seen[node]
        for node in changed:
            self._move(node)

    def _unlike(
        self, before: Mapping[NodeName, StaticPart], seen: Mapping[NodeName, Resources]
    ) -> Collection[NodeName]:
        """The nodes that are not as they were when they were seated."""
        states, static = self._session.nodes, self._static
        unlike = {node for node in self._session.changed_nodes if node in static}
        unlike.update([node for node in static if states[node].free is not seen.get(node)])
        if static is not before:
            unlike.update([node for node, part in static.items() if part != before.get(node)])
        return unlike

    def leave(self) -> None:
        """Forget the session: until the next one takes the table up, it answers nothing."""
        del self._session, self._free, self._node_order

    def _open(self, session: Session, class_spec: NodeClassSpec, node_order: NodeOrder) -> None:
        projection = projection_for(session, class_spec.pods)
        asked = projection.asked(class_spec.pods)
        self.resources = asked_for(asked)
        self.requests = request_vectors(asked, self.resources)
        self._session = session
        self._free = projection.free(session)
        self._node_order = node_order
        self._tells_order = class_spec.ties is not Objective.PACK
        self._spread = class_spec.spread
        self._at_most = class_spec.at_most
        self._levels = len(class_spec.constraints.levels)
        self._useful = relevant_amounts(self.resources, self.requests, class_spec.at_most)
        self._open_room(session, class_spec)
        judged = [session.eligibility(pod) for pod in class_spec.pods]
        self.has_costs = any(each.cost for each in judged)
        self._open_static(session, judged, class_spec)
        self._followed = len(session.changed_nodes)

    def _open_room(self, session: Session, class_spec: NodeClassSpec) -> None:
        before, largest = self._weights, session.facts.largest_allocatable
        self._weights = pod_weights(self.requests, self.resources, largest) if class_spec.is_tight else None
        if self._weights != before:
            self._made = {}

    def _open_static(
        self, session: Session, judged: Sequence[Eligibility], class_spec: NodeClassSpec
    ) -> None:
        """Work out what placing does not change, unless it is what it was in the session before."""
        follows_from = (session.facts, tuple(judged), class_spec.constraints.topology)
        if self._follows_from == follows_from:
            return
        parts, avoided = static_parts(session, judged, class_spec.constraints), class_spec.avoided
        self._static = {node: part for node, part in parts.items() if True in part[1] and node not in avoided}
        self._follows_from = follows_from

    def _seat_all(self) -> None:
        self._seen: dict[NodeName, Resources] = {}
        self._seats: dict[NodeName, tuple[ClassKey, Entry]] = {}
        self._members: dict[ClassKey, list[Entry]] = {}
        self._made = {}
        self._most = 0
        for node in self._static:
            self._seat(node)
        self._order = sorted(self._members)
        for members in self._members.values():
            members.sort()

    def classes(self, most: int, *, within: Path | None = None) -> tuple[NodeClass, ...]:
        """The classes now, in the order of their keys, each with at most `most` nodes; `within` one path."""
        if most != self._most:
            self._made.clear()
            self._most = most
        self._follow()
        keys = self._order if within is None else self._keys_within(within)
        return tuple([self._made.get(key) or self._make(key) for key in keys])

    def tightest(self, *, least: int, most: int) -> Path | None:
        """Of pods of the only batch: where most of them fit on nodes of one path, and as few more as can be.

        None where not even the least fit. Paths that end above the deepest level are no domain.
        """
        self._follow()
        room = self._room_by_path()
        target = min(most, max(room.values(), default=0))
        if target < least:
            return None
        return min((pods, path) for path, pods in room.items() if pods >= target)[1]

    def _room_by_path(self) -> dict[Path, int]:
        (request,), (at_most,) = self.requests, self._at_most
        fits: dict[Vector, int] = {}
        room: dict[Path, int] = {}
        for (path, _, _, _, _, free), members in self._members.items():
            if free not in fits:
                fits[free] = pods_that_fit(request, free, at_most)
            if len(path) == self._levels:
                room[path] = room.get(path, 0) + fits[free] * len(members)
        return room

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
        key = self._seat(node)
        if key is None:
            return
        members = self._members[key]
        if len(members) == 1:
            insort(self._order, key)
        else:
            insort(members, members.pop())
        self._made.pop(key, None)

    def _seat(self, node: NodeName) -> ClassKey | None:
        """Put the node last into its class; None for a node on which not one pod fits."""
        path, eligible, cost, budgets, label_values = self._static[node]
        amounts = self._seen[node] = self._free(node)
        free = self._useful(eligible, amounts)
        if free is None:
            return None
        key = (path, eligible, cost, budgets, label_values, free)
        entry = (self._node_order.of(node), node)
        self._seats[node] = (key, entry)
        members = self._members.get(key)
        if members is None:
            self._members[key] = [entry]
        else:
            members.append(entry)
        return key

    def _remove(self, node: NodeName) -> None:
        seat = self._seats.pop(node, None)
        if seat is None:
            return
        key, entry = seat
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
            order=tuple([order for order, _ in members]) if self._tells_order else (),
            label_values=label_values,
            capacity=capacity_in_pods(free, eligible, self.requests, self._at_most, weights)
            if weights
            else 0,
            left_out=len(self._members[key]) - len(members) if weights else 0,
        )
        self._made[key] = made
        return made

    def _listed(self, members: list[Entry]) -> list[Entry]:
        """The first ones, as many as there are pods; where pods are spread, in whichever domains."""
        return spread_out(members, self._most, self._spread) if self._spread else members[: self._most]


def spread_out(members: Iterable[Entry], most: int, levels: int) -> list[Entry]:
    """Of these nodes, whose keys end with the numbers of their domains, those that so many pods could need.

    In each domain the first ones, and the first of the domains inside it.
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
    session: Session, judged: Sequence[Eligibility], constraints: GangConstraints
) -> dict[NodeName, StaticPart]:
    """The part of each node's key that placing does not change.

    Path, eligibility, price, budgets, and the labels by which pods are near or apart.
    """
    paths = (
        session.topologies.paths(constraints.topology) if constraints.topology and constraints.levels else {}
    )
    scoped = [(index, nodes) for index, nodes in enumerate(constraints.scopes) if nodes is not None]
    everywhere = tuple(index for index, nodes in enumerate(constraints.scopes) if nodes is None)
    special = {node for each in judged for marked in (each.rejected, each.cost) for node in marked}
    plain = (tuple([True] * len(judged)), tuple([0] * len(judged)))
    keys = constraints.keys
    if not (special or scoped or keys):
        alike = (*plain, everywhere, ())
        return {node: (paths.get(node, ())[: len(constraints.levels)], *alike) for node in session.nodes}
    parts: dict[NodeName, StaticPart] = {}
    for node, state in session.nodes.items():
        label_values = tuple([label_value(state.node.labels, key) for key in keys]) if keys else ()
        eligible, cost = plain if node not in special else _judgement(node, judged)
        budgets = _sorted(everywhere, [index for index, nodes in scoped if node in nodes])
        parts[node] = (paths.get(node, ())[: len(constraints.levels)], eligible, cost, budgets, label_values)
    return parts


def _judgement(node: NodeName, judged: Sequence[Eligibility]) -> tuple[tuple[bool, ...], Vector]:
    eligible = tuple([node not in each.rejected for each in judged])
    return eligible, tuple([each.cost.get(node, 0) for each in judged])


def _sorted(left: Vector, right: Sequence[int]) -> Vector:
    return tuple(sorted([*left, *right])) if right else left


class ClassTableCache:
    """The tables that were given back last. Who takes one has it alone; one that is never given back is lost.

    So an error in the middle of a change costs a table and spoils none.
    """

    def __init__(self, kept: int = CLASS_TABLES_KEPT) -> None:
        self._kept = kept
        self._known: dict[Hashable, ClassTable] = {}

    def __len__(self) -> int:
        return len(self._known)

    def take(self, session: Session, class_spec: NodeClassSpec, node_order: NodeOrder) -> ClassTable:
        """The table of a session through a lens that `is_cacheable`."""
        table = self._known.pop(class_spec.key, None)
        if table is None:
            return ClassTable(session, class_spec, node_order)
        table.take_up(session, class_spec, node_order)
        return table

    def give_back(self, class_spec: NodeClassSpec, table: ClassTable) -> None:
        """Nobody uses it any more in this session, which it forgets."""
        table.leave()
        self._known[class_spec.key] = table
        if len(self._known) > self._kept:
            del self._known[next(iter(self._known))]


def is_cacheable(session: Session, class_spec: NodeClassSpec) -> bool:
    """Whether another session can take up a table through this lens."""
    return (
        class_spec.ties is Objective.PACK
        and not class_spec.stamps
        and projection_for(session, class_spec.pods).are_plain
    )
