"""Find the queues from which a gang may evict. They decide when a gang that found no victims retries.

Shares and usage of other queues are not part of the retry key of a verdict, since they change with each
placement. Instead the gang retries when it may evict from another queue. If more may be evicted from the same
queues than before, it retries too, but not in every cycle.
"""

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property

from phalanx.actions.demands.demand import Demand, beneficiary_of
from phalanx.framework.evictions import Beneficiary
from phalanx.framework.queues.division import IGNORED
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.memory import CandidateQueues
from phalanx.model.names import QueueName, ShapeKey

Amounts = tuple[int, ...]
"""For each counted resource of another queue, the usage beyond the guarantee and that beyond the fair share.

For the queue of the gang itself, what it must evict at least, negative.
"""

_Key = tuple[QueueName, bool, tuple[tuple[str, int], ...], frozenset[ShapeKey]]


class CandidateQueueFinder:
    """Finds the candidate queues of the demands of one session. Equal demands share an answer."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[_Key, CandidateQueues] = {}
        self._amounts: dict[Hashable, Mapping[QueueName, Amounts]] = {}

    def candidate_queues_of(self, demand: Demand) -> CandidateQueues:
        """Other queues from which the demand may evict, sorted. Gangs that are covered equally count once."""
        gang = demand.gang
        others = {queue: gangs for queue, gangs in self._holders.items() if queue != gang.queue}
        if not others:
            return CandidateQueues()
        beneficiary = beneficiary_of(demand)
        shapes = frozenset(pod.shape.key for pod in beneficiary.pod_kinds)
        key = (gang.queue, gang.may_preempt, tuple(sorted(beneficiary.requested.items())), shapes)
        if key not in self._known:
            may_evict = self._session.hooks.may_evict
            queues = [
                queue
                for queue, gangs in others.items()
                if any(may_evict(each, beneficiary) for each in gangs)
            ]
            excess = {**self._usage_beyond_share(queues, beneficiary), gang.queue: self._least(beneficiary)}
            self._known[key] = CandidateQueues(tuple(queues), excess, at=self._session.snapshot.now)
        return self._known[key]

    def _least(self, beneficiary: Beneficiary) -> Amounts:
        """The least amounts that must be evicted, negative, so that more of its own queue counts as more."""
        least = self._session.hooks.least_evictions(beneficiary)
        return tuple(-least.get(name, 0) for name in _counted(beneficiary))

    def _usage_beyond_share(
        self, queues: Sequence[QueueName], beneficiary: Beneficiary
    ) -> Mapping[QueueName, Amounts]:
        """Usage beyond guarantee and fair share, of these queues and their ancestors below the common one."""
        tree, resources = self._session.queues, _counted(beneficiary)
        key = (beneficiary.gang.queue, tuple(queues), resources)
        if key not in self._amounts:
            shared = {queue.name for queue in tree.path(beneficiary.gang.queue)}
            theirs = {above.name for queue in queues for above in tree.path(queue)} - shared
            self._amounts[key] = {
                queue: self._usage_beyond_share_of(queue, resources) for queue in sorted(theirs)
            }
        return self._amounts[key]

    def _usage_beyond_share_of(self, queue: QueueName, resources: Sequence[str]) -> Amounts:
        shares = self._session.fair_shares
        share, used = shares.of(queue), self._session.ledger.usage(queue)
        found: list[int] = []
        for name in resources:
            excess = [
                max(0, used.get(name, 0) - entitled.get(name, 0))
                for entitled in (share.guarantee, share.fair_share)
            ]
            found += excess if shares.is_scarce(name, queue) else [excess[0], 0]
        return tuple(found)

    @cached_property
    def _holders(self) -> dict[QueueName, list[Gang]]:
        """By queue, running gangs that are preemptible: the smallest of those that are covered equally."""
        found: dict[QueueName, dict[Hashable, Gang]] = {}
        for gang in self._session.gangs.values():
            if gang.disruption.is_preemptible and gang.nodes:
                signature = self._session.guarantees.signature(gang)
                known = found.setdefault(gang.queue, {})
                if signature not in known or _size(gang) < _size(known[signature]):
                    known[signature] = gang
        return {queue: list(found[queue].values()) for queue in sorted(found)}


def _counted(beneficiary: Beneficiary) -> tuple[str, ...]:
    """The requested devices; all requested resources if there are none."""
    names = sorted(name for name, amount in beneficiary.requested.items() if amount and name not in IGNORED)
    return tuple([name for name in names if "/" in name] or names)


def _size(gang: Gang) -> tuple[int, int]:
    """The devices that its running members hold, and their number."""
    holders = [pod for pod in gang.members if pod.holds_node]
    devices = (amount for pod in holders for name, amount in pod.shape.requests.items() if "/" in name)
    return sum(devices), len(holders)
