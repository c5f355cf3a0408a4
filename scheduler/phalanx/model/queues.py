"""Queues: quota and policies of tenants."""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct

from phalanx.limits import MAX_MIN_RUNTIME_DEFAULT_MS
from phalanx.model.names import DEFAULT_QUEUE, QueueName
from phalanx.model.pods import Term
from phalanx.model.reasons import Objection
from phalanx.model.resources import CPU, NONE, Resources
from phalanx.model.selectors import labels_match

P = TypeVar("P")


class Objective(StrEnum):
    """Which of equally good placements is used."""

    PACK = "Pack"
    SPREAD = "Spread"
    LARGEST_HOLE = "LargestHole"
    LEAST_FRAGMENTATION = "LeastFragmentation"


class Ordering(StrEnum):
    """Order of the gangs in a queue."""

    PRIORITY_FIFO = "PriorityFIFO"
    """The highest priority, then the oldest."""
    STRICT_FIFO = "StrictFIFO"
    """The oldest; no gang overtakes it."""
    FAIR_USERS = "FairUsers"
    """The user with the smallest share, then as PRIORITY_FIFO."""


class Admission(StrEnum):
    """Which gangs of equal rank start in a cycle if not all fit."""

    IN_ORDER = "InOrder"
    """The first in the order."""
    MOST_VALUE = "MostValue"
    """The set that takes most of the cluster."""


class QueueState(StrEnum):
    """Whether a queue starts gangs. Running gangs continue in every state."""

    OPEN = "Open"
    HELD = "Held"
    """Nothing is started until it is open again."""
    CLOSED = "Closed"
    """Nothing is started any more."""


class Backfill(StrEnum):
    """Which waiting gangs must not be delayed: none, the first one, or each of the first ones."""

    NONE = "None"
    EASY = "Easy"
    CONSERVATIVE = "Conservative"


class PastUsage(Struct, frozen=True):
    """Decaying average usage of a queue and its descendants."""

    amounts: Resources
    """In thousandths of cores, bytes and devices."""
    at: int
    """Milliseconds since the epoch."""
    using: Resources | None = None
    """Usage from then on, in the usual units; None if unknown."""


def past_unit(resource: str) -> int:
    """Units of PastUsage per unit of the resource."""
    return 1 if resource == CPU else 1000


Selector = tuple[tuple[str, str], ...]
"""Labels with their values, sorted; a node has all of them."""


class Flavor(Struct, frozen=True):
    """Nodes, selected by labels, for which a queue has its own quota."""

    name: str
    node_selector: Selector = ()
    limit: Resources = NONE
    guarantee: Resources = NONE


class Cell(Struct, frozen=True):
    """Guaranteed whole domains of a level."""

    level: str
    count: int
    topology: str = ""
    """Empty for the default topology."""


class Queue(Struct, frozen=True):
    """One queue. Its quota counts with all descendants."""

    name: QueueName
    parent: QueueName | None = None
    """None for a root, an unknown parent, or a member of a cycle: walking up always ends."""
    weight: int = 1
    priority: int = 0
    namespace_selector: Term | None = None
    """None allows all namespaces."""
    guarantee: Resources = NONE
    limit: Resources = NONE
    flavors: tuple[Flavor, ...] = ()
    cells: tuple[Cell, ...] = ()
    objective: Objective | None = None
    """None: that of the parent. The same holds for admission and backfill."""
    admission: Admission | None = None
    ordering: Ordering = Ordering.PRIORITY_FIFO
    user_label: str = ""
    """Label of namespaces or pods that names the user."""
    state: QueueState = QueueState.OPEN
    reclaim_min_runtime_ms: int = 0
    preemption_delay_ms: int = 0
    """For so long nothing is evicted for a gang of the queue."""
    max_min_runtime_ms: int | None = None
    """The longest `disruption.minRuntime` of a PodGroup that counts; None: see `max_min_runtime_ms`."""
    allow_non_preemptible: bool | None = None
    """Whether gangs may be not preemptible where no guarantee is named; None: that of the parent."""
    allow_start_by: bool | None = None
    """Whether a near `spec.startBy` goes before others; None: that of the parent."""
    preflight_containers: tuple[str, ...] | None = None
    """Init containers whose failure is one of the node; None: those of the parent."""
    max_pod_group_priority: int | None = None
    """PodGroups may have priorities up to this one, whatever their pods; None allows none."""
    backfill: Backfill | None = None
    past: PastUsage | None = None
    """Average usage as its status shows it."""
    created: int = 0
    """In seconds. It and the UID decide between queues that are equal in all else."""
    uid: str = ""
    problems: tuple[Objection, ...] = ()
    """Errors. They stop the gangs of this queue and no others."""

    @property
    def guaranteed_resources(self) -> frozenset[str]:
        """The resources that its guarantees name, also with 0, on all nodes or for a flavor."""
        return frozenset(self.guarantee).union(*(flavor.guarantee for flavor in self.flavors))

    def accepts(self, labels: Mapping[str, str]) -> bool:
        """Whether its selector, without those of its ancestors, selects a namespace with these labels."""
        return self.namespace_selector is None or labels_match(labels, self.namespace_selector)


DEFAULT = Queue(name=DEFAULT_QUEUE)


def max_min_runtime_ms(path: Iterable[Queue]) -> int:
    """The longest `disruption.minRuntime` (ms) that counts in a queue; `path`: it and its ancestors.

    It is the smallest value that one of them sets, or a default if none does.
    """
    written = [queue.max_min_runtime_ms for queue in path]
    return min((value for value in written if value is not None), default=MAX_MIN_RUNTIME_DEFAULT_MS)


def counted_uses(uses: Iterable[tuple[P, Collection[str]]]) -> list[tuple[P, set[str]]]:
    """Of pods in these places: the resources of which a guarantee must name one in each place.

    For a pod with devices they are its devices. For a gang without devices they are all that it uses.
    """
    known = [(place, set(names)) for place, names in uses]
    devices = [(place, found) for place, names in known if (found := {name for name in names if "/" in name})]
    everything = set[str]().union(*(names for _, names in known))
    return devices or [(place, everything) for place, _ in known]


def allows_non_preemptible(path: Iterable[Queue]) -> bool:
    """Whether the first queue of the path allows gangs that are not preemptible without a guarantee."""
    return _nearest(queue.allow_non_preemptible for queue in path)


def allows_start_by(path: Iterable[Queue]) -> bool:
    """Whether a near `spec.startBy` counts in the first queue of the path."""
    return _nearest(queue.allow_start_by for queue in path)


def preflight_containers(path: Iterable[Queue]) -> tuple[str, ...]:
    """The init containers whose failure counts as one of the node in the first queue of the path."""
    written = (queue.preflight_containers for queue in path)
    return next((names for names in written if names is not None), ())


def _nearest(written: Iterable[bool | None]) -> bool:
    """What the queue says, else its nearest ancestor that says something."""
    return next((value for value in written if value is not None), False)
