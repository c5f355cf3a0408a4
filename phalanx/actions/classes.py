"""Nodes as classes: the one place where the key is made that says which nodes are the same to a problem.

The key holds the domain path down to the level that matters, eligibility and price per batch, the budgets
that count the node, and the free amounts of the resources that the batches ask for, each capped at what the
batches could use on that node at most. Odd bytes of memory and different host names disappear in it, and so
do devices of which the batches can use the same: shares are counted as pieces (`shares.py`).

A table lives as long as its session. It follows the session's log of changed nodes, so that gangs of one
demand in a row cost what changed between them and not the number of nodes.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from msgspec import Struct

from phalanx.actions.frame import Frame
from phalanx.actions.fullness import Fullness
from phalanx.actions.shares import amounts_of, free_amounts, share_lens
from phalanx.actions.useful import Vector, useful_amounts
from phalanx.framework.eligibility import Eligibility
from phalanx.framework.session import Session
from phalanx.framework.topology import Path
from phalanx.model.names import NodeName, ShapeKey
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources
from phalanx.solver.problem import NodeClass

ClassKey = tuple[Path, tuple[bool, ...], Vector, Vector, Vector]
Entry = tuple[Vector, NodeName]


class Lens(Struct, frozen=True):
    """What makes two nodes differ: a pod of each batch, how many of them a node could take, and the frame.

    `avoided` nodes are not there at all.
    """

    pods: tuple[Pod, ...]
    at_most: Vector
    frame: Frame
    avoided: frozenset[NodeName] = frozenset()

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for lenses that see the same."""
        shapes: tuple[ShapeKey, ...] = tuple(pod.shape.key for pod in self.pods)
        topology = self.frame.topology.name if self.frame.topology else None
        return (shapes, self.at_most, topology, len(self.frame.levels), self.frame.scopes, self.avoided)


def asked_for(requests: Iterable[Resources]) -> tuple[str, ...]:
    """The resources that are asked for, in order of their names."""
    return tuple(sorted({name for each in requests for name, need in each.items() if need > 0}))


def request_vectors(requests: Iterable[Resources], resources: Sequence[str]) -> tuple[Vector, ...]:
    """Each of these requests in the order of the resources."""
    return tuple(tuple([each.get(name, 0) for name in resources]) for each in requests)


class ClassTable:
    """All nodes of a session through one lens."""

    def __init__(self, session: Session, lens: Lens, fullness: Fullness) -> None:
        shares = share_lens(lens.pods)
        asked = amounts_of(lens.pods, shares)
        self.resources = asked_for(asked)
        self.requests = request_vectors(asked, self.resources)
        self._session = session
        self._free = free_amounts(session, shares)
        self._fullness = fullness
        self._useful = useful_amounts(self.resources, self.requests, lens.at_most)
        judged = [session.eligibility(pod) for pod in lens.pods]
        parts = static_parts(session, judged, lens.frame)
        avoided = lens.avoided
        self._static = {node: part for node, part in parts.items() if True in part[1] and node not in avoided}
        self._seats: dict[NodeName, tuple[ClassKey, Entry]] = {}
        self._members: dict[ClassKey, list[Entry]] = {}
        self._made: dict[ClassKey, NodeClass] = {}
        self._most = 0
        self._followed = len(session.changed_nodes)
        for node in self._static:
            self._seat(node)
        self._order = sorted(self._members)
        for members in self._members.values():
            members.sort()

    def classes(self, most: int) -> tuple[NodeClass, ...]:
        """The classes now, in the order of their keys, each with at most `most` nodes."""
        if most != self._most:
            self._made.clear()
            self._most = most
        self._follow()
        return tuple([self._made.get(key) or self._make(key) for key in self._order])

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
        path, eligible, price, budgets = self._static[node]
        free = self._useful(eligible, self._free(node))
        if free is None:
            return None
        key = (path, eligible, price, budgets, free)
        entry = (self._fullness.of(node), node)
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
        path, eligible, price, budgets, free = key
        made = NodeClass(
            path=path,
            free=free,
            eligible=eligible,
            price=price,
            nodes=tuple([node for _, node in self._members[key][: self._most]]),
            budgets=budgets,
        )
        self._made[key] = made
        return made


StaticPart = tuple[Path, tuple[bool, ...], Vector, Vector]


def static_parts(session: Session, judged: Sequence[Eligibility], frame: Frame) -> dict[NodeName, StaticPart]:
    """The part of each node's key that placing does not change: path, eligibility, price and budgets."""
    paths = session.topologies.paths(frame.topology) if frame.topology and frame.levels else {}
    scoped = [(index, nodes) for index, nodes in enumerate(frame.scopes) if nodes is not None]
    everywhere = tuple(index for index, nodes in enumerate(frame.scopes) if nodes is None)
    special = {node for each in judged for marked in (each.rejected, each.price) for node in marked}
    plain = (tuple([True] * len(judged)), tuple([0] * len(judged)))
    parts: dict[NodeName, StaticPart] = {}
    for node in session.nodes:
        eligible, price = plain if node not in special else _judgement(node, judged)
        budgets = _sorted(everywhere, [index for index, nodes in scoped if node in nodes])
        parts[node] = (paths.get(node, ())[: len(frame.levels)], eligible, price, budgets)
    return parts


def _judgement(node: NodeName, judged: Sequence[Eligibility]) -> tuple[tuple[bool, ...], Vector]:
    eligible = tuple([node not in each.rejected for each in judged])
    return eligible, tuple([each.price.get(node, 0) for each in judged])


def _sorted(left: Vector, right: Sequence[int]) -> Vector:
    return tuple(sorted([*left, *right])) if right else left
