"""The hooks of all plugins of one session; plugins are asked in the configured order."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Final

from phalanx.framework.evictions import Beneficiary, PodEvictionLimit, QueueEvictionLimit
from phalanx.framework.plugin import GangOrder, Key, NodeCost, NodeFilter, Plugin, overrides
from phalanx.framework.pod_view import DeclaredReads, PodView, declared_reads
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId
from phalanx.model.nodes import Node
from phalanx.model.pods import Pod
from phalanx.model.queues import Queue
from phalanx.model.reasons import Objection
from phalanx.model.rules import Rule

Entry = tuple[Plugin, SessionView]
"""A plugin, and its view of the session."""

LASTING_HOOKS: Final = ("node_filter", "node_cost", "rules")
"""Hooks whose answers refusals depend on. They hold until `valid_until`."""


class Hooks:
    """The hooks of the plugins. Each hook asks only the plugins that override it."""

    def __init__(
        self, plugins: Sequence[Plugin], view: SessionView, without_time: Callable[[str], SessionView]
    ) -> None:
        """`without_time`: the view for the plugin of this name, whose answers must not depend on time."""
        self._plugins = plugins
        self._view = view
        self._without_time = without_time
        self._gang_orders: dict[GangId, GangOrder] = {}
        self._objections: dict[GangId, Objection | None] = {}
        self._check_gang = self._with("check_gang")
        self._rules = self._with("rules")
        self._node_fault = self._with("node_fault")
        self._gang_order = self._with("gang_order")
        self._queue_order = self._with("queue_order")
        self._may_evict = self._with("may_evict")
        self._protected_until = self._with("protected_until")
        self._eviction_cost = self._with("eviction_cost")

    def _with(self, hook: str) -> list[Entry]:
        """The plugins that override the hook, each with the view that the hook gets."""
        return [
            (plugin, self._without_time(plugin.name) if _may_not_read_time(plugin, hook) else self._view)
            for plugin in self._plugins
            if overrides(type(plugin), hook)
        ]

    def open(self) -> None:
        """Open the session for each plugin."""
        for plugin, view in self._with("open"):
            plugin.open(view)

    # --- validity of answers --------------------------------------------------------------------------------

    @cached_property
    def reads(self) -> DeclaredReads:
        """The declarations of all plugins."""
        return declared_reads([type(plugin) for plugin in self._plugins])

    @cached_property
    def retry_key(self) -> tuple[object, ...]:
        """A key that changes if answers about nodes and rules may change although the cluster does not."""
        ends = {plugin.name: plugin.valid_until(view) for plugin, view in self._with("valid_until")}
        keys = {plugin.name: plugin.retry_key(view) for plugin, view in self._with("retry_key")}
        found = [(name, ends.get(name), keys.get(name)) for name in {**ends, **keys}]
        return tuple([entry for entry in found if entry[1:] != (None, None)])

    def valid_until(self, now: int) -> int | None:
        """The time (ms) at which the first answer about nodes and rules expires; None for never."""
        ends = [plugin.valid_until(view) for plugin, view in self._with("valid_until")]
        return min((end for end in ends if end is not None and end > now), default=None)

    def wake_at(self, now: int) -> int | None:
        """The time (ms) at which the first answer so far expires; None for never."""
        ends = [self.valid_until(now)]
        ends += [objection.until for objection in self._objections.values() if objection is not None]
        return min((end for end in ends if end is not None and end > now), default=None)

    # --- gangs --------------------------------------------------------------------------------------------

    def objection(self, gang: Gang) -> Objection | None:
        """The first objection to trying this gang of the session; asked once."""
        if gang.id not in self._objections:
            self._objections[gang.id] = self.check_gang(gang)
        return self._objections[gang.id]

    def check_gang(self, gang: Gang) -> Objection | None:
        """The first objection to a gang, which may be a modified copy of a gang of the session."""
        answers = (plugin.check_gang(gang, view) for plugin, view in self._check_gang)
        return next((objection for objection in answers if objection is not None), None)

    def rules(self, gang: Gang) -> tuple[Rule, ...]:
        """The rules that must hold for the pods of one placement of the gang now."""
        return tuple([rule for plugin, view in self._rules for rule in plugin.rules(gang, view)])

    # --- nodes --------------------------------------------------------------------------------------------

    def node_filters(self, pod: Pod) -> list[NodeFilter]:
        """The filters of all plugins for pods of this class."""
        entries = self._with("node_filter")
        answers = (plugin.node_filter(PodView(pod, type(plugin)), view) for plugin, view in entries)
        return [answer for answer in answers if answer is not None]

    def node_costs(self, pod: Pod) -> list[NodeCost]:
        """The costs of all plugins for pods of this class."""
        entries = self._with("node_cost")
        answers = (plugin.node_cost(PodView(pod, type(plugin)), view) for plugin, view in entries)
        return [answer for answer in answers if answer is not None]

    @property
    def node_faults(self) -> list[NodeFilter]:
        """The fault checks of all plugins."""
        return [plugin.node_fault for plugin, _ in self._node_fault]

    def node_status_since(self, node: Node) -> int:
        """The time (s since the epoch) since which the node is faulty or healthy; 0 for unknown."""
        faulty = [plugin for plugin, _ in self._node_fault if plugin.node_fault(node) is not None]
        if faulty:
            return min(plugin.node_status_since(node) for plugin in faulty)
        return max((plugin.node_status_since(node) for plugin, _ in self._node_fault), default=0)

    # --- order --------------------------------------------------------------------------------------------

    def gang_order(self, gang: Gang) -> GangOrder:
        """Ranks and keys of all plugins, in the configured order; asked once per gang."""
        known = self._gang_orders.get(gang.id)
        if known is None:
            known = self._gang_orders[gang.id] = _joined(
                [plugin.gang_order(gang, view) for plugin, view in self._gang_order]
            )
        return known

    def queue_order(self, queue: Queue) -> tuple[Key, ...]:
        """The keys of all plugins for the queue among its siblings now."""
        return tuple([plugin.queue_order(queue, view) for plugin, view in self._queue_order])

    # --- evictions ----------------------------------------------------------------------------------------

    def may_evict(self, victim: Gang, beneficiary: Beneficiary) -> bool:
        """Whether some plugin allows the eviction."""
        return any(self._allowing(victim, beneficiary))

    def explain_eviction(self, victim: Gang, beneficiary: Beneficiary) -> str:
        """The reason of the first plugin that allows the eviction; empty if none does."""
        answers = (
            plugin.explain_eviction(victim, beneficiary, view)
            for plugin, view in self._may_evict
            if plugin.may_evict(victim, beneficiary, view)
        )
        return next(answers, "")

    def _allowing(self, victim: Gang, beneficiary: Beneficiary) -> Iterator[bool]:
        return (plugin.may_evict(victim, beneficiary, view) for plugin, view in self._may_evict)

    def queue_eviction_limits(self, beneficiary: Beneficiary) -> list[QueueEvictionLimit]:
        """The limits of all plugins on evictions from queues for the beneficiary."""
        entries = self._with("queue_eviction_limits")
        return [
            limit for plugin, view in entries for limit in plugin.queue_eviction_limits(beneficiary, view)
        ]

    def pod_eviction_limits(self) -> list[PodEvictionLimit]:
        """The limits of all plugins on evictions of pods."""
        entries = self._with("pod_eviction_limits")
        return [limit for plugin, view in entries for limit in plugin.pod_eviction_limits(view)]

    def protected_until(self, victim: Gang, beneficiary: Gang) -> int:
        """The time (ms) before which the victim may not be evicted for the beneficiary; 0 for none."""
        ends = [plugin.protected_until(victim, beneficiary, view) for plugin, view in self._protected_until]
        return max(ends, default=0)

    def eviction_cost(self, gang: Gang, pods: Sequence[Pod]) -> int:
        """The loss when these pods of the gang are evicted; at least 1, so that no eviction is free."""
        return 1 + sum([plugin.eviction_cost(gang, pods, view) for plugin, view in self._eviction_cost])


def _may_not_read_time(plugin: Plugin, hook: str) -> bool:
    """Whether an answer of the hook could change with time while refusals assume that it holds."""
    kind = type(plugin)
    lasting = any(overrides(kind, lasting_hook) for lasting_hook in LASTING_HOOKS)
    return hook in (*LASTING_HOOKS, "open") and lasting and not overrides(kind, "valid_until")


def _joined(orders: Sequence[GangOrder]) -> GangOrder:
    changes = [order.changes_at for order in orders if order.changes_at is not None]
    return GangOrder(
        rank=tuple([order.rank for order in orders]),
        key=tuple([order.key for order in orders]),
        changes_at=min(changes, default=None),
    )
