"""Checks right before a write: whether a placement or an eviction is still valid by the newest state."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from phalanx.cache.cache import Cache
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.nodes.spread import SpreadDomains, counted_nodes, counts_by_domain, spread_keys
from phalanx.framework.nodes.tolerations import is_lost_with
from phalanx.framework.overriders import Overriders
from phalanx.framework.pod_view import PodClasses
from phalanx.framework.registry import declared_reads, plugin_classes
from phalanx.framework.session import Session
from phalanx.framework.session_cache import SessionCache
from phalanx.limits import CHECKED_NODES_KEPT
from phalanx.model import named_parts
from phalanx.model.counted_nodes import CountedNodes
from phalanx.model.decisions import Bind, Evict, EvictionReason, Placement
from phalanx.model.gangs import NO_POD_GROUP
from phalanx.model.names import NodeName, ShapeKey
from phalanx.model.nodes import Node, NodeState
from phalanx.model.pods import MountedClaim, Pod, SpreadConstraint
from phalanx.model.resources import NONE, Resources, subtract, sum_of
from phalanx.model.supplies.known import offered_of, shortage, supplies_with

_SPREAD_DOMAINS_KEPT: Final = 64
"""Spread constraints whose domains are remembered for checks before binds: a few bytes per node each."""

SpreadCounts = dict[tuple[SpreadConstraint, CountedNodes], Mapping[str, int]]
"""The counted pods by domain, while the cache stays as it is."""


class SpreadCheck:
    """Counts the pods of the cache, in which the pods of a placement are assumed."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._nodes: Mapping[str, Node] = {}
        """The nodes for which the domains are known."""
        self._domains = SpreadDomains(tuple)

    def objection(self, pod: Pod, known: SpreadCounts) -> str | None:
        """Return the first constraint that the pod violates on its node.

        `known` is filled with the counts. It may be passed again until the cache changes.
        """
        for constraint in pod.shape.spread:
            skew = self._skew(pod, constraint, known)
            if skew > constraint.max_skew:
                key = constraint.term.topology_key
                return f"topology spread by {key}: maxSkew {constraint.max_skew} would be {skew}"
        return None

    def _skew(self, pod: Pod, constraint: SpreadConstraint, known: SpreadCounts) -> int:
        keys = spread_keys(pod.shape.spread)
        domains = self._current().of(pod.shape, constraint, keys)
        key = (constraint, counted_nodes(pod.shape, constraint, keys))
        counts = known.get(key)
        if counts is None:
            counts = counts_by_domain(domains, self._cache.spread_counts(constraint.term))
            known[key] = counts
        value = domains.get(pod.node) if pod.node is not None else None
        least = min(counts.values(), default=0) if len(counts) >= constraint.min_domains else 0
        return 0 if value is None else counts[value] - least

    def _current(self) -> SpreadDomains:
        """The domains over the nodes of the cache now."""
        nodes = self._cache.nodes()
        if nodes is not self._nodes or len(self._domains) > _SPREAD_DOMAINS_KEPT:
            self._nodes, self._domains = nodes, SpreadDomains(nodes.values)
        return self._domains


_REASONS_OF_FAULTS: Final = frozenset(
    {EvictionReason.GANG_INCOMPLETE, EvictionReason.GANG_RESTARTED, EvictionReason.MEMBER_REPLACED}
)


_PodClass = tuple[ShapeKey, tuple[MountedClaim, ...]]


class _Rejection(Struct, frozen=True):
    """Why the filters reject a node for a class of pods, None where they accept it, and until when (ms)."""

    reason: str | None
    until: int | None


class CachePlacementCheck:
    """Compares a placement with the cache, in which its pods are assumed: their requests count as used.

    Nodes are checked by the filter plugins that the cycle used. The answer is kept until the node, a queue,
    a namespace or a claim changes, unless a plugin failed or has a retry key.
    """

    def __init__(self, cache: Cache, config: SchedulerConfig, now_ms: Callable[[], int] = lambda: 0) -> None:
        self._cache = cache
        self._now_ms = now_ms
        self._spread = SpreadCheck(cache)
        self._inputs: tuple[object, ...] = ()
        """The inputs of filters beside the node, when the rejections were found."""
        self.configure(config)

    def configure(self, config: SchedulerConfig) -> None:
        """Use the filter plugins of this configuration from now on."""
        self._config = config
        self._reads = declared_reads(config)
        self._supplies = supplies_with("objection")
        self._overriders = Overriders(plugin_classes(config))
        self._rejections: dict[NodeName, tuple[Node, dict[_PodClass, _Rejection]]] = {}

    def gang(self, placement: Placement) -> str | None:
        """Return the first objection to any bind: one invalid bind invalidates the whole placement."""
        counts: SpreadCounts = {}
        objections = (self._bind(placement, bind, counts) for bind in placement.binds)
        return next(filter(None, objections), None) or self._member_outside_domain(placement)

    def bind(self, placement: Placement, bind: Bind) -> str | None:
        """Check that the pod still waits for this node, may run there, and fits as decided."""
        return self._bind(placement, bind, {}) or self._cache.not_ready(bind.pod) or None

    def _bind(self, placement: Placement, bind: Bind, counts: SpreadCounts) -> str | None:
        pod = self._cache.pod(bind.pod)
        if pod is None:
            return f"pod {bind.namespace}/{bind.name} is gone"
        if not pod.assumed or pod.node != bind.node:
            return f"pod {pod} is no longer assigned to {_titled(bind.node)}"
        if pod.deleting:
            return f"pod {pod} is being deleted"
        state = self._cache.node_state(bind.node)
        if state is None:
            self._rejections.pop(bind.node, None)
            return f"{_titled(bind.node)} is gone"
        return self._node_objection(placement, pod, state, counts)

    def _node_objection(
        self, placement: Placement, pod: Pod, state: NodeState, counts: SpreadCounts
    ) -> str | None:
        name = state.node.name
        seen = self._with_fields(pod, placement) if self._reads.extends_shapes else pod
        rejected = self._rejection(seen, state)
        if rejected is not None:
            return f"{_titled(name)}: {rejected}"
        labels = {**placement.domain_labels, **placement.node_labels.get(name, {})}
        if labels and state.node.has_unknown_topology:
            return f"{_titled(name)}: its topology is unknown"
        if labels and not _has_labels(state.node, labels):
            return f"{_titled(name)} has left the domain of the placement"
        skewed = self._spread.objection(pod, counts) if pod.shape.spread else None
        if skewed is not None:
            return f"{_titled(name)}: {skewed} since the decision"
        key = self._cache.anti_affinity_conflict(pod)
        if key:
            return f"{_titled(name)}: anti-affinity of pod {pod} by {key} is violated"
        return self._cache.supply_conflict(pod, state.node) or self._too_little(placement, pod, state)

    def _too_little(self, placement: Placement, pod: Pod, state: NodeState) -> str | None:
        """Of what the node has too little since the decision."""
        name = state.node.name
        withheld = self._withheld(placement, name)
        free = subtract(state.free, withheld) if withheld else state.free
        short = self._short(pod, state.node, free)
        if short:
            return f"{_titled(name)} has insufficient {short[0]} since the decision"
        for used, _ in pod.shape.supplied:
            if free.get(used, 0) + offered_of(used) < 0:
                return f"{_titled(name)}: {shortage(used)} since the decision"
        shown = self._cache.supply_shortage(pod)
        if shown:
            return f"{_titled(name)} {shown} since the decision"
        for supply in self._supplies:
            lacking = supply.objection(pod, state, lambda: self._beside(placement, name))
            if lacking is not None:
                return f"{lacking} since the decision"
        return None

    def _short(self, pod: Pod, node: Node, free: Resources) -> list[str]:
        """The resources of which the node has less than the pod and all others there request."""
        requests = pod.shape.requests
        short = [resource for resource, amount in free.items() if amount < 0 < requests.get(resource, 0)]
        provided = self._cache.provided(pod, node) if short else ()
        return [resource for resource in short if resource not in provided]

    def _withheld(self, placement: Placement, node: NodeName) -> Resources:
        """What pods of other schedulers that are nominated to the node withhold from the gang."""
        pods = self._cache.nominated_to(node)
        gang = self._cache.gang(placement.gang) if pods else None
        if gang is None:
            return NONE
        return sum_of([each.amounts for each in pods if each.priority >= gang.priority])

    def _beside(self, placement: Placement, node: NodeName) -> list[Pod]:
        pods = [self._cache.pod(bind.pod) for bind in placement.binds if bind.node == node]
        return [pod for pod in pods if pod is not None]

    def _with_fields(self, pod: Pod, placement: Placement) -> Pod:
        gang = self._cache.gang(placement.gang)
        # a new object each time: one that is kept would remember the fields of every pod
        return PodClasses(self._reads).pod_with_fields(pod, NO_POD_GROUP if gang is None else gang.spec)

    def _rejection(self, pod: Pod, state: NodeState) -> str | None:
        name = state.node.name
        key = (pod.shape.key, pod.claims)
        inputs = self._cache.filter_inputs()
        if inputs != self._inputs:
            self._rejections.clear()
        self._inputs = inputs
        known = self._rejections.get(name)
        if known is None or known[0] is not state.node:
            if len(self._rejections) >= CHECKED_NODES_KEPT:
                self._rejections.clear()
            known = self._rejections[name] = (state.node, {})
        answer = known[1].get(key)
        if answer is None or (answer.until is not None and self._now_ms() >= answer.until):
            now = self._now_ms()
            snapshot = self._cache.node_snapshot((name,), now=now)
            session = Session(snapshot, self._config, cache=SessionCache(self._overriders))
            reason = session.eligibility(pod).rejected.get(name)
            answer = _Rejection(reason, session.hooks.valid_until(now))
            if not session.hooks.errors.messages and not session.hooks.retry_key:
                known[1][key] = answer
        return answer.reason

    def _member_outside_domain(self, placement: Placement) -> str | None:
        """Find a running member whose node has left the domain in which the placement puts the others."""
        gang = self._cache.gang(placement.gang) if placement.domain_labels else None
        for pod in gang.members if gang is not None else ():
            node = pod.node if pod.holds_node and not pod.deleting else None
            state = self._cache.node_state(node) if node is not None else None
            if state is not None and not _has_labels(state.node, placement.domain_labels):
                return f"running pod {pod} is outside the domain of the placement"
        return None


def _titled(node: NodeName) -> str:
    return named_parts.node(node, titled=True)


def _has_labels(node: Node, labels: Mapping[str, str]) -> bool:
    return all(node.labels.get(key) == value for key, value in labels.items())


class CacheEvictionCheck:
    """Compares an eviction with the cache, and with the breaker as it was in the last cycle."""

    def __init__(self, cache: Cache, breaker: Callable[[], str]) -> None:
        """`breaker` returns why the breaker is open, empty while it is closed."""
        self._cache = cache
        self._breaker = breaker

    def objection(self, eviction: Evict) -> str | None:
        """Return why the eviction is no longer valid, or None.

        Preemption continues when nodes change: after a part of a gang is evicted, the rest wastes its
        capacity. An eviction because of a fault is dropped when the fault is gone.
        """
        objection = self._gang_objection(eviction)
        if objection is None and eviction.reason in _REASONS_OF_FAULTS:
            objection = self._fault_objection(eviction)
        return objection

    def _gang_objection(self, eviction: Evict) -> str | None:
        """Check the gang: it may have finished, and the pod may belong to another gang now.

        A recreated PodGroup is another gang. A gang with another succeeded member is finishing and is left
        alone.
        """
        gang = self._cache.gang(eviction.gang) or self._cache.evictable.get(eviction.gang)
        if gang is None:
            return "its gang is gone"
        if gang.succeeded > eviction.succeeded:
            return f"gang {gang} is finishing"
        is_member = any(pod.uid == eviction.pod for pod in gang.members)
        return None if is_member else f"the pod is no longer a member of gang {gang}"

    def _fault_objection(self, eviction: Evict) -> str | None:
        """Check the fault: the breaker may have opened, or the node of the member may be ready again."""
        open_reason = self._breaker()
        if open_reason:
            return f"the breaker is open: {open_reason}"
        pod = self._cache.pod(eviction.pod)
        if eviction.reason != EvictionReason.MEMBER_REPLACED or pod is None or pod.node is None:
            return None
        state = self._cache.node_state(pod.node)
        is_lost = is_lost_with(pod, state.node if state is not None else None)
        return None if is_lost else f"node {pod.node} is available again"
