"""The fair shares of all queues in one session, computed on first use.

They are the shares at the begin of the cycle: its placements do not change them.

The capacity is the allocatable amount of all nodes without the usage of pods outside all queues, unless these
give way to gangs of priority 0 (`evictable_pods.py`); a node that is faulty or cordoned counts with the usage
of queues only. A waiting gang counts with the pods that it lacks to its minimum. It does not count where a
plugin objects, no node can take its pods, or its last verdict is impossible.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol

from msgspec import Struct

from phalanx.framework.eligibility import Eligibility
from phalanx.framework.minimum_members import pods_to_minimum
from phalanx.framework.nodes.node_facts import NodeFacts
from phalanx.framework.queues.device_capacity import DeviceCapacity
from phalanx.framework.queues.division import (
    IGNORED,
    NOT_WAITING,
    Bundles,
    Participant,
    QueueShare,
    bundle_of,
    divide,
    merged,
)
from phalanx.framework.queues.ledger import Ledger, usage_sum
from phalanx.framework.queues.queue_tree import QueueTree
from phalanx.framework.queues.unseen_demand import UnseenDemand
from phalanx.framework.running_sums import RunningSums
from phalanx.limits import AMOUNT_MAX
from phalanx.model.charges import charged_for, have_charges, total_charges, total_requests
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, NodeName, QueueName, ShapeKey
from phalanx.model.nodes import NodeState
from phalanx.model.pods import Pod
from phalanx.model.queues import Flavor, Queue, Selector
from phalanx.model.reasons import Category, Objection, Reason
from phalanx.model.resources import Resources, add, fits, scale, subtract, sum_of
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.known import pod_usage
from phalanx.model.supplies.supply import SessionSupply


class _Session(Protocol):
    """The parts of the session that shares are computed from."""

    snapshot: Snapshot
    nodes: Mapping[NodeName, NodeState]
    facts: NodeFacts
    queues: QueueTree
    ledger: Ledger
    behind: Mapping[GangId, int]
    unseen: Mapping[QueueName, UnseenDemand]

    @property
    def supplies(self) -> tuple[SessionSupply, ...]: ...
    @property
    def sums(self) -> RunningSums: ...
    @property
    def waiting(self) -> tuple[Gang, ...]: ...
    def eligibility(self, pod: Pod) -> Eligibility: ...
    def objection(self, gang: Gang) -> Objection | None: ...


class _Partition(Struct, frozen=True):
    """The nodes of a flavor, or all nodes (`selector` None), which are divided on their own."""

    selector: Selector | None
    nodes: Mapping[NodeName, NodeState]


class _Waiting(Struct, frozen=True):
    """The pods that a waiting gang lacks to its minimum, its creation, and how many equal gangs wait."""

    created: int
    pods: list[Pod]
    count: int


class FairShares:
    """The shares of each queue, per flavor and in total. Equal node selectors are divided once."""

    def __init__(self, session: _Session) -> None:
        self._session = session
        self._devices = DeviceCapacity(session)
        self._capacities: dict[Selector | None, Resources] = {}
        self._divided: dict[Selector | None, dict[QueueName, QueueShare]] = {}
        self._has_place: dict[tuple[ShapeKey, Selector | None], bool] = {}
        self._has_other_place: dict[tuple[ShapeKey, Selector], bool] = {}
        self._scarce: dict[tuple[str, QueueName | None], bool] = {}
        self._scarce_beside: dict[tuple[str, str], bool] = {}

    def of(self, queue: QueueName, selector: Selector | None = None) -> QueueShare:
        """The share of a queue on all nodes, or on those of a flavor; empty for an unknown queue."""
        if selector not in self._divided:
            nodes: Mapping[NodeName, NodeState] = self._session.nodes
            if selector is not None:
                names = self._session.ledger.nodes_of(selector)
                nodes = {name: state for name, state in nodes.items() if name in names}
            self._divided[selector] = self._divide(_Partition(selector, nodes))
        return self._divided[selector].get(queue, QueueShare())

    def is_scarce(self, resource: str, queue: QueueName | None) -> bool:
        """Whether the demand for the resource exceeds the capacity, or a limit of the queue or its ancestors.

        `queue`: None for no limit.
        Shares are compared for scarce resources only. A share may be less than the demand for other resources
        too: a queue that gets no devices has no use for the cores beside them.
        """
        if resource in IGNORED:
            return False
        path = [above.name for above in self._session.queues.path(queue)] if queue is not None else []
        return any(self._is_scarce(resource, above) for above in (None, *path))

    def _is_scarce(self, resource: str, above: QueueName | None) -> bool:
        key = (resource, above)
        if key not in self._scarce:
            queues = self._session.queues
            if above is None:
                most = self.capacity.get(resource, 0)
                roots = [root.name for root in queues if _parent(root, self._session) is None]
            else:
                most, roots = queues.path(above)[0].limit.get(resource, AMOUNT_MAX), [above]
            shares = [self.of(name) for name in roots]
            demands = [
                each.demand_before_limit if above is not None else each.demand_within_limits
                for each in shares
            ]
            demand = sum(each.get(resource, 0) for each in demands)
            self._scarce[key] = demand > most
        return self._scarce[key]

    def is_scarce_beside(self, device: str, resource: str) -> bool:
        """Whether the demand of waiting pods with the device exceeds what is free on the nodes that have it.

        It finds cores that are used up on nodes with GPUs although nodes without GPUs have many.
        """
        key = (device, resource)
        if key not in self._scarce_beside:
            with_device = [
                state.free.get(resource, 0)
                for state in self._devices.nodes_with(device)
                if state.node.name not in self._session.facts.faults
            ]
            waiting = (
                pod.shape.requests.get(resource, 0) * gang.count
                for gangs in self._waiting_minimums.values()
                for gang in gangs
                for pod in gang.pods
                if pod.shape.requests.get(device) or (pod.charges and charged_for(pod).get(device))
            )
            unseen = (
                amounts.get(resource, 0)
                for demand in self._session.unseen.values()
                for names, amounts in demand.by_pods.items()
                if device in names
            )
            self._scarce_beside[key] = sum(waiting) + sum(unseen) > sum(max(0, free) for free in with_device)
        return self._scarce_beside[key]

    @cached_property
    def _waiting_minimums(self) -> dict[QueueName, list[_Waiting]]:
        everywhere = _Partition(None, self._session.nodes)
        return _minimums(self._session, lambda pod: self._may_go_to(everywhere, pod))

    @cached_property
    def capacity(self) -> Resources:
        return self._capacity_of(_Partition(None, self._session.nodes))

    def _capacity_of(self, partition: _Partition) -> Resources:
        known = self._capacities.get(partition.selector)
        if known is None:
            known = self._capacities[partition.selector] = _capacity(self._session, partition, self._devices)
        return known

    def fits_elsewhere(self, selector: Selector, pod: Pod) -> bool:
        """Whether a node outside the flavor could take the pod if nothing else ran."""
        key = (pod.shape.key, selector)
        if key not in self._has_other_place:
            inside = self._session.ledger.nodes_of(selector)
            others = ((name, state) for name, state in self._session.nodes.items() if name not in inside)
            self._has_other_place[key] = self._fits_on_any(pod, others)
        return self._has_other_place[key]

    def problems(self, queue: Queue) -> tuple[Objection, ...]:
        """The guarantees of the queue that cannot be met."""
        found = [*_unmet(queue.guarantee, self.of(queue.name).guarantee, "spec.guarantee")]
        for flavor in queue.flavors:
            kept = self.of(queue.name, flavor.node_selector).guarantee
            found.extend(_unmet(flavor.guarantee, kept, f"spec.flavors[{flavor.name}].guarantee"))
        return tuple(found)

    def _divide(self, partition: _Partition) -> dict[QueueName, QueueShare]:
        capacity = self._capacity_of(partition)
        participants = {
            queue.name: self._participant(queue, partition, capacity) for queue in self._session.queues
        }
        return divide(participants, capacity)

    def _participant(self, queue: Queue, partition: _Partition, capacity: Resources) -> Participant:
        own: list[Queue | Flavor] = [queue]
        if partition.selector is not None:
            own = [flavor for flavor in queue.flavors if flavor.node_selector == partition.selector]
        return Participant(
            parent=_parent(queue, self._session),
            weight=queue.weight,
            guarantee=_combined(max, [source.guarantee for source in own]),
            limit=_combined(min, [source.limit for source in own]),
            used=self._used(queue.name, partition, capacity),
            waiting=merged(self._waiting(queue.name, partition)),
            waits_since=self._waits_since(queue.name),
            created=queue.created,
            uid=queue.uid,
            priority=queue.priority,
        )

    def _waits_since(self, queue: QueueName) -> int:
        created = [each.created for each in self._waiting_minimums.get(queue, ())]
        unseen = self._session.unseen.get(queue)
        return min([*created, NOT_WAITING if unseen is None else unseen.since])

    def _used(self, queue: QueueName, partition: _Partition, capacity: Resources) -> Bundles:
        """The usage of the queue's pods; what is used on one node forms a bundle.

        Resources without capacity are left out: pods that were bound by hand may request thousands of them.
        """
        usage = self._session.snapshot.queue_usage.get(queue, {})
        if partition.selector is not None:
            usage = {node: amounts for node, amounts in usage.items() if node in partition.nodes}
        together = self._session.sums.by_kind(usage_sum(queue, partition.selector), usage)
        return merged(
            bundle_of({name: amount for name, amount in total.items() if capacity.get(name)})
            for total in together.values()
        )

    def _waiting(self, queue: QueueName, partition: _Partition) -> Iterator[Bundles]:
        """The demand of waiting gangs; for a flavor, of their pods that may run there."""
        for each in self._waiting_minimums.get(queue, ()):
            placeable = [pod for pod in each.pods if self._may_go_to(partition, pod)]
            if partition.selector is not None or len(placeable) == len(each.pods):
                yield bundle_of(scale(self._demand(placeable, partition), each.count))
        unseen = self._session.unseen.get(queue)
        if unseen is not None and partition.selector is None:
            yield unseen.bundles
        for pods, count in unseen.gangs() if unseen is not None and partition.selector is not None else ():
            placeable = [pod for pod in pods if self._may_go_to(partition, pod)]
            yield bundle_of(scale(self._demand(placeable, partition), count))

    def _demand(self, pods: list[Pod], partition: _Partition) -> Resources:
        """What a queue would be charged for the pods. Devices of which the partition has none are left out:
        those for claims, and for a flavor those that nodes outside it can use too."""
        requests = total_requests(pods)
        is_flavor = partition.selector is not None and bool(self._devices.names)
        if not is_flavor and not have_charges(pods):
            return requests
        capacity = self._capacity_of(partition)
        known = requests.keys() - self._devices.names if is_flavor else requests.keys()
        return {
            name: amount
            for name, amount in total_charges(pods).items()
            if name in known or capacity.get(name)
        }

    def _may_go_to(self, partition: _Partition, pod: Pod) -> bool:
        """Whether a node of the partition could take the pod if nothing else ran."""
        key = (pod.shape.key, partition.selector)
        if key not in self._has_place:
            self._has_place[key] = self._fits_on_any(pod, partition.nodes.items())
        return self._has_place[key]

    def _fits_on_any(self, pod: Pod, nodes: Iterable[tuple[NodeName, NodeState]]) -> bool:
        rejected = self._session.eligibility(pod).rejected
        return any(
            name not in rejected and fits(pod.shape.requests, state.node.allocatable) for name, state in nodes
        )


def _capacity(session: _Session, partition: _Partition, devices: DeviceCapacity) -> dict[str, int]:
    """Allocatable amounts of the usable nodes without the usage of pods outside all queues that stay.

    A node that takes no new pods counts with the current usage of queues.
    """
    nodes, sums, facts = partition.nodes, session.sums, session.facts
    usage = [
        _total_on(nodes, by_node, sums, usage_sum(queue, partition.selector))
        for queue, by_node in session.snapshot.queue_usage.items()
        if session.queues.get(queue) is not None
    ]
    if partition.selector is None:
        open_nodes, allocatable = facts.open_nodes, facts.open_allocatable
    else:
        open_nodes = tuple([node for node in facts.open_nodes if node in nodes])
        allocatable = sum_of(nodes[node].node.allocatable for node in open_nodes)
    used = sums.total(("used", partition.selector), {node: nodes[node].used for node in open_nodes})
    rest = subtract(sum_of([allocatable, *usage, *_giving_way(session, open_nodes)]), used)
    if devices.names:
        rest = add(rest, devices.beside_allocatable(nodes, open_nodes))
    return {resource: max(0, amount) for resource, amount in rest.items()}


def _giving_way(session: _Session, open_nodes: Sequence[NodeName]) -> Iterator[Resources]:
    """The usage, on these nodes, of pods of other schedulers that give way to gangs of priority 0."""
    gangs = session.snapshot.evictable_pods.values()
    there = frozenset(open_nodes) if gangs else ()
    pods = (pod for gang in gangs if gang.priority < 0 for pod in gang.members)
    return (pod_usage(pod) for pod in pods if pod.node in there)


def _total_on(
    nodes: Mapping[NodeName, NodeState],
    amounts: Mapping[NodeName, Resources],
    sums: RunningSums,
    purpose: Hashable,
) -> Resources:
    """The sum over the nodes of the partition; usage may be on nodes that are gone."""
    if amounts.keys() <= nodes.keys():
        return sums.total(purpose, amounts)
    return sum_of(each for node, each in amounts.items() if node in nodes)


def _minimums(session: _Session, can_run: Callable[[Pod], bool]) -> dict[QueueName, list[_Waiting]]:
    """Per queue, the pods that each gang needs to reach its minimum, if possible those that can run."""
    found: dict[QueueName, list[_Waiting]] = {}
    for gang in session.waiting:
        if session.objection(gang) is None and not _is_known_infeasible(gang, session):
            pods = pods_to_minimum(gang, can_run)
            if pods:
                count = 1 + session.behind.get(gang.id, 0)
                found.setdefault(gang.queue, []).append(_Waiting(gang.created, pods, count))
    return found


def _is_known_infeasible(gang: Gang, session: _Session) -> bool:
    """Whether the last verdict says that no free capacity would let the gang start."""
    refusal = session.snapshot.memory.refusal_of(gang)
    if refusal is None:
        return False
    reason = refusal.verdict.reason
    return reason.category is Category.IMPOSSIBLE or reason is Reason.NODES_UNAVAILABLE


def _parent(queue: Queue, session: _Session) -> QueueName | None:
    """The parent; None for a root and for a queue in a circle, so that parents form a tree."""
    above = session.queues.path(queue.parent) if queue.parent is not None else ()
    return None if not above or queue.name in [ancestor.name for ancestor in above] else queue.parent


def _combined(choose: Callable[[int, int], int], parts: Iterable[Resources]) -> Resources:
    """Combine amounts per resource, for several flavors of a queue with the same nodes."""
    found: dict[str, int] = {}
    for amounts in parts:
        for name, amount in amounts.items():
            found[name] = choose(found.get(name, amount), amount)
    return found


def _unmet(asked: Resources, kept: Resources, path: str) -> Iterator[Objection]:
    for name, amount in sorted(asked.items()):
        if kept.get(name, 0) < amount:
            yield Objection(
                Reason.QUEUE_INVALID,
                f"{path}[{name}]: {kept.get(name, 0)} of {amount} are guaranteed: more exceeds its limit, "
                "the guarantee of the parent or the capacity",
                "Lower guarantees, or raise the guarantee of the parent or the limit",
            )
