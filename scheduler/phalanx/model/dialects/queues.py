"""Queues of Volcano and KAI as those of Phalanx, for the scheduler and for `phalanx convert`.

docs/dialects/volcano.md and docs/dialects/kai.md state what becomes of each field.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.model.api.core import Quantity
from phalanx.model.api.kai import KaiQueue, KaiQueueResource, KaiQueueResources
from phalanx.model.api.meta import ObjectMeta, WrittenQuantity
from phalanx.model.api.queues import Queue as ApiQueue
from phalanx.model.api.queues import QueueSpec, Reclaim
from phalanx.model.api.values import duration_ms, duration_text
from phalanx.model.api.volcano import VolcanoQueue
from phalanx.model.conversion.nodes import read_capacity
from phalanx.model.conversion.queues import read_queue
from phalanx.model.names import API_GROUP
from phalanx.model.queues import Backfill, Queue, QueueState
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import capacity_amount
from phalanx.model.supplies.gpu_shares.devices import GPU_MEMORY, GPU_SHARE, WHOLE_DEVICE

_NEVER: Final = "999999h"
"""The longest time that a field of Phalanx holds, 114 years."""


class QueueDialectName(StrEnum):
    """API groups whose Queues may be read."""

    VOLCANO = "scheduling.volcano.sh"
    KAI = "scheduling.run.ai"


class MappedQueue(Struct, frozen=True):
    """A Queue of another project in the fields of Phalanx."""

    spec: QueueSpec
    problems: tuple[Objection, ...] = ()
    """Fields without a counterpart. They stop the gangs of the queue."""

    notes: tuple[str, ...] = ()
    """Fields that mean something else here, which stops nothing."""


class QueueDialect(Struct, frozen=True):
    """How the Queues of an API group are read."""

    name: QueueDialectName
    kind: str
    """The name of its kind in `model.api.kinds`."""

    mapped: Callable[[Any], MappedQueue]
    root: str = ""
    """The name of the queue around all others, which is none of ours."""

    def read(self, written: Any) -> Queue:
        mapped, meta = self.mapped(written), written.metadata
        queue = read_queue(ApiQueue(metadata=ObjectMeta(name=meta.name, uid=meta.uid), spec=mapped.spec))
        return replace(queue, problems=(*mapped.problems, *queue.problems))


def merged_queues(
    ours: Mapping[str, Queue], others: Mapping[QueueDialectName, Mapping[str, Queue]]
) -> Iterable[Queue]:
    """All queues. One that two API groups claim is refused: it has an error that names both."""
    found: dict[str, tuple[str, Queue]] = {name: (API_GROUP, queue) for name, queue in ours.items()}
    for group, queues in others.items():
        for name, queue in queues.items():
            if name == QUEUE_DIALECTS[group].root:
                continue
            first, claimed = found.get(name, ("", queue))
            if first:
                problem = Objection(
                    Reason.QUEUE_INVALID,
                    f"a Queue of {first} and a Queue of {group} both have this name",
                    "Delete or rename one of them",
                )
                claimed = replace(claimed, problems=(problem, *claimed.problems))
            found[name] = (first or group, claimed)
    return [queue for _, queue in found.values()]


def _unsupported(path: str, group: QueueDialectName) -> Objection:
    return Objection(
        Reason.UNSUPPORTED_FIELD,
        f"{path} of a Queue of {group} is not supported yet",
        f"Remove {path} from the Queue",
    )


def _invalid(message: str) -> Objection:
    return Objection(Reason.INVALID_OBJECT, message)


# --- Volcano ------------------------------------------------------------------------------------------------

_VOLCANO_ROOT: Final = "root"
_HIERARCHY: Final = ("volcano.sh/hierarchy", "volcano.sh/hierarchy-weights")
"""Annotations by which the plugin drf shares by a tree of its own."""

_FIFO: Final = "fifo"
"""The strategy in which no gang overtakes one that does not fit."""

_OPEN: Final = ("", "Open")
_CLOSED: Final = ("Closing", "Closed")


def _volcano(written: VolcanoQueue) -> MappedQueue:
    spec, problems = written.spec, list[Objection]()
    reserved = spec.guarantee.resource if spec.guarantee is not None else {}
    capability = _amounts(spec.capability, "spec.capability", problems)
    deserved = _amounts(spec.deserved, "spec.deserved", problems)
    reserved = _amounts(reserved, "spec.guarantee.resource", problems)
    notes = ["spec.guarantee.resource: is lent while the queue does not use it"] if reserved else []
    notes += [
        f"metadata.annotations[{key}]: is left out, spec.parent and spec.weight count"
        for key in _HIERARCHY
        if written.metadata.annotations.get(key)
    ]
    if spec.dequeue_strategy == _FIFO:
        notes.append(
            "spec.dequeueStrategy: fifo reserves a start for the first gang;"
            " gangs that do not delay it may start before it"
        )
    if spec.weight == 0:
        notes.append("spec.weight: 0 counts as 1, a share of nothing has no counterpart")
    problems += [_unsupported(path, QueueDialectName.VOLCANO) for path in _unsupported_of_volcano(written)]
    mapped = QueueSpec(
        parent=spec.parent if spec.parent not in ("", _VOLCANO_ROOT) else None,
        weight=1 if spec.weight == 0 else spec.weight,
        guarantee=_at_most(_larger(deserved, reserved), capability, notes),
        limit=capability,
        priority=spec.priority or None,
        backfill=Backfill.EASY.value if spec.dequeue_strategy == _FIFO else None,
        state=QueueState.CLOSED.value if written.status.state in _CLOSED else None,
        reclaim=Reclaim(min_runtime=_NEVER) if spec.reclaimable is False else None,
    )
    return MappedQueue(mapped, tuple(problems), tuple(notes))


def _unsupported_of_volcano(written: VolcanoQueue) -> Iterator[str]:
    spec, state = written.spec, written.status.state
    if spec.dequeue_strategy not in ("", "traverse", _FIFO):
        yield f"spec.dequeueStrategy: {spec.dequeue_strategy}"
    if spec.affinity:
        yield "spec.affinity"
    if spec.extend_clusters:
        yield "spec.extendClusters"
    if spec.type:
        yield "spec.type"
    if state not in (*_OPEN, *_CLOSED):
        yield f"status.state: {state}"
    yield from written.unknown_fields


def _amounts(
    written: Mapping[str, Quantity], path: str, problems: list[Objection]
) -> dict[str, WrittenQuantity]:
    """The valid amounts, as they are written. The errors name the field of the other project."""
    valid = read_capacity(written, path, problems)
    return {name: _text(value) for name, value in written.items() if name in valid}


def _text(value: Quantity) -> WrittenQuantity:
    return str(value) if isinstance(value, float) else value


def _larger(
    one: Mapping[str, WrittenQuantity], other: Mapping[str, WrittenQuantity]
) -> dict[str, WrittenQuantity]:
    """The larger amount of each resource."""
    found = {**other, **one}
    for name, value in other.items():
        if capacity_amount(name, value) > capacity_amount(name, found[name]):
            found[name] = value
    return found


def _at_most(
    guarantee: dict[str, WrittenQuantity], limit: Mapping[str, WrittenQuantity], notes: list[str]
) -> dict[str, WrittenQuantity]:
    """The guarantee without what the limit does not allow: the other projects do not grant it either."""
    above = {
        name: limit[name]
        for name, value in guarantee.items()
        if name in limit and capacity_amount(name, value) > capacity_amount(name, limit[name])
    }
    notes += [f"{name}: the guarantee is cut to the limit" for name in above]
    return {**guarantee, **above}


# --- KAI ----------------------------------------------------------------------------------------------------

_UNLIMITED: Final = -1
_NUMBER_MAX: Final = 10**12
"""The largest quota that counts: a million terabytes of memory, which a float holds exactly."""

_WEIGHT_MAX: Final = 65_535
"""The largest weight, as the schema of Phalanx' Queues says."""

_PRIORITY: Final = 100
"""Of a Queue that has none."""

_GPU: Final = "nvidia.com/gpu"
_BYTES_OF_MEGABYTE: Final = 10**6


def _kai(written: KaiQueue) -> MappedQueue:
    spec, problems, notes = written.spec, list[Objection](), list[str]()
    resources = spec.resources or KaiQueueResources()
    parts = {"gpu": resources.gpu, "cpu": resources.cpu, "memory": resources.memory}
    guarantee, limit = dict[str, WrittenQuantity](), dict[str, WrittenQuantity]()
    for name, part in parts.items():
        path = f"spec.resources.{name}"
        wrong = [
            *_wrong_number(part.quota, f"{path}.quota", name),
            *_wrong_number(part.limit, f"{path}.limit", name),
        ]
        problems += map(_invalid, wrong)
        if wrong:
            continue
        if part.limit != _UNLIMITED:
            limit.update(_amounts_of_kai(name, part.limit))
        if part.quota == part.limit == _UNLIMITED:
            notes.append(f"{path}.quota: -1 guarantees nothing, the queue has its share by weight")
        counted = part.limit if part.quota == _UNLIMITED else part.quota
        if counted != _UNLIMITED:
            guarantee.update(_guaranteed(name, counted))
    if parts["gpu"].quota > 0 or parts["gpu"].limit > 0:
        notes.append(
            "spec.resources.gpu: whole GPUs and shares of GPUs are counted apart, each up to the limit;"
            " a whole quota guarantees no shares"
        )
    weight = _weight(parts, problems, notes)
    reclaim = _duration(spec.reclaim_min_runtime, "spec.reclaimMinRuntime", problems)
    preempt = _duration(spec.preempt_min_runtime, "spec.preemptMinRuntime", problems)
    if preempt:
        notes.append("spec.preemptMinRuntime: is left out; PodGroups may ask for disruption.minRuntime")
    notes += [f"{path}: is left out, all of the quota is lent" for path in _lending_limits(parts)]
    problems += [_unsupported(path, QueueDialectName.KAI) for path in written.unknown_fields]
    mapped = QueueSpec(
        parent=spec.parent_queue or None,
        weight=weight,
        guarantee=_at_most(guarantee, limit, notes),
        limit=limit,
        priority=_PRIORITY if spec.priority is None else spec.priority,
        reclaim=Reclaim(min_runtime=duration_text(reclaim)) if reclaim else None,
    )
    return MappedQueue(mapped, tuple(problems), tuple(notes))


def _wrong_number(written: float, path: str, name: str) -> Iterator[str]:
    """Parts of a GPU are shares of it; parts of other units are none."""
    if written == _UNLIMITED or (0 <= written <= _NUMBER_MAX and (name == "gpu" or written == int(written))):
        return
    whole = "number" if name == "gpu" else "whole number"
    yield f"{path}: expected -1 or a {whole} up to {_NUMBER_MAX}, found {written:g}"


def _amounts_of_kai(name: str, number: float) -> dict[str, WrittenQuantity]:
    """The resources and the amounts of a number in the units of KAI."""
    if name == "cpu":
        return {"cpu": f"{int(number)}m"}
    if name == "memory":
        return {"memory": int(number) * _BYTES_OF_MEGABYTE}
    shares: dict[str, WrittenQuantity] = {GPU_SHARE: int(number * WHOLE_DEVICE)}
    return {_GPU: int(number), **shares, **({GPU_MEMORY: 0} if number == 0 else {})}


def _guaranteed(name: str, number: float) -> dict[str, WrittenQuantity]:
    """Whole GPUs guarantee no shares: few nodes offer both, and what nobody offers cannot be guaranteed."""
    found = _amounts_of_kai(name, number)
    return {_GPU: found[_GPU]} if name == "gpu" and number >= 1 and number == int(number) else found


def _weight(parts: Mapping[str, KaiQueueResource], problems: list[Objection], notes: list[str]) -> int | None:
    """The weight of the resources of which the queue may use more than its quota; that of GPUs goes first."""
    weights = {
        name: part.over_quota_weight
        for name, part in parts.items()
        if part.quota != _UNLIMITED and (part.limit == _UNLIMITED or part.limit > part.quota)
    }
    weight = next(iter(weights.values()), 1)
    if len(set(weights.values())) > 1:
        shown = ", ".join(f"{name} {weight:g}" for name, weight in weights.items())
        notes.append(f"spec.resources: overQuotaWeight {weight:g} counts for all resources, found {shown}")
    if weight == 0:
        notes.append("spec.resources: overQuotaWeight 0 counts as 1, a share of nothing has no counterpart")
        return 1
    if not 0 < weight <= _WEIGHT_MAX:
        expected = f"an overQuotaWeight up to {_WEIGHT_MAX}"
        problems.append(_invalid(f"spec.resources: expected {expected}, found {weight:g}"))
        return None
    whole = max(round(weight), 1)
    if whole != weight:
        notes.append(f"spec.resources: overQuotaWeight {weight:g} counts as {whole}, a whole number")
    return whole


def _lending_limits(parts: Mapping[str, KaiQueueResource]) -> Iterator[str]:
    """A bound on what is lent, unless it is all of the quota."""
    for name, part in parts.items():
        if part.lending_limit is not None and not 0 <= part.quota <= part.lending_limit:
            yield f"spec.resources.{name}.lendingLimit"


def _duration(text: str | None, path: str, problems: list[Objection]) -> int:
    """Milliseconds; 0 without a duration."""
    found = duration_ms(text) if text else 0
    if found is None:
        problems.append(_invalid(f"{path}: expected a duration such as 1h30m, found {text}"))
    return found or 0


QUEUE_DIALECTS: Final[Mapping[QueueDialectName, QueueDialect]] = {
    dialect.name: dialect
    for dialect in (
        QueueDialect(QueueDialectName.VOLCANO, VolcanoQueue.__name__, _volcano, root=_VOLCANO_ROOT),
        QueueDialect(QueueDialectName.KAI, KaiQueue.__name__, _kai),
    )
}
"""By API group."""
