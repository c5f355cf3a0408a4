"""Queues: where a tenant's gangs wait, with limits per flavor."""

from enum import StrEnum

from msgspec import Struct

from phalanx.model.names import DEFAULT_QUEUE, QueueName
from phalanx.model.pods import Term
from phalanx.model.reasons import Problem
from phalanx.model.resources import NONE, Resources


class Objective(StrEnum):
    """Which of equally good placements is taken."""

    PACK = "Pack"
    SPREAD = "Spread"
    LARGEST_HOLE = "LargestHole"


class Backfill(StrEnum):
    """Whom nobody may delay by going first: no gang, the first in line that waits, or each that waits."""

    NONE = "None"
    EASY = "Easy"
    CONSERVATIVE = "Conservative"


class Flavor(Struct, frozen=True):
    """A part of the cluster that a queue accounts for separately: the nodes that carry these labels."""

    name: str
    node_selector: tuple[tuple[str, str], ...] = ()
    limit: Resources = NONE


class Queue(Struct, frozen=True):
    """One queue. `limit` counts over all nodes, a flavor's limit over its nodes; both include descendants.

    `namespace_selector` None allows every namespace. `problems` (cycle, unknown parent, a field that is not
    implemented yet) stop this queue's gangs and no others; a queue whose parent is unknown, or that is part
    of a cycle, has no parent, so that walking up always ends. `objective` and `backfill` None: those of its
    parent.
    """

    name: QueueName
    parent: QueueName | None = None
    weight: int = 1
    priority: int = 0
    namespace_selector: Term | None = None
    limit: Resources = NONE
    flavors: tuple[Flavor, ...] = ()
    objective: Objective | None = None
    backfill: Backfill | None = None
    problems: tuple[Problem, ...] = ()


DEFAULT = Queue(name=DEFAULT_QUEUE)
