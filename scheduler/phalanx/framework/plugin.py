"""The base class of all plugins: the hooks, what a plugin declares, and the answers it gives.

A plugin overrides the hooks that it needs. It answers questions and never changes anything: actions act on
the answers. A new plugin object is made for each cycle, so it may keep what it computes.

A class that could be wrong in silence is refused when it is defined: a misspelt hook, a hook with other
parameters, a declaration of the wrong type, no hook at all.
"""

import inspect
from collections.abc import Hashable, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar, Final

from msgspec import Struct

from phalanx.framework.eligibility import NodeCost, NodeFilter
from phalanx.framework.evictions import Beneficiary, PodEvictionLimit, QueueEvictionLimit
from phalanx.framework.pod_view import (
    Declarations,
    PluginError,
    PodView,
    UndeclaredField,
    plain_fields,
)
from phalanx.framework.view import SessionView
from phalanx.model.api.pod_groups import PodGroupSpec
from phalanx.model.gangs import Gang
from phalanx.model.nodes import Node
from phalanx.model.pods import Pod
from phalanx.model.queues import Queue
from phalanx.model.reasons import Objection
from phalanx.model.rules import Rule

__all__ = [
    "NEVER",
    "Beneficiary",
    "GangOrder",
    "Key",
    "NodeCost",
    "NodeFilter",
    "Objection",
    "Plugin",
    "PluginError",
    "PodEvictionLimit",
    "PodView",
    "QueueEvictionLimit",
    "SessionView",
    "UndeclaredField",
]
"""All that a plugin needs of the framework, in one place."""

NEVER: Final = 1 << 62
"""Milliseconds: later than any time."""

Key = Any
"""A value that compares with other keys of the same plugin; smaller comes first."""


class GangOrder(Struct, frozen=True):
    """The place of a gang in its queue. Smaller comes first."""

    rank: Key = 0
    """Compared first: a gang of smaller rank goes before all demands of larger rank, surplus included."""
    key: Key = 0
    """Compared between gangs of equal rank and stage (repair, start, surplus)."""
    changes_at: int | None = None
    """When time alone changes the rank, in milliseconds since the epoch; None for never."""


class Plugin(Declarations):
    """Override the hooks that the policy needs. Names of other methods and attributes start with `_`."""

    Arguments: ClassVar[type[Struct] | None] = None
    """A frozen struct of the arguments in the configuration; the constructor then takes one of it."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        check_class(cls)

    # --- once a cycle -------------------------------------------------------------------------------------

    def open(self, view: SessionView) -> None:
        """Compute once a cycle what other hooks need."""

    def valid_until(self, view: SessionView) -> int | None:
        """Until when (ms since the epoch) the answers of this cycle hold; None while time changes none.

        It is about `node_filter`, `node_cost` and `rules`; other answers say it themselves. At that time a
        cycle runs and gangs that were refused are tried again. A plugin that reads `view.now` for one of
        these must override this hook.
        """
        return None

    def retry_key(self, view: SessionView) -> Hashable:
        """Whatever else these answers depend on. Gangs that were refused are tried again when it changes.

        Nodes, pods, queues, the configuration and what the plugin declares are taken into account anyway.
        The value must be one that JSON can hold.
        """
        return None

    # --- gangs --------------------------------------------------------------------------------------------

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        """Why the gang may not be tried at all, whatever is free; once per waiting gang."""
        return None

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        """What must hold for the pods of one placement together; once per attempt."""
        return ()

    # --- nodes --------------------------------------------------------------------------------------------

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        """Which nodes pods of this class may use; None for all, the cheapest answer.

        Before a bind it is asked again for the single node: the view then has no gangs and no memory.
        """
        return None

    def node_cost(self, pod: PodView, view: SessionView) -> NodeCost | None:
        """The cost of a pod of this class on each node; costs of plugins add up. None for 0 everywhere."""
        return None

    def node_fault(self, node: Node) -> str | None:
        """Why the node is faulty: it gets no new pods, and the breaker counts it. None for a healthy node."""
        return None

    def node_status_since(self, node: Node) -> int:
        """Since when, in seconds since the epoch, `node_fault` answers as it does; 0 for unknown."""
        return 0

    # --- order --------------------------------------------------------------------------------------------

    def gang_order(self, gang: Gang, view: SessionView) -> GangOrder:
        """The place of the gang in its queue; answers of several plugins compare in the configured order."""
        return GangOrder()

    def queue_order(self, queue: Queue, view: SessionView) -> Key:
        """The place of the queue among its siblings; it may depend on the use of this queue only."""
        return 0

    # --- evictions ----------------------------------------------------------------------------------------

    def may_evict(self, victim: Gang, beneficiary: Beneficiary, view: SessionView) -> bool:
        """Whether the victim may be evicted for the beneficiary; one plugin that allows it is enough."""
        return False

    def explain_eviction(self, victim: Gang, beneficiary: Beneficiary, view: SessionView) -> str:
        """Why this plugin allows the eviction, for the victim's event."""
        return f"plugin {self.name} allows it"

    def queue_eviction_limits(
        self, beneficiary: Beneficiary, view: SessionView
    ) -> tuple[QueueEvictionLimit, ...]:
        """How much of which queues may be evicted for the beneficiary, over all victims together."""
        return ()

    def pod_eviction_limits(self, view: SessionView) -> tuple[PodEvictionLimit, ...]:
        """How many of which pods may be evicted in all; once per cycle that looks for victims."""
        return ()

    def protected_until(self, victim: Gang, beneficiary: Gang, view: SessionView) -> int:
        """Until when (ms) the victim may not be evicted for the beneficiary: 0 for now, NEVER for never."""
        return 0

    def eviction_cost(self, gang: Gang, pods: Sequence[Pod], view: SessionView) -> int:
        """The loss when these pods of the gang are evicted, at least 0; costs of plugins add up."""
        return 0


HOOKS: Final = tuple(
    name for name, value in vars(Plugin).items() if inspect.isfunction(value) and not name.startswith("_")
)
DECLARATIONS: Final = (
    "name",
    "Arguments",
    "pod_namespace",
    "pod_labels",
    "pod_annotations",
    "pod_group_fields",
    "node_annotations",
)


def overrides(plugin: type[Plugin], hook: str) -> bool:
    """Whether the class has a hook of its own."""
    return getattr(plugin, hook) is not getattr(Plugin, hook)


def check_class(plugin: type[Plugin]) -> None:
    """Raise PluginError for a class that breaks the protocol."""
    for name, value in vars(plugin).items():
        if name in HOOKS:
            _check_parameters(plugin, name, value)
        elif not name.startswith("_") and name not in DECLARATIONS:
            raise PluginError(f"plugin class {plugin.__qualname__}: {name} is no hook{_guess(name)}")
    if not isinstance(getattr(plugin, "name", None), str):
        raise PluginError(f"plugin class {plugin.__qualname__}: set `name` to the name in the configuration")
    for field in ("pod_labels", "pod_annotations", "pod_group_fields", "node_annotations"):
        keys = getattr(plugin, field)
        if not isinstance(keys, tuple) or not all(isinstance(key, str) for key in keys):
            raise PluginError(f"plugin {plugin.name}: {field} must be a tuple of keys, not {keys!r}")
    unknown = sorted(set(plugin.pod_group_fields).difference(plain_fields(PodGroupSpec)))
    if unknown:
        raise PluginError(
            f"plugin {plugin.name}: {unknown[0]} is no field of PodGroupSpec with a plain value"
        )
    if not any(overrides(plugin, hook) for hook in HOOKS):
        raise PluginError(f"plugin {plugin.name}: overrides no hook; hooks are {', '.join(HOOKS)}")


def _check_parameters(plugin: type[Plugin], hook: str, value: object) -> None:
    expected = list(inspect.signature(getattr(Plugin, hook)).parameters)
    found = list(inspect.signature(value).parameters) if callable(value) else []
    if found != expected:
        raise PluginError(
            f"plugin class {plugin.__qualname__}: {hook} must have the parameters ({', '.join(expected)})"
        )


def _guess(name: str) -> str:
    near = get_close_matches(name, (*HOOKS, *DECLARATIONS), n=1)
    return f"; did you mean {near[0]}?" if near else "; other names start with an underscore"
