"""Counting bounds on whether a demand fits after holders of capacity end, so that few sets need a solve."""

from collections.abc import Sequence
from typing import Final

from phalanx.actions.demands.demand import Demand, without_affinity_terms
from phalanx.actions.nodes.gang_constraints import GangConstraints, allowed_domains, constraints_of
from phalanx.actions.nodes.shared_charges import is_about_shared_claims
from phalanx.actions.problems.capacity_holders import CapacityHolder
from phalanx.framework.nodes.topology import Path
from phalanx.framework.session import Session
from phalanx.model.names import NodeName
from phalanx.model.pods import Pod
from phalanx.model.resources import NONE, Resources, add
from phalanx.model.supplies.known import projected, with_supplied

THOUSAND: Final = 1000

Counts = tuple[int, ...]
"""Pods per batch of the demand."""


class CompletionBounds:
    """Upper bounds on the pods of each batch that fit each domain of the required level, or the cluster.

    A bound considers one batch at a time, so a demand that it allows may still not fit. Affinity to other
    pods is ignored, since it changes when they end.
    """

    def __init__(self, session: Session, demand: Demand) -> None:
        constraints = constraints_of(session, demand.gang)
        self._session = session
        self._minimums: Counts = tuple(batch.minimum for batch in demand.batches)
        self._needs = [_needs(batch.pods[0]) for batch in demand.batches]
        shapes = [batch.pods[0].shape for batch in demand.batches]
        self._projections = session.projections(shapes, only_freed=True)
        without_terms = map(without_affinity_terms, demand.batches)
        self._eligibilities = [session.eligibility(batch.pods[0]) for batch in without_terms]
        self._domains = allowed_domains(session, constraints)
        self._leftover: list[dict[str, int]] = [{} for _ in self._needs]
        self._fit: dict[NodeName, Counts] = {}
        self._lacks: dict[NodeName, list[tuple[str, int]]] = {}
        self._totals: dict[Path, Counts] = {}
        self._nodes_in: dict[Path, list[NodeName]] = {}
        for node in session.nodes:
            self._count(node)
        self._limits = [
            [(name, need, leftover[name]) for name, need in needs if name in leftover]
            for needs, leftover in zip(self._needs, self._leftover, strict=True)
        ]
        self._has_capacity = any(self._lack(domain) == 0 for domain in self._totals)
        self._least_missing = tuple(
            min((max(0, least - total[index]) for total in self._totals.values()), default=0)
            for index, least in enumerate(self._minimums)
        )
        self._over = _over_budget(constraints, demand)
        self._queues = frozenset(queue.name for queue in session.queues.path(demand.gang.queue))

    @property
    def over(self) -> Resources:
        """The amounts by which the demand exceeds the limits of its queue; empty if it does not."""
        return self._over

    def nearest_domains(self, count: int) -> list[Path]:
        """The domains that lack capacity for the fewest pods."""
        return sorted(self._totals, key=lambda domain: (self._lack(domain), domain))[:count]

    def domain_of(self, node: NodeName) -> Path | None:
        """The domain of the required level that has the node; None if no pod may use the node."""
        return self._domains.get(node) if node in self._fit else None

    def nodes_in(self, domain: Path) -> Sequence[NodeName]:
        """The eligible nodes of the domain."""
        return self._nodes_in[domain]

    def may_gain(self, holder: CapacityHolder) -> bool:
        """Whether its end lets one more pod of some batch fit some node."""
        if self._has_capacity:
            return True
        for node, amounts in holder.used.items():
            for name, lack in self._lacks.get(node, ()):
                if amounts.get(name, 0) >= lack:
                    return True
        return False

    def gain(self, holder: CapacityHolder, domain: Path) -> int:
        """The number of further pods that fit the domain if the holder ends."""
        return sum(self._gains([holder]).get(domain, ()))

    def shares_limits(self, holder: CapacityHolder) -> bool:
        """Whether the usage of the holder counts against a queue of the demand."""
        return not self._queues.isdisjoint(queue.name for queue in self._session.queues.path(holder.queue))

    def reach(self, holder: CapacityHolder) -> Counts:
        """A bound on the further pods per batch, in thousandths, that fit if the holder ends.

        On each node, the released amount of the scarce resource adds to the remainder that is free there.
        """
        total, nodes = holder.total, len(holder.used)
        reaches = []
        for limits in self._limits:
            most = 0
            for name, need, leftover in limits:
                most -= -THOUSAND * (total.get(name, 0) + nodes * leftover) // need
            reaches.append(most)
        return tuple(reaches)

    def is_enough(self, *reaches: Counts) -> bool:
        """Whether holders with these reaches could suffice together; if not, `allow` is False too."""
        return self._has_capacity or all(
            sum(most) >= missing * THOUSAND
            for missing, *most in zip(self._least_missing, *reaches, strict=True)
        )

    def allow(self, ended: Sequence[CapacityHolder]) -> bool:
        """Whether the bounds allow the demand after all of these have ended."""
        if not self.satisfy_limits(ended):
            return False
        if self._has_capacity:
            return True
        return any(
            all(
                have + more >= least
                for have, more, least in zip(self._totals[domain], gain, self._minimums, strict=True)
            )
            for domain, gain in self._gains(ended).items()
        )

    def _count(self, node: NodeName) -> None:
        domain = self._domains.get(node)
        if domain is None or all(node in found.rejected for found in self._eligibilities):
            return
        fit = self._fitting(node, NONE)
        self._fit[node] = tuple(count for count, _ in fit)
        before = self._totals.get(domain, (0,) * len(fit))
        self._totals[domain] = tuple(total + count for total, (count, _) in zip(before, fit, strict=True))
        self._nodes_in.setdefault(domain, []).append(node)
        lacks = []
        for leftover, needs, (_, binding) in zip(self._leftover, self._needs, fit, strict=True):
            for name, need in needs if binding else ():
                if name == binding:
                    free = self._free(node).get(name, 0)
                    leftover[name] = max(leftover.get(name, 0), max(0, free) % need)
                    lacks.append((name, need - free % need if free >= 0 else need - free))
        self._lacks[node] = lacks

    def _fitting(self, node: NodeName, back: Resources) -> list[tuple[int, str]]:
        """For each batch, the pods that fit with `back` released, and the limiting resource."""
        free = self._free(node)
        found = []
        for needs, least, eligibility in zip(self._needs, self._minimums, self._eligibilities, strict=True):
            count, binding = (0 if node in eligibility.rejected else least), ""
            for name, need in needs if count else ():
                fit = (free.get(name, 0) + back.get(name, 0)) // need
                if fit < count:
                    count, binding = fit, name
            found.append((max(0, count), binding))
        return found

    def _free(self, node: NodeName) -> Resources:
        return projected(self._projections, self._session.nodes[node], self._session.free(node))

    def _lack(self, domain: Path) -> int:
        pairs = zip(self._totals[domain], self._minimums, strict=True)
        return sum(max(0, least - have) for have, least in pairs)

    def satisfy_limits(self, ended: Sequence[CapacityHolder]) -> bool:
        """Whether their end releases the amounts by which the demand exceeds limits."""
        if not self._over:
            return True
        mine = [holder.total_booked for holder in ended if self.shares_limits(holder)]
        return all(sum(amounts.get(name, 0) for amounts in mine) >= over for name, over in self._over.items())

    def _gains(self, ended: Sequence[CapacityHolder]) -> dict[Path, list[int]]:
        """For each domain in which these hold capacity, the further pods that fit, per batch."""
        back: dict[NodeName, Resources] = {}
        for holder in ended:
            for node, amounts in holder.used.items():
                if node in self._fit:
                    back[node] = add(back[node], amounts) if node in back else amounts
        gains: dict[Path, list[int]] = {}
        for node, amounts in back.items():
            gain = gains.setdefault(self._domains[node], [0] * len(self._needs))
            for index, (count, _) in enumerate(self._fitting(node, amounts)):
                gain[index] += count - self._fit[node][index]
        return gains


def _needs(pod: Pod) -> tuple[tuple[str, int], ...]:
    return tuple((name, need) for name, need in with_supplied(pod.shape).items() if need > 0)


def _over_budget(constraints: GangConstraints, demand: Demand) -> Resources:
    over: dict[str, int] = {}
    asked: Resources = {}
    for batch in demand.batches:
        for name, need in _needs(batch.pods[0]):
            asked = add(asked, {name: need * batch.minimum})
    for rule in constraints.budgets:
        if rule.nodes is None and not is_about_shared_claims(rule):
            for name, left in rule.remaining.items():
                if asked.get(name, 0) > max(0, left):
                    over[name] = max(over.get(name, 0), asked[name] - left)
    return over
