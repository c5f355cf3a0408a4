"""The tree of queues with guarantee, use, share, borrowed and waiting."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from phalanx.cli.verbs.formatting import amounts, main_resource
from phalanx.cli.verbs.seen import Seen
from phalanx.model.api.queues import Queue
from phalanx.model.resources import Resources


class QueueRow(Struct, frozen=True, rename="camel"):
    """One queue. The amounts include its descendants."""

    name: str
    parent: str = ""
    """The parent as the queue names it."""
    depth: int = 0
    weight: int = 1
    state: str = "Open"
    guarantee: Resources = {}
    """As far as it can be met, if the scheduler has written it; else as it is declared."""
    limit: Resources = {}
    used: Resources = {}
    fair_share: Resources = {}
    borrowed: Resources = {}
    average_use: Resources = {}
    """The decaying average of its use; empty unless the configuration sets a half-life."""
    pending_gangs: int = 0
    pending_pods: int = 0
    problems: tuple[str, ...] = ()
    """Messages of the conditions that are False."""


class QueuesView(Struct, frozen=True, rename="camel"):
    """All queues, parents before their children."""

    resource: str
    """The resource that bars show."""
    queues: tuple[QueueRow, ...]


def queues_view(seen: Seen, *, resource: str | None, only: str | None = None) -> QueuesView:
    """All queues; `only`: one queue with its descendants."""
    queues = {queue.metadata.name: queue for queue in seen.of(Queue)}
    rows = [row for row in _tree(queues) if only is None or only in _path(row.name, queues)]
    return QueuesView(
        resource=resource or _resource(rows),
        queues=tuple(rows),
    )


def _resource(rows: list[QueueRow]) -> str:
    parts = [part for row in rows for part in (row.guarantee, row.limit, row.used, row.fair_share)]
    return main_resource(parts)


def _tree(queues: Mapping[str, Queue]) -> Iterator[QueueRow]:
    """Depth first. A queue with an unknown parent, or in a cycle, is a root."""
    children: dict[str, list[str]] = {}
    for name in sorted(queues):
        children.setdefault(_parent(name, queues), []).append(name)
    waiting = [(name, 0) for name in reversed(children.get("", []))]
    while waiting:
        name, depth = waiting.pop()
        yield _row(queues[name], depth)
        waiting += [(child, depth + 1) for child in reversed(children.get(name, []))]


def _parent(name: str, queues: Mapping[str, Queue]) -> str:
    """The parent; empty for a root. In a cycle all are roots."""
    parent = queues[name].spec.parent or ""
    if parent not in queues or name in _path(parent, queues):
        return ""
    return parent


def _path(name: str, queues: Mapping[str, Queue]) -> list[str]:
    """The queue and its ancestors, each once."""
    found: list[str] = []
    while name in queues and name not in found:
        found.append(name)
        name = queues[name].spec.parent or ""
    return found


def _row(queue: Queue, depth: int) -> QueueRow:
    spec, status = queue.spec, queue.status
    return QueueRow(
        name=queue.metadata.name,
        parent=spec.parent or "",
        depth=depth,
        weight=1 if spec.weight is None else spec.weight,
        state=spec.state or "Open",
        guarantee=amounts(status.guarantee or spec.guarantee),
        limit=amounts(spec.limit),
        used=amounts(status.allocated),
        fair_share=amounts(status.fair_share),
        borrowed=amounts(status.borrowed),
        average_use=amounts(status.average_use),
        pending_gangs=status.pending_gangs or 0,
        pending_pods=status.pending_pods or 0,
        problems=tuple(
            f"{each.reason}: {each.message}" for each in status.conditions if each.status == "False"
        ),
    )
