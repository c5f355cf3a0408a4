"""Check right before a bind: whether the spread constraints of a pod still hold where it is assumed."""

from collections.abc import Mapping

from phalanx.cache.cache import Cache
from phalanx.framework.nodes.spread import Scope, SpreadDomains, counts_by_domain, scope_of, spread_keys
from phalanx.limits import SPREAD_DOMAINS_KEPT
from phalanx.model.nodes import Node
from phalanx.model.pods import Pod, SpreadConstraint

SpreadCounts = dict[tuple[SpreadConstraint, Scope], Mapping[str, int]]
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
        key = (constraint, scope_of(pod.shape, constraint, keys))
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
        if nodes is not self._nodes or len(self._domains) > SPREAD_DOMAINS_KEPT:
            self._nodes, self._domains = nodes, SpreadDomains(nodes.values)
        return self._domains
