"""The hooks of all plugins of one session: one method per question, asked in the configured order.

A hook that raises affects only what it was asked about. Filters, objections and rules fail closed: the pods
get no node. A gang or queue without an order is last, a cost is 0, and an eviction is not allowed. An answer
of another type than the hook declares is such an error.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final, TypeVar

from msgspec import json

from phalanx.framework.eligibility import NodeCheck
from phalanx.framework.evictable_pods import candidates, reason_to_evict
from phalanx.framework.eviction_policy import QUESTIONS, EvictionPolicy, NoEvictions
from phalanx.framework.evictions import Beneficiary, PodEvictionLimit, QueueEvictionLimit
from phalanx.framework.overriders import Overrider, Overriders
from phalanx.framework.plugin import NEVER, GangOrder, Key, NodeFilter, Plugin, overrides
from phalanx.framework.pod_view import Declarations, DeclaredReads, PluginError, PodView
from phalanx.framework.view import SessionView
from phalanx.limits import AMOUNT_MAX
from phalanx.model import overridden_methods
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.nodes import Node
from phalanx.model.pods import Pod
from phalanx.model.queues import Queue
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import PODS, Resources
from phalanx.rules.budget import Budget
from phalanx.rules.problem import Rule, RuleWords

_PLUGIN_ERRORS_MAX: Final = 100
"""Different errors of plugins that one cycle reports. A few are enough to find the mistake."""

_PLUGIN_ERROR_CHARACTERS_MAX: Final = 200
"""Characters of such an error that are reported: a message must fit into conditions and logs."""


class _Last:
    """Compares greater than every other value, whatever its type."""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return self is not other

    def __le__(self, other: object) -> bool:
        return self is other

    def __ge__(self, other: object) -> bool:
        return True


_LAST: Final = _Last()
"""The key of a gang or queue whose plugin failed to give one."""


class _PluginErrors:
    """The first error of each plugin, hook and type, in the order in which they appeared."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, str, type[Exception]], str] = {}

    @property
    def messages(self) -> tuple[str, ...]:
        """At most _PLUGIN_ERRORS_MAX of them."""
        return tuple(self._messages.values())

    def record(self, plugin: Declarations, hook: str, error: Exception) -> str:
        """Return the message of the first error of this plugin, hook and type.

        Raises the error if it is a PluginError: a plugin that breaks the protocol must be changed.
        """
        if isinstance(error, PluginError):
            raise error
        key = (plugin.name, hook, type(error))
        known = self._messages.get(key)
        if known is None:
            known = f"plugin {plugin.name} failed in {hook}: {_text_of(error)}"
            if len(self._messages) < _PLUGIN_ERRORS_MAX:
                self._messages[key] = known
        return known


def _text_of(error: Exception) -> str:
    try:
        text = repr(error)
    except Exception:
        text = type(error).__name__
    return text[:_PLUGIN_ERROR_CHARACTERS_MAX]


T = TypeVar("T")
Entry = tuple[Plugin, SessionView]
"""A plugin, and its view of the session."""

REFUSING_HOOKS: Final = ("check_gang", "node_filter", "rules")
"""Hooks whose answers may keep a gang from starting."""

_TYPES: Final[Mapping[str, Any]] = {
    "valid_until": int | None,
    "check_gang": Objection | None,
    "node_fault": str | None,
    "node_status_since": int,
    "gang_order": GangOrder,
    "eviction_policy": EvictionPolicy | None,
    "reason": str | None,
    "protected_pods": frozenset,
    "queue_limits": tuple,
    "least": dict,
    "pod_limits": tuple,
    "delayed_until": int,
    "protected_until": int,
    "eviction_rank": int,
    "eviction_cost": int,
    "bound_annotations": Mapping,
}
"""By hook, or question to an eviction policy, the type of an answer that is checked."""

_REPORT: Final = "Report the error to the author of the plugin, or disable it in the configuration"

_NOTHING: Final = {PODS: -1}
"""What a budget leaves when the rules of a gang are not known: no pod may be placed."""
_EVERYTHING: Final[Resources] = {PODS: AMOUNT_MAX}
"""More than any victims free."""


class Hooks:
    """The hooks of the plugins. Each hook asks only the plugins that override it."""

    def __init__(
        self,
        plugins: Sequence[Plugin],
        view: SessionView,
        without_time: Callable[[str], SessionView],
        overriders: Overriders,
    ) -> None:
        """`without_time`: the view for the plugin of this name, whose answers must not depend on time.

        `overriders`: those of the classes of these plugins.
        """
        self._plugins = plugins
        self._overriders = overriders
        self._view = view
        self._without_time = without_time
        self.errors = _PluginErrors()
        self._entries: dict[tuple[str, ...], list[Entry]] = {}
        self._gang_orders: dict[GangId, GangOrder] = {}
        self._objections: dict[GangId, Objection | None] = {}
        self._check_gang = self._with("check_gang")
        self._rules = self._with("rules")
        self._node_fault = self._with("node_fault")
        self._gang_order = self._with("gang_order")
        self._queue_order = self._with("queue_order", "start_order")
        self._eviction_rank = self._with("eviction_rank")
        self._eviction_cost = self._with("eviction_cost")

    def _with(self, *hooks: str) -> list[Entry]:
        """The plugins that override one of the hooks, each with the view that the first hook gets."""
        entries = self._entries.get(hooks)
        if entries is None:
            entries = self._entries[hooks] = [self._entry(found) for found in self._overriders.of(*hooks)]
        return entries

    def _entry(self, found: Overrider) -> Entry:
        plugin = self._plugins[found.position]
        return plugin, self._view if found.may_read_time else self._without_time(plugin.name)

    def _ask(self, plugin: Plugin, hook: str, default: T, *arguments: object) -> T:
        """The answer of one plugin; the default if its hook raises, which is recorded."""
        return self._asking(plugin, hook, default)(*arguments)

    def _asking(self, plugin: Plugin, hook: str, default: T) -> Callable[..., T]:
        """`_ask` for many questions to the same plugin."""
        method, expected = getattr(plugin, hook), _TYPES.get(hook, object)

        def ask(*arguments: object) -> T:
            try:
                answer: T = method(*arguments)
                if not isinstance(answer, expected):
                    raise _wrong_type(answer)
            except Exception as error:
                self.errors.record(plugin, hook, error)
                return default
            return answer

        return ask

    def _ask_each(self, hook: str) -> dict[str, Any]:
        """By plugin, the answer to a hook that is asked once a cycle; None if it raises."""
        found: dict[str, Any] = {}
        for plugin, view in self._with(hook):
            found[plugin.name] = answer = self._ask(plugin, hook, None, view)
            try:
                json.encode(answer)
            except TypeError as error:
                self.errors.record(plugin, hook, error)
                found[plugin.name] = None
        return found

    def open(self) -> None:
        """Open the session for each plugin."""
        for plugin, view in self._with("open"):
            self._ask(plugin, "open", None, view)

    # --- validity of answers --------------------------------------------------------------------------------

    @property
    def reads(self) -> DeclaredReads:
        """The declarations of all plugins."""
        return self._overriders.reads

    @cached_property
    def retry_key(self) -> tuple[object, ...]:
        """A key that changes if answers about nodes and rules may change although the cluster does not."""
        ends = self._ask_each("valid_until")
        keys = self._ask_each("retry_key")
        found = [(name, ends.get(name), keys.get(name)) for name in {**ends, **keys}]
        return tuple([entry for entry in found if entry[1:] != (None, None)])

    def valid_until(self, now: int) -> int | None:
        """The time (ms) at which the first answer about nodes and rules expires; None for never."""
        ends: Iterable[int | None] = self._ask_each("valid_until").values()
        return min((end for end in ends if end is not None and end > now), default=None)

    def wake_at(self, now: int) -> int | None:
        """The time (ms) at which the first answer so far expires; None for never."""
        ends = [self.valid_until(now)]
        ends += [objection.until for objection in self._objections.values() if objection is not None]
        return min((end for end in ends if end is not None and end > now), default=None)

    # --- gangs --------------------------------------------------------------------------------------------

    @cached_property
    def are_answers_lasting(self) -> bool:
        """Whether all plugins that may refuse a gang declare that their answers last."""
        return are_lasting(map(type, self._plugins))

    def objection(self, gang: Gang) -> Objection | None:
        """The first objection to trying this gang of the session; asked once."""
        if gang.id not in self._objections:
            self._objections[gang.id] = self.check_gang(gang)
        return self._objections[gang.id]

    def check_gang(self, gang: Gang) -> Objection | None:
        """The first objection to a gang, which may be a modified copy of a gang of the session."""
        return next(self.objections(gang), None)

    def objections(self, gang: Gang) -> Iterator[Objection]:
        """The objections of all plugins, in their order."""
        for plugin, view in self._check_gang:
            try:
                objection: Objection | None = _answer(plugin, "check_gang", gang, view)
            except Exception as error:
                objection = _failed(self.errors.record(plugin, "check_gang", error))
            if objection is not None:
                yield objection

    def rules(self, gang: Gang) -> tuple[Rule, ...]:
        """The rules that must hold for the pods of one placement of the gang now."""
        found: list[Rule] = []
        for plugin, view in self._rules:
            try:
                rules = tuple(plugin.rules(gang, view))
                if not all(isinstance(rule, Rule) and rule.is_complete for rule in rules):
                    raise _wrong_type(rules)
                found += rules
            except Exception as error:
                message = self.errors.record(plugin, "rules", error)
                words = RuleWords(message, _REPORT, (), Reason.PLUGIN_ERROR, Reason.PLUGIN_ERROR)
                found.append(Budget(message, remaining=_NOTHING, words=words))
        return tuple(found)

    # --- nodes --------------------------------------------------------------------------------------------

    def node_filters(self, pod: Pod) -> list[NodeCheck[str | None]]:
        """The filters of all plugins for pods of this class."""
        return self._node_checks("node_filter", pod, lambda message: message)

    def node_costs(self, pod: Pod) -> list[NodeCheck[int]]:
        """The costs of all plugins for pods of this class."""
        return self._node_checks("node_cost", pod, lambda message: 0)

    def _node_checks(self, hook: str, pod: Pod, instead: Callable[[str], T]) -> list[NodeCheck[T]]:
        """The checks of all plugins; `instead` gives the answer that replaces an error, by its message."""
        found: list[NodeCheck[T]] = []
        for plugin, view in self._with(hook):
            on_error = partial(self._replaced, plugin, hook, instead)
            try:
                check = _answer(plugin, hook, PodView(pod, type(plugin)), view)
            except Exception as error:
                check = _always(on_error(error))
            if check is not None:
                found.append(NodeCheck(check, on_error))
        return found

    def _replaced(self, plugin: Plugin, hook: str, instead: Callable[[str], T], error: Exception) -> T:
        return instead(self.errors.record(plugin, hook, error))

    @property
    def node_faults(self) -> list[NodeFilter]:
        """The fault checks of all plugins."""
        return [self._asking(plugin, "node_fault", None) for plugin, _ in self._node_fault]

    def node_status_since(self, faulty: Container[NodeName]) -> Callable[[Node], int]:
        """The time (s since the epoch) since which a node is faulty or healthy; 0 for unknown.

        `faulty`: the nodes in which a plugin has found a fault.
        """
        plugins = [plugin for plugin, _ in self._node_fault]
        times = [self._asking(each, "node_status_since", 0) for each in plugins]

        def since(node: Node) -> int:
            if node.name in faulty:
                faults = zip(self.node_faults, times, strict=True)
                found = [time(node) for fault, time in faults if fault(node) is not None]
                if found:
                    return min(found)
            return max([time(node) for time in times], default=0)

        return since

    # --- order --------------------------------------------------------------------------------------------

    def gang_order(self, gang: Gang) -> GangOrder:
        """Ranks and keys of all plugins, in the configured order; asked once per gang."""
        known = self._gang_orders.get(gang.id)
        if known is None:
            known = self._gang_orders[gang.id] = _joined(
                [self._ask(plugin, "gang_order", _LAST_GANG, gang, view) for plugin, view in self._gang_order]
            )
        return known

    def queue_order(self, queue: Queue, start: Beneficiary) -> tuple[Key, ...]:
        """The keys of all plugins for the queue among its siblings now, if this gang is the next to start."""
        keys: list[Key] = []
        for plugin, view in self._queue_order:
            if overrides(type(plugin), "start_order"):
                keys.append(self._ask(plugin, "start_order", _LAST, queue, start, view))
            if overrides(type(plugin), "queue_order"):
                keys.append(self._ask(plugin, "queue_order", _LAST, queue, view))
        return tuple(keys)

    # --- evictions ----------------------------------------------------------------------------------------

    @cached_property
    def _eviction_policies(self) -> list[tuple[Plugin, EvictionPolicy]]:
        found = [
            (plugin, self._ask(plugin, "eviction_policy", NoEvictions(view), view))
            for plugin, view in self._with("eviction_policy")
        ]
        return [(plugin, policy) for plugin, policy in found if policy is not None]

    @cached_property
    def _eviction_answers(self) -> Mapping[str, list[tuple[Plugin, Callable[..., Any]]]]:
        """By question, the methods of the policies that answer it."""
        return {
            question: [
                (plugin, getattr(policy, question))
                for plugin, policy in self._eviction_policies
                if overridden_methods.overrides(type(policy), question, EvictionPolicy)
            ]
            for question in QUESTIONS
        }

    def _ask_policies(self, question: str, instead: Callable[[str], T], *arguments: object) -> Iterator[T]:
        """The answers to a question about evictions; `instead` gives one for a policy that raises."""
        for plugin, method in self._eviction_answers[question]:
            try:
                answer: T = method(*arguments)
                if not isinstance(answer, _TYPES[question]):
                    raise _wrong_type(answer)
            except Exception as error:
                answer = instead(self.errors.record(plugin, f"eviction_policy.{question}", error))
            yield answer

    def may_evict(self, victim: Gang, beneficiary: Beneficiary) -> bool:
        """Whether some plugin allows the eviction."""
        return self._reason(victim, beneficiary) is not None

    def explain_eviction(self, victim: Gang, beneficiary: Beneficiary) -> str:
        """The reason of the first plugin that allows the eviction; empty if none does."""
        return self._reason(victim, beneficiary) or ""

    def _reason(self, victim: Gang, beneficiary: Beneficiary) -> str | None:
        if victim.id in self._view.evictable_pods:
            return reason_to_evict(victim, beneficiary)
        answers: Iterator[str | None] = self._ask_policies("reason", lambda _: None, victim, beneficiary)
        return next((answer for answer in answers if answer is not None), None)

    def protected_pods(self, victim: Gang, beneficiary: Beneficiary) -> frozenset[PodUid]:
        """The pods of the victim that some plugin protects from the beneficiary."""
        answers = self._ask_policies("protected_pods", lambda _: _pods_of([victim]), victim, beneficiary)
        return frozenset[PodUid]().union(*answers)

    def queue_eviction_limits(self, beneficiary: Beneficiary) -> list[QueueEvictionLimit]:
        """The limits of all plugins on evictions from queues for the beneficiary."""
        answers = self._ask_policies("queue_limits", self._no_queue, beneficiary)
        return [limit for limits in answers for limit in limits]

    def _no_queue(self, message: str) -> tuple[QueueEvictionLimit, ...]:
        return tuple(QueueEvictionLimit(queue.name, amounts={PODS: 0}) for queue in self._view.queues)

    def least_evictions(self, beneficiary: Beneficiary) -> Resources:
        """The largest of the amounts that the plugins demand; without end if one of them fails."""
        found: dict[str, int] = {}
        for amounts in self._ask_policies("least", lambda _: _EVERYTHING, beneficiary):
            for name, amount in amounts.items():
                found[name] = max(found.get(name, 0), amount)
        return found

    def pod_eviction_limits(self) -> list[PodEvictionLimit]:
        return [limit for limits in self._ask_policies("pod_limits", self._no_pod) for limit in limits]

    def _no_pod(self, message: str) -> tuple[PodEvictionLimit, ...]:
        return (PodEvictionLimit(message, pods=_pods_of(candidates(self._view)), count=0),)

    def delayed_until(self, beneficiary: Gang) -> int:
        """The time (ms) before which nothing is evicted or moved for the gang; 0 for none."""
        return max(self._ask_policies("delayed_until", lambda _: NEVER, beneficiary), default=0)

    def protected_until(self, victim: Gang, beneficiary: Gang) -> int:
        """The time (ms) before which the victim may not be evicted for the beneficiary; 0 for none."""
        return max(self._ask_policies("protected_until", lambda _: NEVER, victim, beneficiary), default=0)

    def eviction_rank(self, gang: Gang) -> tuple[int, ...]:
        """The ranks of all plugins, among gangs of one priority the lowest go first.

        A pod of another scheduler has none and goes before: it is in nobody's share.
        """
        if gang.id in self._view.evictable_pods:
            return ()
        ranking = self._eviction_rank
        return tuple([self._ask(plugin, "eviction_rank", 0, gang, view) for plugin, view in ranking])

    def eviction_cost(self, gang: Gang, pods: Sequence[Pod]) -> int:
        """The loss when these pods of the gang are evicted."""
        total = 0
        for plugin, view in self._eviction_cost:
            cost = self._ask(plugin, "eviction_cost", 0, gang, pods, view)
            if cost < 0:
                self.errors.record(plugin, "eviction_cost", ValueError(f"the cost {cost} is below 0"))
            total += max(cost, 0)
        return total

    def bound_annotations(self, gang: Gang) -> Mapping[str, str]:
        """The annotations that all plugins give to pods of the gang together with their nodes."""
        bound: dict[str, str] = {}
        for plugin, view in self._with("bound_annotations"):
            bound |= self._ask(plugin, "bound_annotations", {}, gang, view)
        return bound


_LAST_GANG: Final = GangOrder(rank=_LAST, key=_LAST)


def _pods_of(gangs: Iterable[Gang]) -> frozenset[PodUid]:
    return frozenset(pod.uid for gang in gangs for pod in gang.members)


def are_lasting(plugins: Iterable[type[Plugin]]) -> bool:
    """Whether all of these plugins that may refuse a gang declare that their answers last."""
    refusing = [each for each in plugins if any(overrides(each, hook) for hook in REFUSING_HOOKS)]
    return all(plugin.lasting_answers for plugin in refusing)


def _answer(plugin: Plugin, hook: str, *arguments: object) -> Any:
    """The answer of one plugin. Raises TypeError if it is of another type than the hook declares."""
    answer = getattr(plugin, hook)(*arguments)
    if hook in _TYPES and not isinstance(answer, _TYPES[hook]):
        raise _wrong_type(answer)
    return answer


def _wrong_type(answer: object) -> TypeError:
    return TypeError(f"the answer {answer!r} is of a wrong type")


def _always(answer: T) -> Callable[[Node], T]:
    return lambda node: answer


def _failed(message: str) -> Objection:
    return Objection(
        reason=Reason.PLUGIN_ERROR,
        message=message,
        next_step=_REPORT,
    )


def _joined(orders: Sequence[GangOrder]) -> GangOrder:
    changes = [order.changes_at for order in orders if order.changes_at is not None]
    return GangOrder(
        rank=tuple([order.rank for order in orders]),
        key=tuple([order.key for order in orders]),
        changes_at=min(changes, default=None),
    )
