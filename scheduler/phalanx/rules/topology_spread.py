"""Topology spread constraints."""

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import json

from phalanx.model import named_parts
from phalanx.model.counted_nodes import CountedNodes
from phalanx.model.names import ShapeKey
from phalanx.model.reasons import Reason
from phalanx.rules.affinity import AffinityRule
from phalanx.rules.primitives import Primitive, Skew
from phalanx.rules.problem import CountedValue, PlacedPods, PlacementProblem


class TopologySpreadRule(AffinityRule, frozen=True, tag="topology-spread"):
    """Where a pod of `owners` is, there are at most `max_skew` more counted pods than in any domain.

    `others` are counted, usually with `owners`. Domains are the values of the label in `existing`, and others
    of nodes that `owners` may use. With fewer domains than `min_domains`, at most `max_skew` pods are there.
    """

    reason = Reason.TOPOLOGY_SPREAD
    counts_others = True

    existing: tuple[tuple[str, int], ...]
    """The domains, with the counted pods that are there."""
    max_skew: int
    min_domains: int = 1
    counted: CountedNodes | None = None
    """The nodes that count, where some of `others` may use more nodes of the domains; None for all."""

    @property
    def counted_key(self) -> str:
        """The key of the problem. No node label has a space."""
        if self.counted is None:
            return self.key
        return f"{self.key} {json.encode(self.counted, order='deterministic').decode()}"

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.counted_key,)

    @property
    def counted_values(self) -> Mapping[str, CountedValue]:
        return {} if self.counted is None else {self.counted_key: CountedValue(self.key, self.counted)}

    def evidence(self, most: int) -> str:
        """Such as "maxSkew 1 would be 3 in a; pods there now: a 2, b 0", the fullest domains first."""
        domains = sorted(self.existing, key=lambda domain: (-domain[1], domain[0]))
        least = domains[-1][1] if domains and len(domains) >= self.min_domains else 0
        limit = f"maxSkew {self.max_skew}"
        if domains and (skew := domains[0][1] + bool(self.others) - least) > self.max_skew:
            limit += f" would be {skew} in {named_parts.domain(domains[0][0])}"
        limit += f", minDomains {self.min_domains}" if self.min_domains > 1 else ""
        shown = [f"{named_parts.domain(value)} {count}" for value, count in domains[:most]]
        shown += [f"{len(domains) - most} more"] if len(domains) > most else []
        return f"{limit}; pods there now: {', '.join(shown)}"

    def full(self, shape: ShapeKey) -> Mapping[str, frozenset[str]]:
        fewest = min((count for _, count in self.existing), default=0)
        if len(self.existing) < self.min_domains:
            fewest = 0
        more = (shape in self.others) - fewest
        return {self.key: frozenset(value for value, count in self.existing if count + more > self.max_skew)}

    def lower(self, problem: PlacementProblem) -> Iterator[Primitive]:
        yield Skew(
            name=self.name,
            key=problem.key_of(self.counted_key),
            owners=problem.roles_with(self.owners),
            others=problem.roles_with(self.others),
            existing=self.existing,
            max_skew=self.max_skew,
            min_domains=self.min_domains,
        )

    def violations(self, placed: PlacedPods) -> Iterator[str]:
        there = placed.by_value(self.counted_key)
        domains = dict(self.existing) | dict.fromkeys(self._new_domains(placed.problem), 0)
        counts = {
            value: count + sum(there.get(value, Counter[str]())[other] for other in set(self.others))
            for value, count in domains.items()
        }
        least = min(counts.values(), default=0) if len(domains) >= self.min_domains else 0
        for value, pods in sorted(there.items()):
            if pods.keys().isdisjoint(self.owners):
                continue
            if not value:
                yield f"{self.name}: a pod on a node without {self.key}"
                continue
            skew = counts[value] - least
            if skew > self.max_skew:
                yield f"{self.name}: maxSkew {self.max_skew} would be {skew} in {value}"

    def _new_domains(self, problem: PlacementProblem) -> set[str]:
        """Domains that the rule does not list and in which owners may be."""
        known, number = dict(self.existing), problem.keys.index(self.counted_key)
        owners = [index for index, role in enumerate(problem.roles) if role.shape in self.owners]
        return {
            group.label_values[number]
            for group in problem.classes
            if any(group.eligible[owner] for owner in owners) and group.label_values[number] not in known
        } - {""}
