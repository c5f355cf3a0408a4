"""The table of gangs: filtered, sorted, a part at a time."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct
from phalanx.cli.verbs.views.gangs import GangRow

from phalanx_dashboard.copies import copied
from phalanx_dashboard.facts import Facts
from phalanx_dashboard.limits import GANGS_PER_PAGE


class GangLine(Struct, frozen=True, rename="camel"):
    namespace: str
    name: str
    kind: str
    state: str
    queue: str
    position: int | None
    since: str
    reason: str
    message: str
    expected_start: str
    pods: int
    pods_running: int
    min_member: int
    priority: int
    where: str
    """The domain, or the node, or how many nodes."""
    amount: int
    """What its pods request of the shown resource."""


class GangQuery(Struct, frozen=True, kw_only=True):
    states: frozenset[str] = frozenset()
    """Empty for all."""
    queue: str = ""
    text: str = ""
    """Part of a namespace, a name, a queue or a reason, in any case."""
    sort: str = ""
    """A column; empty for waiting gangs first, in the order of their queues."""
    descending: bool = False
    offset: int = 0
    limit: int = GANGS_PER_PAGE


class GangTable(Struct, frozen=True, rename="camel"):
    resource: str
    total: int
    """All gangs."""
    matching: int
    """Those that the filter leaves."""
    offset: int
    limit: int
    states: Mapping[str, int]
    """All gangs by state."""
    queues: tuple[str, ...]
    """Queues that have gangs, for the filter."""
    gangs: tuple[GangLine, ...]


_SORTS: Final[Mapping[str, Callable[[GangRow], Any]]] = {
    "name": lambda row: (row.namespace, row.name),
    "state": lambda row: row.state.value,
    "queue": lambda row: (row.queue, row.position is None, row.position or 0),
    "since": lambda row: row.since,
    "pods": lambda row: row.pods,
    "priority": lambda row: row.priority,
    "reason": lambda row: row.reason,
}

SORTS: Final = tuple(_SORTS)


def gang_table(facts: Facts, query: GangQuery) -> GangTable:
    rows = [entry.row for entry in facts.entries]
    found = [row for row in rows if _matches(row, query)]
    order = _SORTS.get(query.sort)
    if order is not None:
        found.sort(key=order, reverse=query.descending)
    resource = facts.frame.resource
    part = found[query.offset : query.offset + query.limit]
    return GangTable(
        resource=resource,
        total=len(rows),
        matching=len(found),
        offset=query.offset,
        limit=query.limit,
        states=facts.frame.gangs,
        queues=tuple(sorted({row.queue for row in rows if row.queue})),
        gangs=tuple(line_of(row, resource) for row in part),
    )


def line_of(row: GangRow, resource: str) -> GangLine:
    return copied(GangLine, row, where=_where(row), amount=row.requests.get(resource, 0))


def _matches(row: GangRow, query: GangQuery) -> bool:
    if query.states and row.state.value not in query.states:
        return False
    if query.queue and row.queue != query.queue:
        return False
    text = query.text.casefold()
    words = (f"{row.namespace}/{row.name}", row.queue, row.reason, row.kind)
    return not text or any(text in word.casefold() for word in words)


def _where(row: GangRow) -> str:
    if row.domain:
        return row.domain
    return row.nodes[0].node if len(row.nodes) == 1 else f"{len(row.nodes)} nodes" if row.nodes else ""
