"""The base class of all plugins: the hooks, what a plugin declares, and the answers it gives.

A plugin overrides the hooks that it needs. It answers questions and changes nothing: actions act on the
answers. A new plugin object is created for each cycle, so it may store what it computes.

A class with an error that would otherwise go unnoticed is refused when it is defined: a misspelt hook, a hook
with other parameters, a coroutine, a declaration of the wrong type, or no hook at all.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, Final

from msgspec import Struct

from phalanx.framework import class_checks
from phalanx.framework.eligibility import NodeCost, NodeFilter
from phalanx.framework.eviction_policy import NEVER, EvictionPolicy
from phalanx.framework.evictions import Beneficiary, PodEvictionLimit, QueueEvictionLimit
from phalanx.framework.pod_view import (
    Declarations,
    PluginError,
    PodView,
    UndeclaredField,
    plain_fields,
)
from phalanx.framework.view import SessionView
from phalanx.model import overridden_methods
from phalanx.model.api.pod_groups import PodGroupSpec
from phalanx.model.gangs import Gang
from phalanx.model.nodes import Node
from phalanx.model.overridden_methods import methods_of
from phalanx.model.pods import Pod
from phalanx.model.queues import Queue
from phalanx.model.reasons import Objection
from phalanx.rules.problem import Rule

__all__ = [
    "NEVER",
    "Beneficiary",
    "EvictionPolicy",
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

_NO_ANNOTATIONS: Final[Mapping[str, str]] = {}

Key = Any
"""A value that compares with other keys of the same plugin; smaller is first."""


class GangOrder(Struct, frozen=True):
    """The place of a gang in its queue; smaller is first."""

    rank: Key = 0
    """Compared first: a gang of smaller rank is tried before all demands of larger rank, surplus included."""
    key: Key = 0
    """Compared between gangs of equal rank and stage (repair, start, surplus)."""
    changes_at: int | None = None
    """The time (ms since the epoch) at which the rank changes by itself; None for never."""


class Plugin(Declarations):
    """Override the hooks that the policy needs. Names of other methods and attributes start with `_`."""

    Arguments: ClassVar[type[Struct] | None] = None
    """A frozen struct of the arguments in the configuration; the constructor then takes one of it. It must
    have `forbid_unknown_fields=True`, so that a misspelt argument is an error."""

    lasting_answers: ClassVar[bool] = False
    """Whether answers of `check_gang`, and those of `node_filter` and `rules` in an empty cluster, depend on
    no pods but those of the gang: they change only with the gang, its queues, nodes, topologies, namespaces,
    volumes, the configuration and the retry key, and at the time that the answer states.

    Gangs that such answers refuse are not looked at again before, even if pods end. In a long queue, equal
    gangs of one namespace are not asked about one by one."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        check_class(cls)

    # --- once a cycle -------------------------------------------------------------------------------------

    def open(self, view: SessionView) -> None:
        """Compute once a cycle what other hooks need; only `node_fault` is asked before."""

    def valid_until(self, view: SessionView) -> int | None:
        """The time (ms since the epoch) until which the answers hold; None if they do not depend on time.

        It applies to `node_filter`, `node_cost` and `rules`; other answers contain a time of their own. At
        that time a cycle runs and refused gangs are tried again. A plugin that reads `view.now` in one of
        these hooks must override this hook.
        """
        return None

    def retry_key(self, view: SessionView) -> Hashable:
        """What else these answers depend on. Refused gangs are tried again when the value changes.

        Changes of nodes, pods, queues, the configuration and declared fields are detected without it. The
        value must be representable in JSON.
        """
        return None

    # --- gangs --------------------------------------------------------------------------------------------

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        """The objection to trying the gang, whatever capacity is free; asked once per waiting gang.

        A plugin that reads labels or annotations of the members here or in `rules` must declare them. A
        change of a label that is not declared is not noticed, so that a refusal would remain.
        """
        return None

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        """The rules that must hold for the pods of one placement together; may be asked several times."""
        return ()

    # --- nodes --------------------------------------------------------------------------------------------

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        """A filter of the nodes that pods of this class may use; None for all, which is the cheapest answer.

        It is asked again before each bind, for the single node; the view then has no gangs and no memory.
        """
        return None

    def node_cost(self, pod: PodView, view: SessionView) -> NodeCost | None:
        """The cost of a pod of this class on each node; costs of plugins add up. None for 0 everywhere."""
        return None

    def node_fault(self, node: Node) -> str | None:
        """The fault of the node, which then gets no new pods and counts for the breaker; None if healthy.

        It is asked before `open` and without a view.
        """
        return None

    def node_status_since(self, node: Node) -> int:
        """The time (s since the epoch) since which `node_fault` has given its answer; 0 for unknown."""
        return 0

    # --- order --------------------------------------------------------------------------------------------

    def gang_order(self, gang: Gang, view: SessionView) -> GangOrder:
        """The place of the gang in its queue; answers of several plugins compare in the configured order."""
        return GangOrder()

    def queue_order(self, queue: Queue, view: SessionView) -> Key:
        """The place of the queue among its siblings; it may depend on the usage of this queue only."""
        return 0

    def start_order(self, queue: Queue, start: Beneficiary, view: SessionView) -> Key:
        """The place of the queue among its siblings if this gang of it, or of a queue below, is next.

        It is compared before `queue_order` of the same plugin. It may depend on the gang and on the usage of
        the queues from that of the gang up to this one.
        """
        return 0

    # --- evictions ----------------------------------------------------------------------------------------

    def eviction_policy(self, view: SessionView) -> EvictionPolicy | None:
        """Which gangs may be evicted for others, what is protected, and limits; None to say nothing of it."""
        return None

    def eviction_rank(self, gang: Gang, view: SessionView) -> int:
        """Among gangs of one priority those of lower ranks are evicted first; in the configured order."""
        return 0

    def eviction_cost(self, gang: Gang, pods: Sequence[Pod], view: SessionView) -> int:
        """The loss when these pods of the gang are evicted, at least 0; costs of plugins add up."""
        return 0

    # --- binds ----------------------------------------------------------------------------------------------

    def bound_annotations(self, gang: Gang, view: SessionView) -> Mapping[str, str]:
        """Annotations that pods of the gang get together with their nodes; later plugins replace equal keys.

        What Phalanx itself writes is never replaced.
        """
        return _NO_ANNOTATIONS


HOOKS: Final = methods_of(Plugin)
DECLARATIONS: Final = (
    "name",
    "Arguments",
    "lasting_answers",
    "pod_namespace",
    "pod_labels",
    "pod_annotations",
    "pod_group_fields",
    "node_annotations",
)


def overrides(plugin: type[Plugin], hook: str) -> bool:
    """Whether the class has a hook of its own."""
    return overridden_methods.overrides(plugin, hook, Plugin)


def check_class(plugin: type[Plugin]) -> None:
    """Raise PluginError for a class that breaks the protocol."""
    class_checks.check_methods(plugin, Plugin, noun="hook", declarations=DECLARATIONS)
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
    _check_arguments(plugin)


def _check_arguments(plugin: type[Plugin]) -> None:
    arguments: Any = plugin.Arguments
    if arguments is None:
        return
    is_struct = isinstance(arguments, type) and issubclass(arguments, Struct)
    if not is_struct or not arguments.__struct_config__.forbid_unknown_fields:
        raise PluginError(
            f"plugin {plugin.name}: Arguments must be a msgspec.Struct with forbid_unknown_fields=True"
        )
