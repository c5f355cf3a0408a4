"""Queues: where a tenant's gangs wait, with limits per flavor."""

from enum import StrEnum

from msgspec import Struct

from phalanx.model.names import DEFAULT_QUEUE, QueueName
from phalanx.model.pods import Term
from phalanx.model.reasons import Objection
from phalanx.model.resources import CPU, NONE, Resources


class Objective(StrEnum):
    """Which of equally good placements is taken."""

    PACK = "Pack"
    SPREAD = "Spread"
    LARGEST_HOLE = "LargestHole"
    LEAST_FRAGMENTATION = "LeastFragmentation"


class Ordering(StrEnum):
    """Who is next in a queue.

    PRIORITY_FIFO: the highest priority, then the oldest. STRICT_FIFO: the oldest, and nobody passes it.
    FAIR_USERS: the user who holds least, then as in PRIORITY_FIFO.
    """

    PRIORITY_FIFO = "PriorityFIFO"
    STRICT_FIFO = "StrictFIFO"
    FAIR_USERS = "FairUsers"


class Admission(StrEnum):
    """Which gangs start when not all find room, of those of equal rank that start at once.

    IN_ORDER: whoever comes first. MOST_VALUE: those that together take most of the cluster.
    """

    IN_ORDER = "InOrder"
    MOST_VALUE = "MostValue"


class QueueState(StrEnum):
    """HELD: work waits and none is started. CLOSED: the same, and for good. What runs goes on in both."""

    OPEN = "Open"
    HELD = "Held"
    CLOSED = "Closed"


class Backfill(StrEnum):
    """Whom nobody may delay by going first: no gang, the first in line that waits, or each that waits."""

    NONE = "None"
    EASY = "Easy"
    CONSERVATIVE = "Conservative"


class PastUsage(Struct, frozen=True):
    """What a queue and its descendants used lately on average, at this time (ms).

    In thousandths of cores, bytes and devices, so that a small share of one is not lost. `using`: what it
    used from then on, in the usual units; None when nobody knows.
    """

    amounts: Resources
    at: int
    using: Resources | None = None


def past_unit(resource: str) -> int:
    """How many thousandths one unit of the resource is."""
    return 1 if resource == CPU else 1000


Selector = tuple[tuple[str, str], ...]
"""Labels with their values, sorted, all of which a node carries."""


class Flavor(Struct, frozen=True):
    """A part of the cluster that a queue accounts for separately: the nodes that carry these labels."""

    name: str
    node_selector: Selector = ()
    limit: Resources = NONE
    guarantee: Resources = NONE


class Cell(Struct, frozen=True):
    """So many whole domains of this level that are guaranteed; `topology` empty for the default one."""

    level: str
    count: int
    topology: str = ""


class Queue(Struct, frozen=True):
    """One queue. `guarantee` and `limit` count over all nodes, a flavor's over its nodes, with descendants.

    `namespace_selector` None allows every namespace. `problems` (cycle, unknown parent, a field that is not
    implemented yet) stop this queue's gangs and no others; a queue whose parent is unknown, or that is part
    of a cycle, has no parent, so that walking up always ends. `objective`, `admission` and `backfill` None:
    those of its parent. `user_label`: the label of pods that names their user. `past`: what its status told.
    """

    name: QueueName
    parent: QueueName | None = None
    weight: int = 1
    priority: int = 0
    namespace_selector: Term | None = None
    guarantee: Resources = NONE
    limit: Resources = NONE
    flavors: tuple[Flavor, ...] = ()
    cells: tuple[Cell, ...] = ()
    objective: Objective | None = None
    admission: Admission | None = None
    ordering: Ordering = Ordering.PRIORITY_FIFO
    user_label: str = ""
    state: QueueState = QueueState.OPEN
    reclaim_min_runtime_ms: int = 0
    backfill: Backfill | None = None
    past: PastUsage | None = None
    problems: tuple[Objection, ...] = ()


DEFAULT = Queue(name=DEFAULT_QUEUE)
