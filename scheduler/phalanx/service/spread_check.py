"""Check right before a bind: whether the spread constraints of a pod still hold where it is assumed."""

from collections.abc import Mapping

from phalanx.cache.cache import Cache
from phalanx.framework.nodes.spread import (
    Domains,
    Scope,
    counts_by_domain,
    domains_of,
    scope_of,
    spread_keys,
)
from phalanx.limits import SPREAD_DOMAINS_KEPT
from phalanx.model.nodes import Node
from phalanx.model.pods import Pod, SpreadConstraint


class SpreadCheck:
    """Counts the pods of the cache, in which the pods of a placement are assumed."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._nodes: Mapping[str, Node] = {}
        """The nodes for which the domains are known."""
        self._domains: dict[tuple[SpreadConstraint, Scope], Domains] = {}

    def objection(self, pod: Pod) -> str | None:
        """Return the first constraint that the pod violates on its node."""
        for constraint in pod.shape.spread:
            skew = self._skew(pod, constraint)
            if skew > constraint.max_skew:
                key = constraint.term.topology_key
                return f"topology spread by {key}: maxSkew {constraint.max_skew} would be {skew}"
        return None

    def _skew(self, pod: Pod, constraint: SpreadConstraint) -> int:
        domains = self._domains_of(pod, constraint)
        counts = counts_by_domain(domains, self._cache.spread_counts(constraint.term))
        value = domains.get(pod.node) if pod.node is not None else None
        least = min(counts.values(), default=0) if len(counts) >= constraint.min_domains else 0
        return 0 if value is None else counts[value] - least

    def _domains_of(self, pod: Pod, constraint: SpreadConstraint) -> Domains:
        nodes = self._cache.nodes()
        if nodes is not self._nodes or len(self._domains) > SPREAD_DOMAINS_KEPT:
            self._nodes, self._domains = nodes, {}
        keys = spread_keys(pod.shape.spread)
        key = (constraint, scope_of(pod.shape, constraint, keys))
        known = self._domains.get(key)
        if known is None:
            known = self._domains[key] = domains_of(nodes.values(), pod.shape, constraint, keys)
        return known
