"""What a plugin may do. A plugin is a small class with a `name` and any of the methods below.

The session finds out by the methods' names which questions a plugin answers. A new plugin object is made
for each cycle, so it may keep what it computed in `open`. Plugins never change the session: they answer,
actions act. A class attribute `Arguments` (a frozen msgspec Struct) declares what the configuration may
set; the plugin is then made with one of it, otherwise with nothing.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast, runtime_checkable

from phalanx.framework.evictions import Beneficiary, PodEvictionLimit, QueueEvictionLimit
from phalanx.model.gangs import Gang
from phalanx.model.nodes import Node
from phalanx.model.pods import Pod
from phalanx.model.queues import Queue
from phalanx.model.reasons import Objection
from phalanx.model.rules import Rule

if TYPE_CHECKING:
    from phalanx.framework.session import Session

NEVER: Final = 1 << 62
"""Milliseconds: later than anything."""

NodeFilter = Callable[[Node], str | None]
"""Why a pod may not run on this node, in words that fit behind "12 nodes: ", or None where it may."""

NodeCost = Callable[[Node], int]
"""What a pod costs on this node, >= 0, smaller is better; 100 is a strong wish."""

Key = Any
"""Anything that compares with keys of the same plugin; smaller comes first."""


@runtime_checkable
class Plugin(Protocol):
    """What all plugins have."""

    name: str


@runtime_checkable
class OpensSession(Protocol):
    """Computes once per cycle what its other methods need."""

    def open(self, session: "Session") -> None: ...


@runtime_checkable
class RefusesGangs(Protocol):
    """Says why a gang may not be tried at all, whatever is free."""

    def check_gang(self, gang: Gang, session: "Session") -> Objection | None: ...


@runtime_checkable
class FiltersNodes(Protocol):
    """Says which nodes a pod may run on. Asked once per pod shape: look only at the shape and the namespace.

    None instead of a filter means that this shape may run anywhere, which is the cheapest answer.
    """

    def node_filter(self, pod: Pod, session: "Session") -> NodeFilter | None: ...


@runtime_checkable
class JudgesNodes(Protocol):
    """Says which nodes are faulty, whoever asks: nothing new goes there, and the breaker counts them."""

    def node_fault(self, node: Node) -> str | None: ...


@runtime_checkable
class DatesFaults(JudgesNodes, Protocol):
    """Says since when (seconds since the epoch) a node is as node_fault finds it; 0 where nothing tells."""

    def node_status_since(self, node: Node) -> int: ...


@runtime_checkable
class PricesNodes(Protocol):
    """Says which nodes a pod prefers. Asked once per pod shape, as FiltersNodes is; prices add up."""

    def node_cost(self, pod: Pod, session: "Session") -> NodeCost | None: ...


@runtime_checkable
class RanksGangs(Protocol):
    """Says which gangs of a queue go before others altogether, surplus members included."""

    def gang_rank(self, gang: Gang) -> Key: ...


@runtime_checkable
class ChangesRanks(Protocol):
    """Says when (ms) time alone changes what it says of a gang's rank; None while it never will."""

    def rank_changes_at(self, gang: Gang) -> int | None: ...


@runtime_checkable
class OrdersGangs(Protocol):
    """Orders the gangs of equal rank within a queue."""

    def gang_key(self, gang: Gang) -> Key: ...


@runtime_checkable
class OrdersQueues(Protocol):
    """Orders sibling queues. The answer may depend on what the session says of this queue, not of others."""

    def queue_order(self, queue: Queue, session: "Session") -> Key: ...


@runtime_checkable
class AllowsEvictions(Protocol):
    """Says who may be evicted for whom; it is enough that one plugin says so."""

    def may_evict(self, victim: Gang, beneficiary: Beneficiary, session: "Session") -> bool: ...


@runtime_checkable
class ExplainsEvictions(AllowsEvictions, Protocol):
    """Says in words why one whom it allows to be evicted may be."""

    def explain_eviction(self, victim: Gang, beneficiary: Beneficiary, session: "Session") -> str: ...


@runtime_checkable
class KeepsFloors(Protocol):
    """Says how much may be evicted of which queues for this gang, over all its victims together."""

    def queue_eviction_limits(
        self, beneficiary: Beneficiary, session: "Session"
    ) -> tuple[QueueEvictionLimit, ...]: ...


@runtime_checkable
class LimitsEvictions(Protocol):
    """Says how many of which pods may be evicted, whoever they are evicted for."""

    def eviction_limits(self, session: "Session") -> tuple[PodEvictionLimit, ...]: ...


@runtime_checkable
class SparesGangs(Protocol):
    """Says until when (ms) a gang may not be evicted for another one; 0 when it may be, NEVER when never."""

    def protected_until(self, victim: Gang, beneficiary: Gang, session: "Session") -> int: ...


@runtime_checkable
class PricesVictims(Protocol):
    """Says what is lost when these pods of a gang are evicted, >= 0; amounts of all plugins add up."""

    def eviction_cost(self, gang: Gang, pods: Sequence[Pod], session: "Session") -> int: ...


@runtime_checkable
class MakesRules(Protocol):
    """Gives the rules that join the pods of one placement."""

    def rules(self, gang: Gang, session: "Session") -> tuple[Rule, ...]: ...


class Plugins:
    """The plugins of one session, sorted by the questions they answer, each list in the configured order."""

    def __init__(self, plugins: tuple[Plugin, ...]) -> None:
        self.openers = _those(plugins, OpensSession)
        self.checks = _those(plugins, RefusesGangs)
        self.judges = _those(plugins, JudgesNodes)
        self.daters = _those(plugins, DatesFaults)
        self.filters = _those(plugins, FiltersNodes)
        self.prices = _those(plugins, PricesNodes)
        self.ranks = _those(plugins, RanksGangs)
        self.rank_changes = _those(plugins, ChangesRanks)
        self.gang_orders = _those(plugins, OrdersGangs)
        self.queue_orders = _those(plugins, OrdersQueues)
        self.eviction_rights = _those(plugins, AllowsEvictions)
        self.floor_keepers = _those(plugins, KeepsFloors)
        self.limiters = _those(plugins, LimitsEvictions)
        self.shields = _those(plugins, SparesGangs)
        self.eviction_prices = _those(plugins, PricesVictims)
        self.rule_makers = _those(plugins, MakesRules)


P = TypeVar("P")


def _those(plugins: tuple[Plugin, ...], question: Callable[..., P]) -> list[P]:
    return [cast(P, plugin) for plugin in plugins if _answers(type(plugin), question)]


@cache
def _answers(plugin: type, question: Any) -> bool:
    """Asking a protocol takes as long as a small cycle, and a class never changes its answer."""
    return issubclass(plugin, question)
