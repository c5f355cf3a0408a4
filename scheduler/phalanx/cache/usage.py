"""Usage per key, updated by adding and removing. It can be recomputed from the parts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from phalanx.limits import AMOUNT_MAX
from phalanx.model.charges import charged_for
from phalanx.model.conversion.pod_groups import GangKey, is_foreign
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName, QueueName, ShapeKey
from phalanx.model.pods import ClaimCharge, Pod
from phalanx.model.resources import NONE, Resources, scale
from phalanx.model.supplies.known import pod_usage

K = TypeVar("K", bound=str)


class Ledger(Generic[K]):
    """Amounts per key. Returned mappings never change: each change builds a new one, sorted by name.

    A key whose amounts are all zero is left out. An amount above AMOUNT_MAX is stored exactly and shown as
    AMOUNT_MAX.
    """

    def __init__(self) -> None:
        self._used: dict[K, Resources] = {}
        self._capped: dict[K, Resources] = {}
        """What is shown of keys with an amount above AMOUNT_MAX."""

    def __getitem__(self, key: K) -> Resources:
        return self._capped.get(key) or self._used.get(key, NONE)

    def __iter__(self) -> Iterator[K]:
        return iter(self._used)

    def __len__(self) -> int:
        return len(self._used)

    def add(self, key: K, amounts: Resources) -> None:
        before = self._used.get(key, NONE)
        used, is_above = dict(before), key in self._capped
        for name, amount in amounts.items():
            used[name] = total = used.get(name, 0) + amount
            is_above = is_above or total > AMOUNT_MAX
        self._used[key] = used if len(used) == len(before) else dict(sorted(used.items()))
        if is_above:
            self._cap(key)

    def remove(self, key: K, amounts: Resources) -> None:
        """Subtract amounts. Raises AssertionError if an amount would be negative: it was never added."""
        used = dict(self._used.get(key, NONE))
        for name, amount in amounts.items():
            rest = used.get(name, 0) - amount
            assert rest >= 0, f"{key}: {name} would be {rest}"
            if rest:
                used[name] = rest
            else:
                used.pop(name, None)
        if used:
            self._used[key] = used
        else:
            self._used.pop(key, None)
        if key in self._capped:
            self._cap(key)

    def _cap(self, key: K) -> None:
        used = self._used.get(key, NONE)
        if any(amount > AMOUNT_MAX for amount in used.values()):
            self._capped[key] = {name: min(amount, AMOUNT_MAX) for name, amount in used.items()}
        else:
            self._capped.pop(key, None)

    def view(self) -> Mapping[K, Resources]:
        """All amounts, sorted by key."""
        return {key: self[key] for key in sorted(self._used)}


Held = dict[tuple[QueueName, NodeName, ShapeKey, tuple[ClaimCharge, ...]], tuple[int, Resources]]
"""Number of pods of one shape and the same charges that a queue has on a node, and what one of them is
charged."""


class QueueUsage:
    """A ledger per queue. Only members that name our scheduler count; other pods are foreign."""

    def __init__(self, *, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self._ledgers: dict[QueueName, Ledger[NodeName]] = {}
        self._views: dict[QueueName, Mapping[NodeName, Resources]] = {}
        self._held: dict[GangKey, Held] = {}

    def replace(self, key: GangKey, gangs: Iterable[Gang]) -> None:
        """Replace what the gangs of this key held before by what they hold now."""
        before = self._held.pop(key, {})
        held = self._count(gangs)
        if held:
            self._held[key] = held
        for at, (count, amounts) in before.items():
            if held.get(at) != (count, amounts):
                self._remove(at[0], at[1], scale(amounts, count))
        for at, (count, amounts) in held.items():
            if before.get(at) != (count, amounts):
                self._add(at[0], at[1], scale(amounts, count))

    def view(self) -> Mapping[QueueName, Mapping[NodeName, Resources]]:
        """Per queue and node, sorted. Queues without usage are left out."""
        for queue, ledger in self._ledgers.items():
            if queue not in self._views:
                self._views[queue] = ledger.view()
        return {queue: self._views[queue] for queue in sorted(self._ledgers)}

    def uses(self, queue: QueueName, node: NodeName) -> bool:
        """Whether the queue holds anything on the node."""
        return bool(self._ledgers[queue][node]) if queue in self._ledgers else False

    def _count(self, gangs: Iterable[Gang]) -> Held:
        held: Held = {}
        for gang in gangs:
            for pod in gang.members:
                if pod.node is not None and pod.scheduler_name == self._scheduler_name and pod.holds_node:
                    at = (gang.queue, pod.node, pod.shape.key, pod.charges)
                    known = held.get(at)
                    held[at] = (known[0] + 1, known[1]) if known is not None else (1, charged_for(pod))
        return held

    def _add(self, queue: QueueName, node: NodeName, amounts: Resources) -> None:
        self._ledgers.setdefault(queue, Ledger()).add(node, amounts)
        self._views.pop(queue, None)

    def _remove(self, queue: QueueName, node: NodeName, amounts: Resources) -> None:
        self._ledgers[queue].remove(node, amounts)
        self._views.pop(queue, None)
        if not self._ledgers[queue]:
            del self._ledgers[queue]


OF_NODES: Final = ("DaemonSet", "Node")
"""Controllers whose pods run as long as their node exists."""


def foreign_owner(pod: Pod, scheduler_name: str) -> str | None:
    """The controller of a pod of another scheduler, or the pod itself; None if it is not one that may end."""
    if pod.scheduler_name == scheduler_name or not is_foreign(pod, scheduler_name):
        return None
    made_by = pod.controller
    if made_by is None:
        return f"pod {pod}"
    return f"{made_by.kind} {pod.namespace}/{made_by.name}" if made_by.kind not in OF_NODES else None


class ForeignUsage:
    """A ledger per owner: a controller, or a pod without one. Pods in PodGroups of Phalanx count in gangs."""

    def __init__(self, *, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self._ledgers: dict[str, Ledger[NodeName]] = {}
        self._staying: Counter[str] = Counter()
        self._deleting: Counter[str] = Counter()
        """By owner, the pods that stay, and those that are being deleted."""
        self._views: dict[str, Mapping[NodeName, Resources]] = {}
        self._view: Mapping[str, Mapping[NodeName, Resources]] | None = {}

    def replace(self, old: Pod | None, new: Pod | None) -> None:
        """A pod was added, changed or removed."""
        before, after = self._held(old), self._held(new)
        if old is not None and before is not None:
            self._count(old, before[0], -1)
        if new is not None and after is not None:
            self._count(new, after[0], 1)
        if before == after:
            return
        if before is not None:
            owner, node, amounts = before
            self._ledgers[owner].remove(node, amounts)
            if not self._ledgers[owner]:
                del self._ledgers[owner]
            self._forget_view(owner)
        if after is not None:
            owner, node, amounts = after
            self._ledgers.setdefault(owner, Ledger()).add(node, amounts)
            self._forget_view(owner)

    def view(self) -> Mapping[str, Mapping[NodeName, Resources]]:
        """Per owner and node, sorted. It is the same mapping until something changes."""
        if self._view is None:
            for owner, ledger in self._ledgers.items():
                if owner not in self._views:
                    self._views[owner] = ledger.view()
            self._view = {owner: self._views[owner] for owner in sorted(self._ledgers)}
        return self._view

    def terminating(self) -> tuple[str, ...]:
        """The owners all of whose pods are being deleted, sorted."""
        return tuple(sorted(owner for owner in self._deleting if owner not in self._staying))

    def _count(self, pod: Pod, owner: str, change: int) -> None:
        counts = self._deleting if pod.deleting else self._staying
        counts[owner] += change
        if not counts[owner]:
            del counts[owner]

    def _forget_view(self, owner: str) -> None:
        self._views.pop(owner, None)
        self._view = None

    def _held(self, pod: Pod | None) -> tuple[str, NodeName, Resources] | None:
        if pod is None or pod.node is None or pod.scheduler_name == self._scheduler_name:
            return None
        if not pod.holds_node:
            return None
        owner = foreign_owner(pod, self._scheduler_name)
        return (owner, pod.node, pod_usage(pod)) if owner is not None else None
