"""Conversion of queues, and the tree that they form."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Final, TypeVar

from msgspec import structs

from phalanx.limits import SHOWN_QUEUES
from phalanx.model.api.meta import LabelSelector
from phalanx.model.api.queues import Queue as WireQueue
from phalanx.model.api.queues import QueueDisruption, QueueSpec, QueueStatus, Reclaim
from phalanx.model.api.values import duration_ms, parse_time, seconds, since_epoch
from phalanx.model.conversion.nodes import read_capacity
from phalanx.model.names import DEFAULT_QUEUE, QueueName
from phalanx.model.pods import Requirement, Term
from phalanx.model.queues import (
    DEFAULT,
    Admission,
    Backfill,
    Cell,
    Flavor,
    Objective,
    Ordering,
    PastUsage,
    Queue,
    QueueState,
)
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import CPU, InvalidQuantity, capacity_amount

_QUEUE_LEVELS_MAX: Final = 32
"""Levels of the tree of queues. Orders and shares visit each of them, and call themselves for each."""


E = TypeVar("E", bound=StrEnum)


def read_queue(written: WireQueue) -> Queue:
    """Convert one queue. Its parent is the named one, whether it exists or not."""
    spec = written.spec
    problems: list[Objection] = []
    weight = spec.weight if spec.weight is not None else 1
    if weight < 1:
        problems.append(Objection(Reason.INVALID_OBJECT, f"spec.weight: {weight} is not at least 1"))
    return Queue(
        name=QueueName(written.metadata.name),
        parent=QueueName(spec.parent) if spec.parent else None,
        weight=max(weight, 1),
        priority=spec.priority or 0,
        namespace_selector=_namespaces(spec.namespace_selector, problems),
        guarantee=read_capacity(spec.guarantee, "spec.guarantee", problems),
        limit=read_capacity(spec.limit, "spec.limit", problems),
        flavors=_flavors(spec, problems),
        cells=_cells(spec, problems),
        objective=_known(Objective, spec.objective, "spec.objective", problems),
        admission=_admission(spec, problems),
        ordering=_ordering(spec, problems),
        user_label=spec.user_label or "",
        state=_known(QueueState, spec.state, "spec.state", problems) or QueueState.OPEN,
        reclaim_min_runtime_ms=_reclaim_min_runtime(spec.reclaim, problems),
        preemption_delay_ms=_duration(spec.preemption_delay, "spec.preemptionDelay", problems) or 0,
        max_min_runtime_ms=_max_min_runtime(spec.disruption, problems),
        allow_non_preemptible=spec.disruption.allow_non_preemptible if spec.disruption is not None else None,
        max_pod_group_priority=spec.max_pod_group_priority,
        allow_start_by=spec.allow_start_by,
        preflight_containers=spec.preflight_containers,
        backfill=_known(Backfill, spec.backfill, "spec.backfill", problems),
        past=_past(written.status),
        created=seconds(written.metadata.creation_timestamp),
        uid=written.metadata.uid or "",
        problems=tuple(problems),
    )


def _past(status: QueueStatus) -> PastUsage | None:
    """The past usage that this scheduler or an earlier one wrote. Invalid values are left out."""
    at = parse_time(status.average_use_at or "")
    if at is None:
        return None
    amounts: dict[str, int] = {}
    for name, quantity in sorted(status.average_use.items()):
        with suppress(InvalidQuantity):
            amounts[name] = capacity_amount(CPU, quantity)
    return PastUsage(amounts, since_epoch(at) * 1000)


def _flavors(spec: QueueSpec, problems: list[Objection]) -> tuple[Flavor, ...]:
    return tuple(
        Flavor(
            name=flavor.name,
            node_selector=tuple(sorted(flavor.node_selector.items())),
            guarantee=read_capacity(flavor.guarantee, f"spec.flavors[{flavor.name}].guarantee", problems),
            limit=read_capacity(flavor.limit, f"spec.flavors[{flavor.name}].limit", problems),
        )
        for flavor in spec.flavors
    )


def _cells(spec: QueueSpec, problems: list[Objection]) -> tuple[Cell, ...]:
    for cell in spec.cells:
        if cell.count < 1:
            message = f"spec.cells[{cell.level}].count: {cell.count} is not at least 1"
            problems.append(Objection(Reason.INVALID_OBJECT, message))
    return tuple(Cell(cell.level, cell.count, cell.topology or "") for cell in spec.cells if cell.count >= 1)


def _ordering(spec: QueueSpec, problems: list[Objection]) -> Ordering:
    ordering = _known(Ordering, spec.ordering, "spec.ordering", problems) or Ordering.PRIORITY_FIFO
    if ordering is Ordering.FAIR_USERS and not spec.user_label:
        message = "spec.userLabel: ordering FairUsers needs it, the label that names the user"
        problems.append(Objection(Reason.INVALID_OBJECT, message))
    return ordering


def _admission(spec: QueueSpec, problems: list[Objection]) -> Admission | None:
    admission = _known(Admission, spec.admission, "spec.admission", problems)
    if admission is Admission.MOST_VALUE and spec.ordering not in (None, Ordering.PRIORITY_FIFO):
        message = "spec.admission: MostValue needs ordering PriorityFIFO"
        problems.append(Objection(Reason.INVALID_OBJECT, message))
    return admission


def _known(kind: type[E], written: str | None, path: str, problems: list[Objection]) -> E | None:
    """The value as `kind`. None without a value, and for an invalid one."""
    known = {str(value): value for value in kind}
    if written and written not in known:
        message = f"{path}: {written!r} is none of {', '.join(known)}"
        problems.append(Objection(Reason.INVALID_OBJECT, message))
    return known.get(written) if written else None


def _reclaim_min_runtime(written: Reclaim | None, problems: list[Objection]) -> int:
    text = written.min_runtime if written is not None else None
    return _duration(text, "spec.reclaim.minRuntime", problems) or 0


def _max_min_runtime(written: QueueDisruption | None, problems: list[Objection]) -> int | None:
    """None if nothing is set. A value that is not a duration allows nothing."""
    text = written.max_min_runtime if written is not None else None
    return None if text is None else _duration(text, "spec.disruption.maxMinRuntime", problems) or 0


def _duration(text: str | None, path: str, problems: list[Objection]) -> int | None:
    """Milliseconds; None without a text, and for an invalid one."""
    runtime = duration_ms(text) if text is not None else None
    if text is not None and runtime is None:
        message = f"{path}: expected a duration such as 1h30m"
        problems.append(Objection(Reason.INVALID_OBJECT, message))
    return runtime


def _namespaces(selector: LabelSelector | None, problems: list[Objection]) -> Term | None:
    """None if all namespaces may submit: without a selector, and with an empty one."""
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return None
    requirements = [
        Requirement(key=key, operator="In", values=(value,))
        for key, value in sorted(selector.match_labels.items())
    ]
    for index, expression in enumerate(selector.match_expressions):
        if expression.operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            path = f"spec.namespaceSelector.matchExpressions[{index}].operator"
            problems.append(
                Objection(Reason.INVALID_OBJECT, f"{path}: {expression.operator!r} is not a valid operator")
            )
        requirements.append(
            Requirement(key=expression.key, operator=expression.operator, values=expression.values)
        )
    return Term(requirements=tuple(requirements))


def queue_tree(queues: Iterable[Queue]) -> Mapping[QueueName, Queue]:
    """All queues by name, including `default`, sorted by name.

    A queue whose parent does not exist, each queue of a cycle, and each below _QUEUE_LEVELS_MAX others, loses
    its parent and gets an error.
    """
    by_name = {DEFAULT_QUEUE: DEFAULT, **{queue.name: queue for queue in queues}}
    cycles = _cycle_lengths(by_name)
    rooted = {name: _rooted(by_name[name], by_name, cycles) for name in sorted(by_name)}
    text = f"spec.parent: expected at most {_QUEUE_LEVELS_MAX} levels of queues"
    return rooted | {name: _cut(rooted[name], text) for name in _too_deep(rooted)}


def _too_deep(rooted: Mapping[QueueName, Queue]) -> list[QueueName]:
    """The queues below _QUEUE_LEVELS_MAX others, and again after as many levels."""
    levels: dict[QueueName, int] = {}
    for start in rooted:
        path: list[QueueName] = []
        name: QueueName | None = start
        while name is not None and name not in levels and len(path) < len(rooted):
            path.append(name)
            name = rooted[name].parent
        level = levels.get(name, 0) if name is not None else 0
        for inner in reversed(path):
            level = levels[inner] = level + 1
    return [name for name, level in levels.items() if level > 1 and level % _QUEUE_LEVELS_MAX == 1]


def _rooted(queue: Queue, by_name: Mapping[QueueName, Queue], cycles: Mapping[QueueName, int]) -> Queue:
    if queue.parent is None:
        return queue
    if queue.parent not in by_name:
        return _cut(queue, f"spec.parent: no Queue {queue.parent!r} exists")
    if queue.name in cycles:
        way = _listed(queue, by_name, cycles[queue.name])
        return _cut(queue, f"spec.parent: the queue is its own ancestor, by way of {way}")
    return queue


def _cycle_lengths(by_name: Mapping[QueueName, Queue]) -> Mapping[QueueName, int]:
    """By queue of a cycle, the number of queues of the cycle. Visits each queue once."""
    lengths: dict[QueueName, int] = {}
    visited: set[QueueName] = set()
    for start in by_name:
        path: list[QueueName] = []
        name: QueueName | None = start
        while name is not None and name in by_name and name not in visited:
            visited.add(name)
            path.append(name)
            name = by_name[name].parent
        if name in path:
            cycle = path[path.index(name) :]
            lengths |= dict.fromkeys(cycle, len(cycle))
    return lengths


def _listed(queue: Queue, by_name: Mapping[QueueName, Queue], length: int) -> str:
    """The first SHOWN_QUEUES ancestors of a queue of a cycle, which ends with the queue itself."""
    names: list[QueueName] = []
    while queue.parent is not None and len(names) < min(length, SHOWN_QUEUES):
        names.append(queue.parent)
        queue = by_name[queue.parent]
    more = length - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _cut(queue: Queue, message: str) -> Queue:
    problem = Objection(Reason.QUEUE_INVALID, message)
    return structs.replace(queue, parent=None, problems=(*queue.problems, problem))
