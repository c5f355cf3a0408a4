"""What one reading of the cluster says to somebody with some rights. The views are made once."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from phalanx.cli.verbs.node_faults import fault_finder
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.views.gangs import GangEntry, gang_entries
from phalanx.cli.verbs.views.nodes import NodeRow, NodesView, nodes_view
from phalanx.cli.verbs.views.queues import QueuesView, queues_view
from phalanx.cli.verbs.views.top import TopView, frame_of
from phalanx.model.workloads.known import WORKLOADS

Event = Mapping[str, Any]


class Scope(Struct, frozen=True, kw_only=True):
    """What somebody may see."""

    namespaces: frozenset[str] | None = None
    """The namespaces whose pods and gangs are shown; None for all."""
    nodes: bool = True
    queues: bool = True

    def shows(self, namespace: str) -> bool:
        """Whether its gangs may be seen."""
        return self.namespaces is None or namespace in self.namespaces


EVERYTHING = Scope()


class Facts:
    """The views of one reading. Its properties are computed on first use."""

    def __init__(self, seen: Seen, events: Sequence[Event], *, is_restricted: bool = False) -> None:
        """`is_restricted`: for somebody who may see less than what was read."""
        self.seen = seen
        self.events = events
        self.is_restricted = is_restricted

    @cached_property
    def entries(self) -> list[GangEntry]:
        """All gangs: waiting ones first, in the order of their queues."""
        return gang_entries(self.seen)

    @cached_property
    def nodes(self) -> NodesView:
        """All nodes: faulty ones first."""
        return nodes_view(self.seen, fault_finder(), resource=None)

    @cached_property
    def node_by_name(self) -> Mapping[str, NodeRow]:
        return {row.name: row for row in self.nodes.nodes}

    @cached_property
    def queues(self) -> QueuesView:
        return queues_view(self.seen, resource=None)

    @cached_property
    def frame(self) -> TopView:
        """What `phalanx top` shows."""
        rows = [entry.row for entry in self.entries]
        return frame_of(self.seen, rows, self.nodes, self.queues, self.events)


def restricted(facts: Facts, scope: Scope) -> Facts:
    """What remains of the facts for somebody with fewer rights.

    It leaves out the objects themselves, as if they had not been read, so that no view can show them.
    """
    if scope == EVERYTHING:
        return facts
    seen = facts.seen
    objects, unread, snapshot = dict(seen.objects), dict(seen.unread), seen.cluster
    partial, notes = seen.partial, list(seen.notes)
    if scope.namespaces is not None:
        for kind in ("Pod", "PodGroup", *objects.keys() & WORKLOADS.keys()):
            objects[kind] = tuple(each for each in objects.get(kind, ()) if scope.shows(_namespace(each)))
        gangs = {name: gang for name, gang in snapshot.gangs.items() if scope.shows(gang.namespace)}
        snapshot, partial = replace(snapshot, gangs=gangs), partial | {"Pod", "PodGroup"}
        notes.append("gangs of other namespaces are left out: you may not list their pods")
    if not scope.nodes:
        objects["Node"], unread["Node"] = (), "nodes are left out: you may not list them"
        snapshot = replace(snapshot, nodes={})
        notes.append(unread["Node"])
    if not scope.queues:
        objects["Queue"], unread["Queue"] = (), "queues are left out: you may not list them"
        notes.append(unread["Queue"])
    less = replace(
        seen,
        objects=objects,
        unread=unread,
        snapshot=snapshot,
        partial=partial,
        notes=tuple(notes),
    )
    events = [event for event in facts.events if scope.shows(_regarded(event))]
    return Facts(less, events, is_restricted=True)


def _namespace(each: Any) -> str:
    return str(each.metadata.namespace)


def _regarded(event: Event) -> str:
    return str((event.get("regarding") or {}).get("namespace") or "")
