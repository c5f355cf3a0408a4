"""What queues are charged for claims to devices in a session."""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from phalanx.model.charges import own_charges
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName, PodUid, QueueName
from phalanx.model.pods import ClaimCharge, Pod
from phalanx.model.resources import NONE, Resources, scale
from phalanx.model.supplies.devices.charges import Amounts, charge_of, most_of
from phalanx.model.supplies.devices.claims import Claim, ClaimSpec
from phalanx.model.supplies.devices.cluster import ClusterDevices, DeviceState
from phalanx.model.supplies.devices.pools import DeviceId


class ClaimCharges:
    def __init__(self, devices: ClusterDevices, state: DeviceState, gangs: Collection[Gang]) -> None:
        """`gangs` are all of the snapshot."""
        self._devices = devices
        self._state = state
        self._gangs = gangs
        self._known: dict[tuple[str, QueueName], tuple[ClaimCharge, ...]] = {}
        self._names: tuple[int, tuple[str, ...]] = (-1, ())

    def of(
        self,
        need: str,
        queue: QueueName,
        own: Iterable[ClaimSpec],
        shared: Iterable[tuple[str, str]],
        allocated: Iterable[Amounts] = (),
        renewed: Container[tuple[str, str]] = (),
    ) -> tuple[ClaimCharge, ...]:
        """What the queue is to be charged for a pod that waits: the most that its own claims can get, shared
        claims for which no pod of the queue is charged yet, and these allocated claims. `need` is the name of
        the need. `renewed`: shared claims whose present users end before."""
        found = self._known.get((need, queue))
        if found is None:
            held = map(ClaimCharge, allocated)
            found = (*self._of_own(own), *self._of_shared(shared, queue, renewed), *held)
            self._known[need, queue] = found
        return found

    def of_allocated(self, claims: Iterable[Claim]) -> tuple[Amounts, ...]:
        """What queues are charged for these claims, in an order that does not depend on their names."""
        found = (charge_of(each, self._devices.classes) for each in claims)
        return tuple(sorted(each for each in found if each))

    def _of_own(self, claims: Iterable[ClaimSpec]) -> Iterator[ClaimCharge]:
        for spec in claims:
            if amounts := most_of(spec, self._devices.classes):
                yield ClaimCharge(amounts)

    def _of_shared(
        self, claims: Iterable[tuple[str, str]], queue: QueueName, renewed: Container[tuple[str, str]]
    ) -> Iterator[ClaimCharge]:
        for key in claims:
            claim, name = self._state.claim(*key), "/".join(key)
            if claim is None or (key not in renewed and self._queues.get(name) == queue):
                continue
            classes = self._devices.classes
            if amounts := most_of(claim.spec, classes) if key in renewed else charge_of(claim, classes):
                yield ClaimCharge(amounts, claim=name)

    @cached_property
    def _queues(self) -> dict[str, QueueName]:
        """The queue that is charged for each claim of placed pods."""
        return {each.claim: gang.queue for gang, _, each in self._placed() if each.claim}

    def _placed(self) -> Iterator[tuple[Gang, Pod, ClaimCharge]]:
        """The charges of pods that have nodes."""
        for gang in self._gangs:
            if gang.claims_devices:
                for pod in gang.members:
                    for each in pod.charges if pod.node is not None else ():
                        yield gang, pod, each

    def moved(
        self, gone: Sequence[Pod], ended: Container[PodUid]
    ) -> Iterator[tuple[QueueName, NodeName, Resources]]:
        """What queues are charged more, or less, if `gone` pods end after the `ended` ones: other users of
        their claims are charged then. What the gone pods are charged in the snapshot is not included."""
        uids = {pod.uid for pod in gone}
        for name in dict.fromkeys(name for pod in gone for name in _named(pod) if name in self._users):
            charge, users = self._users[name]
            left = [each for each in users if each[0].uid not in ended]
            after = [each for each in left if each[0].uid not in uids]
            if not left or left[0] in after:
                continue
            if left[0] is not users[0]:
                yield *left[0][1:], scale(charge, -1)
            if after:
                yield *after[0][1:], charge

    def released(
        self, pods: Iterable[Pod], queue: QueueName, ended: Container[PodUid]
    ) -> dict[str, Resources]:
        """What the queue is to be charged again for claims of these pods, for which no pod of it is charged
        once the `ended` ones are gone; by claim."""
        pods, found = tuple(pods), dict[str, Resources]()
        counted = {each.claim for pod in pods for each in pod.charges}
        named = dict.fromkeys(name for pod in pods for name in _named(pod) if name not in counted)
        names = [name for name in named if self._queues.get(name) == queue]
        for name in names:
            left = self.users(name, ended)
            if not left or left[0][0] != queue:
                found[name] = self._users[name][0]
        return found

    def users(self, name: str, ended: Container[PodUid] = ()) -> list[tuple[QueueName, NodeName]]:
        """Queues and nodes of the pods that use a claim once the `ended` ones are gone: the first is charged.
        None for a claim that no queue is charged for."""
        users = self._users[name][1] if name in self._users else ()
        return [(queue, node) for pod, queue, node in users if pod.uid not in ended]

    def amounts(self, name: str) -> Resources:
        """What a queue is charged for the claim of this name."""
        claim = self._state.claim(*name.split("/"))
        return dict(charge_of(claim, self._devices.classes)) if claim is not None else NONE

    @cached_property
    def of_several_queues(self) -> tuple[str, ...]:
        """The claims that placed pods of several queues use."""
        if not self._devices.claims:
            return ()
        return tuple(
            name for name, (_, users) in self._users.items() if len({queue for _, queue, _ in users}) > 1
        )

    @cached_property
    def _users(self) -> dict[str, tuple[Resources, list[tuple[Pod, QueueName, NodeName]]]]:
        """By claim that a placed pod is charged for: the amounts, and the placed pods that name it, in the
        order in which they are charged."""
        charged = {each.claim: (pod, dict(each.amounts)) for _, pod, each in self._placed() if each.claim}
        found: dict[str, list[tuple[Pod, QueueName, NodeName]]] = {name: [] for name in charged}
        for gang in self._gangs:
            for pod in gang.members if gang.claims_devices else ():
                if pod.node is None or not pod.holds_node:
                    continue
                for name in _named(pod):
                    if name in charged and charged[name][0].scheduler_name == pod.scheduler_name:
                        found[name].append((pod, gang.queue, NodeName(pod.node)))
        for name, users in found.items():
            first = charged[name][0].uid
            users.sort(key=lambda each: (each[0].uid != first, each[0].created, each[0].uid))
        return {name: (amounts, found[name]) for name, (_, amounts) in charged.items()}

    @cached_property
    def by_node(self) -> Mapping[NodeName, Resources]:
        """What queues are charged for claims of placed pods, on each node."""
        found: dict[NodeName, dict[str, int]] = {}
        for _, pod, each in self._placed():
            amounts = found.setdefault(NodeName(pod.node or ""), {})
            for name, amount in each.amounts:
                amounts[name] = amounts.get(name, 0) + amount
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The resources that claims count as, sorted."""
        if self._names[0] != len(self._known):
            found = {name for amounts in self.by_node.values() for name in amounts}
            waiting = (each for some in self._known.values() for each in some)
            found.update(name for each in waiting for name, _ in each.amounts)
            self._names = (len(self._known), tuple(sorted(found)))
        return self._names[1]

    def devices_of(self, nodes: Container[NodeName]) -> Iterator[tuple[str, DeviceId]]:
        """The devices of claims that queues are charged for on these nodes, and of extended resources of pods
        there, each with the resource that it counts as."""
        for gang in self._gangs:
            for pod in gang.members if gang.claims_devices else ():
                if pod.node is None or not pod.holds_node or NodeName(pod.node) not in nodes:
                    continue
                for each in pod.charges:
                    claim = self._state.claim(*each.claim.split("/")) if each.claim else None
                    yield from _devices_as((name for name, _ in each.amounts), claim)
                if pod.extended is not None:
                    names = (*pod.extended.resources, *own_charges(pod))
                    yield from _devices_as(names, self._state.extended_claim(pod.uid))


def _devices_as(names: Iterable[str], claim: Claim | None) -> Iterator[tuple[str, DeviceId]]:
    if claim is not None and claim.allocation is not None:
        for name in names:
            yield from ((name, each.device) for each in claim.allocation.devices)


def _named(pod: Pod) -> Iterator[str]:
    return (f"{pod.namespace}/{each.claim}" for each in pod.device_claims if each.claim)
