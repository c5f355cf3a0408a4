"""The shares of all queues in one session, computed when they are first asked for.

They are those of the moment when the session was opened: nothing that a cycle places changes them.

What is divided is what nodes can allocate, less what pods of no known queue hold; of a node that is faulty or
cordoned it is only what queues still use there. What waits counts as far as a gang lacks it to its minimum,
and could be placed: not what a plugin objects to, no node could take, or its last verdict called impossible.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Protocol

from msgspec import Struct

from phalanx.framework.eligibility import Eligibility
from phalanx.framework.nodes.node_facts import NodeFacts
from phalanx.framework.placeholders import placeholders
from phalanx.framework.queues.division import IGNORED, Party, QueueShare, Wishes, divide, joined, wish_for
from phalanx.framework.queues.ledger import Ledger, usage_sum
from phalanx.framework.queues.queue_tree import QueueTree
from phalanx.framework.running_sums import RunningSums
from phalanx.framework.statement import total_requests
from phalanx.limits import AMOUNT_MAX
from phalanx.model.gangs import Gang, missing_by_role
from phalanx.model.names import NodeName, QueueName, ShapeKey
from phalanx.model.nodes import NodeState
from phalanx.model.pods import Pod
from phalanx.model.queues import Flavor, Queue, Selector
from phalanx.model.reasons import Category, Objection, Reason
from phalanx.model.resources import Resources, fits, subtract, sum_of
from phalanx.model.snapshot import Snapshot


class _Session(Protocol):
    """What shares are computed from."""

    snapshot: Snapshot
    nodes: Mapping[NodeName, NodeState]
    facts: NodeFacts
    queues: QueueTree
    ledger: Ledger

    @property
    def sums(self) -> RunningSums: ...
    @property
    def waiting(self) -> tuple[Gang, ...]: ...
    def eligibility(self, pod: Pod) -> Eligibility: ...
    def objection(self, gang: Gang) -> Objection | None: ...


class _Part(Struct, frozen=True):
    """A part of the cluster that is divided by itself: the nodes of a flavor, or all (`selector` None)."""

    selector: Selector | None
    nodes: Mapping[NodeName, NodeState]


class FairShares:
    """Flavors of several queues with the same node selector are one part of the cluster, divided once."""

    def __init__(self, session: _Session) -> None:
        self._session = session
        self._divided: dict[Selector | None, dict[QueueName, QueueShare]] = {}
        self._minimums: dict[QueueName, list[list[Pod]]] | None = None
        self._has_place: dict[tuple[ShapeKey, Selector | None], bool] = {}
        self._has_other_place: dict[tuple[ShapeKey, Selector], bool] = {}
        self._short: dict[tuple[str, QueueName | None], bool] = {}

    def of(self, queue: QueueName, selector: Selector | None = None) -> QueueShare:
        """The share of a queue over all nodes, or over those of a flavor; nothing for an unknown queue."""
        if selector not in self._divided:
            nodes: Mapping[NodeName, NodeState] = self._session.nodes
            if selector is not None:
                names = self._session.ledger.nodes_of(selector)
                nodes = {name: state for name, state in nodes.items() if name in names}
            self._divided[selector] = self._divide(_Part(selector, nodes))
        return self._divided[selector].get(queue, QueueShare())

    def is_scarce(self, resource: str, queue: QueueName) -> bool:
        """Whether the queue and those beside it cannot all have what they ask for of it.

        More is asked for than there is, or than its limit or one above allows. Where neither is so, a share
        may still be less than the demand: who gets no devices has no use for the cores beside them. Shares
        are compared of what is short: of the rest everybody can have what the other resources allow.
        """
        if resource in IGNORED:
            return False
        path = [each.name for each in self._session.queues.path(queue)]
        return any(self._is_scarce(resource, above) for above in (None, *path))

    def _is_scarce(self, resource: str, above: QueueName | None) -> bool:
        key = (resource, above)
        if key not in self._short:
            queues = self._session.queues
            if above is None:
                most = self.capacity.get(resource, 0)
                roots = [each.name for each in queues if _parent(each, self._session) is None]
            else:
                most, roots = queues.path(above)[0].limit.get(resource, AMOUNT_MAX), [above]
            asked = sum(self.of(name).demand.get(resource, 0) for name in roots)
            self._short[key] = asked > most
        return self._short[key]

    @cached_property
    def capacity(self) -> Resources:
        """What is divided of all nodes."""
        return _capacity(self._session, _Part(None, self._session.nodes))

    def fits_elsewhere(self, selector: Selector, pod: Pod) -> bool:
        """Whether a node that a flavor does not count could take the pod if nothing else ran."""
        key = (pod.shape.key, selector)
        if key not in self._has_other_place:
            theirs = self._session.ledger.nodes_of(selector)
            others = ((name, state) for name, state in self._session.nodes.items() if name not in theirs)
            self._has_other_place[key] = self._has_room(pod, others)
        return self._has_other_place[key]

    def problems(self, queue: Queue) -> tuple[Objection, ...]:
        """What the queue guarantees beyond what can be kept."""
        found = [*_cut(queue.guarantee, self.of(queue.name).guarantee, "spec.guarantee")]
        for flavor in queue.flavors:
            kept = self.of(queue.name, flavor.node_selector).guarantee
            found.extend(_cut(flavor.guarantee, kept, f"spec.flavors[{flavor.name}].guarantee"))
        return tuple(found)

    def _divide(self, part: _Part) -> dict[QueueName, QueueShare]:
        capacity = self.capacity if part.selector is None else _capacity(self._session, part)
        parties = {queue.name: self._party(queue, part, capacity) for queue in self._session.queues}
        return divide(parties, capacity)

    def _party(self, queue: Queue, part: _Part, capacity: Resources) -> Party:
        own: list[Queue | Flavor] = [queue]
        if part.selector is not None:
            own = [flavor for flavor in queue.flavors if flavor.node_selector == part.selector]
        return Party(
            parent=_parent(queue, self._session),
            weight=queue.weight,
            guarantee=_each(max, [each.guarantee for each in own]),
            limit=_each(min, [each.limit for each in own]),
            used=self._used(queue.name, part, capacity),
            waiting=joined(self._waiting(queue.name, part)),
        )

    def _used(self, queue: QueueName, part: _Part, capacity: Resources) -> Wishes:
        """What the queue's pods use, node by node: what is used on one node is of use together.

        Only of what there is: pods that somebody bound may ask for thousands of resources that no node has.
        """
        usage = self._session.snapshot.queue_usage.get(queue, {})
        if part.selector is not None:
            usage = {node: amounts for node, amounts in usage.items() if node in part.nodes}
        together = self._session.sums.by_kind(usage_sum(queue, part.selector), usage)
        return joined(
            wish_for({name: amount for name, amount in total.items() if capacity.get(name)})
            for total in together.values()
        )

    def _waiting(self, queue: QueueName, part: _Part) -> Iterator[Wishes]:
        """What gangs wait for; of a flavor the pods that may run there."""
        if self._minimums is None:
            self._minimums = _minimums(self._session)
        for pods in self._minimums.get(queue, ()):
            placeable = [pod for pod in pods if self._may_go_to(part, pod)]
            if part.selector is not None or len(placeable) == len(pods):
                yield wish_for(total_requests(placeable))

    def _may_go_to(self, part: _Part, pod: Pod) -> bool:
        """Whether a node there could take the pod if nothing else ran."""
        key = (pod.shape.key, part.selector)
        if key not in self._has_place:
            self._has_place[key] = self._has_room(pod, part.nodes.items())
        return self._has_place[key]

    def _has_room(self, pod: Pod, nodes: Iterable[tuple[NodeName, NodeState]]) -> bool:
        rejected = self._session.eligibility(pod).rejected
        return any(
            name not in rejected and fits(pod.shape.requests, state.node.allocatable) for name, state in nodes
        )


def _capacity(session: _Session, part: _Part) -> dict[str, int]:
    """What the queues share on these nodes: allocatable less what pods of no queue use.

    Of a node that nothing new may use it is what the queues use there now.
    """
    nodes, sums, facts = part.nodes, session.sums, session.facts
    usage = [
        _total_on(nodes, by_node, sums, usage_sum(queue, part.selector))
        for queue, by_node in session.snapshot.queue_usage.items()
        if session.queues.get(queue) is not None
    ]
    if part.selector is None:
        open_nodes, allocatable = facts.open_nodes, facts.open_allocatable
    else:
        open_nodes = tuple([node for node in facts.open_nodes if node in nodes])
        allocatable = sum_of(nodes[node].node.allocatable for node in open_nodes)
    used = sums.total(("used", part.selector), {node: nodes[node].used for node in open_nodes})
    rest = subtract(sum_of([allocatable, *usage]), used)
    return {resource: max(0, amount) for resource, amount in rest.items()}


def _total_on(
    nodes: Mapping[NodeName, NodeState],
    amounts: Mapping[NodeName, Resources],
    sums: RunningSums,
    purpose: Hashable,
) -> Resources:
    """Of these amounts, those on nodes of the part; usage may be on nodes that are gone."""
    if amounts.keys() <= nodes.keys():
        return sums.total(purpose, amounts)
    return sum_of(each for node, each in amounts.items() if node in nodes)


def _minimums(session: _Session) -> dict[QueueName, list[list[Pod]]]:
    """Per queue, the pods that each gang waits for to have its minimum."""
    found: dict[QueueName, list[list[Pod]]] = {}
    for gang in session.waiting:
        if not _is_hopeless(gang, session):
            pods = _lacking(gang)
            if pods and session.objection(gang) is None:
                found.setdefault(gang.queue, []).append(pods)
    return found


def _is_hopeless(gang: Gang, session: _Session) -> bool:
    """Whether the last verdict on it says that nothing which it could be given would let it start."""
    refusal = session.snapshot.memory.refusals.get(gang.id)
    if refusal is None:
        return False
    reason = refusal.verdict.reason
    return reason.category is Category.IMPOSSIBLE or reason is Reason.NODES_UNAVAILABLE


def _lacking(gang: Gang) -> list[Pod]:
    """Members that wait, as many as are lacking to the minimum; none while too few of them exist to start.

    Of a gang that reserves, those that do not exist are among them.
    """
    counted = [pod for pod in gang.members if pod.counts_for_gang]
    count = gang.min_member - len(counted)
    roles = missing_by_role(counted, gang.roles)
    first: list[Pod] = []
    others: list[Pod] = []
    for pod in gang.members:
        if pod.is_waiting and not pod.gated:
            is_needed = roles.get(pod.role, 0) > 0
            roles[pod.role] = roles.get(pod.role, 0) - 1
            (first if is_needed else others).append(pod)
    pods = [*first, *others[: max(0, count - len(first))]]
    if gang.reserves and pods:
        pods += placeholders(gang, [*counted, *first, *others])
    return pods if gang.started or len(pods) >= count else []


def _parent(queue: Queue, session: _Session) -> QueueName | None:
    """None for a root; for a queue of a cycle too, so that the parents form a tree."""
    above = session.queues.path(queue.parent) if queue.parent is not None else ()
    return None if not above or queue.name in [each.name for each in above] else queue.parent


def _each(choose: Callable[[int, int], int], parts: Iterable[Resources]) -> Resources:
    """Per resource one of the amounts, where a queue has several flavors of the same nodes."""
    found: dict[str, int] = {}
    for amounts in parts:
        for name, amount in amounts.items():
            found[name] = choose(found.get(name, amount), amount)
    return found


def _cut(asked: Resources, kept: Resources, path: str) -> Iterator[Objection]:
    for name, amount in sorted(asked.items()):
        if kept.get(name, 0) < amount:
            yield Objection(
                Reason.QUEUE_INVALID,
                f"{path}[{name}]: {kept.get(name, 0)} of {amount} are guaranteed: more exceeds its limit, "
                "the guarantee of the parent or the capacity",
                "Lower guarantees, or raise the guarantee of the parent or the limit",
            )
