"""Find the queues from which a gang may evict. They decide when a gang that found no victims retries.

Shares and usage of other queues are not part of the retry key of a verdict, since they change with each
placement. Instead the gang retries when it may evict from another queue. If more may be evicted from the same
queues, it retries too, but not in every cycle. What may be evicted is asked of the plugins, as in the search:
which gangs, which of their pods, and how much together.
"""

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter

import msgspec
from msgspec import Struct

from phalanx.actions.demands.demand import Demand, beneficiary_of
from phalanx.framework.evictions import Beneficiary, QueueEvictionLimit
from phalanx.framework.plugin import NEVER
from phalanx.framework.retry import digest_of_key
from phalanx.framework.session import Session
from phalanx.model.charges import charged_for
from phalanx.model.gangs import Gang
from phalanx.model.memory import CandidateQueues
from phalanx.model.names import GangId, NodeName, QueueName, ShapeKey
from phalanx.model.resources import Resources

_Key = tuple[QueueName, bool, bool, tuple[tuple[str, int], ...], frozenset[ShapeKey]]


class _Kind(Struct, frozen=True):
    """Running gangs of one queue that are covered equally."""

    example: Gang
    """The smallest one."""
    digest: str
    """It says which gangs these are."""


class CandidateQueueFinder:
    """Finds the candidate queues of the demands of one session. Equal demands share an answer."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[_Key, CandidateQueues] = {}
        self._results: dict[bytes, CandidateQueues] = {}
        """Results by their content: many demands get equal ones, which are kept in memory once."""
        self._nodes: dict[int, tuple[frozenset[NodeName], str]] = {}
        """Digests of the nodes of limits, by the identity of the set: it takes long to hash large sets."""

    def candidate_queues_of(self, demand: Demand) -> CandidateQueues:
        """What may be evicted for the demand from other queues, asked of one of equally covered gangs."""
        gang = demand.gang
        beneficiary = beneficiary_of(demand)
        shapes = frozenset(pod.shape.key for pod in beneficiary.pod_kinds)
        requested = tuple(sorted(beneficiary.requested.items()))
        key = (gang.queue, gang.may_preempt, beneficiary.is_surplus, requested, shapes)
        if key not in self._known:
            found = self._find(beneficiary)
            self._known[key] = self._results.setdefault(msgspec.json.encode(found), found)
        return self._known[key]

    def _find(self, beneficiary: Beneficiary) -> CandidateQueues:
        evictable: dict[QueueName, str] = {}
        for queue, kinds in self._kinds.items():
            if queue != beneficiary.gang.queue:
                found = [(kind.digest, part) for kind in kinds if (part := self._part(kind, beneficiary))]
                if found:
                    evictable[queue] = digest_of_key(found)
        return CandidateQueues(
            evictable,
            self._limits(list(evictable), beneficiary) if evictable else {},
            self._session.hooks.least_evictions(beneficiary),
            at=self._session.snapshot.now,
        )

    def _part(self, kind: _Kind, beneficiary: Beneficiary) -> str:
        """Whether these gangs may be evicted whole or in part; empty for not at all."""
        hooks, gang = self._session.hooks, kind.example
        if not hooks.may_evict(gang, beneficiary):
            return ""
        if not gang.disruption.is_preemptible and hooks.protected_until(gang, beneficiary.gang) >= NEVER:
            return ""
        return "part" if hooks.protected_pods(gang, beneficiary) else "whole"

    def _limits(
        self, queues: Sequence[QueueName], beneficiary: Beneficiary
    ) -> Mapping[QueueName, Mapping[str, Resources]]:
        """The hard limits on evictions from these queues and their ancestors below the common one."""
        tree = self._session.queues
        shared = {queue.name for queue in tree.path(beneficiary.gang.queue)}
        theirs = {above.name for queue in queues for above in tree.path(queue)} - shared
        found: dict[QueueName, dict[str, Resources]] = {queue: {} for queue in sorted(theirs)}
        for limit in self._session.hooks.queue_eviction_limits(beneficiary):
            if limit.is_hard and limit.queue in theirs:
                subject = self._subject(limit)
                known = found[limit.queue].get(subject, limit.amounts)
                found[limit.queue][subject] = _smaller(known, limit.amounts)
        return found

    def _subject(self, limit: QueueEvictionLimit) -> str:
        """What counts for the limit."""
        nodes = ""
        if limit.nodes is not None:
            known = self._nodes.get(id(limit.nodes)) or (limit.nodes, digest_of_key(sorted(limit.nodes)))
            self._nodes[id(limit.nodes)] = known
            nodes = f" on nodes {known[1]}"
        gangs = "all gangs" if limit.priority is None else f"gangs of priority {limit.priority}"
        return f"{gangs}{' but the largest' if limit.except_largest else ''}{nodes}"

    @cached_property
    def _kinds(self) -> dict[QueueName, list[_Kind]]:
        """The running gangs by queue."""
        found: dict[QueueName, dict[Hashable, list[Gang]]] = {}
        for gang in self._session.gangs.values():
            if gang.nodes:
                kind = (gang.disruption.is_preemptible, self._session.guarantees.signature(gang))
                found.setdefault(gang.queue, {}).setdefault(kind, []).append(gang)
        by_digest = attrgetter("digest")
        return {queue: sorted(map(_kind, found[queue].values()), key=by_digest) for queue in sorted(found)}


def _kind(gangs: Sequence[Gang]) -> _Kind:
    return _Kind(min(gangs, key=_size), digest_of_key(sorted(gang.id for gang in gangs)))


def _smaller(left: Resources, right: Resources) -> Resources:
    both = {**left, **right}
    return {name: min(left.get(name, both[name]), right.get(name, both[name])) for name in both}


def _size(gang: Gang) -> tuple[int, int, GangId]:
    """The devices that its running members hold, and their number."""
    holders = [pod for pod in gang.members if pod.holds_node]
    devices = (amount for pod in holders for name, amount in charged_for(pod).items() if "/" in name)
    return sum(devices), len(holders), gang.id
