"""What a refused placement shows: on a node, its pods cannot have devices together. Other tries respect it.

A node that is short of devices keeps the largest part of its pods that has devices, and takes no others but
those that have devices beside them. That may exclude other combinations that fit, so several parts are tried:
in each order of the needs, the pods of the first one stay as long as they have devices.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from phalanx.actions.demands.demand import Demand
from phalanx.framework.session import Session
from phalanx.model.names import NodeName, PodUid
from phalanx.model.pods import Assignments, Pod
from phalanx.model.supplies.devices.session.session_devices import SessionDevices, claimed_devices
from phalanx.model.supplies.devices.session.shared_amounts import DeviceBounds
from phalanx.model.supplies.supply import SessionSupply

Parts = Mapping[NodeName, tuple[tuple[str, int], ...]]
"""How many pods a node takes, by the name of their need."""

Short = Sequence[tuple[NodeName, Sequence[Pod]]]
"""Nodes on which some of their pods with claims get no devices."""


def short_of_devices(session: Session, assignments: Assignments, lacking: SessionSupply) -> Short:
    """The nodes that are short of devices for these pods; only pods that differ can lack them so.

    `lacking`: the supply that does not suffice.
    """
    if not isinstance(lacking, SessionDevices):
        return ()
    on_node: dict[NodeName, list[Pod]] = {}
    for node, pods in assignments:
        on_node.setdefault(node, []).extend(pod for pod in pods if pod.shape.device_slot)
    return [
        (node, pods)
        for node, pods in on_node.items()
        if len({pod.shape.device_slot for pod in pods}) > 1 and not _have_devices(session, node, pods)
    ]


def orders(demand: Demand) -> Iterator[Sequence[str]]:
    """Orders of the needs of the members: each begins with another one."""
    names = sorted({batch.pods[0].shape.device_slot for batch in demand.batches} - {""})
    for at in range(len(names)):
        yield names[at:] + names[:at]


def parts_that_fit(
    session: Session, demand: Demand, short: Short, names: Sequence[str]
) -> dict[NodeName, tuple[tuple[str, int], ...]]:
    """For each of these nodes how many pods it gets, by their need. `names`: of needs, in the order in which
    their pods stay."""
    everyone = [pod for batch in demand.batches for pod in batch.pods]
    return {node: _largest_part(session, node, (pods, everyone), names) for node, pods in short}


def assuming(session: Session, parts: Parts) -> AbstractContextManager[None]:
    """Within this context, these nodes take at most so many pods with each need."""
    return claimed_devices(session).assuming(DeviceBounds(parts=tuple(sorted(parts.items()))))


def _largest_part(
    session: Session, node: NodeName, groups: Sequence[Sequence[Pod]], names: Sequence[str]
) -> tuple[tuple[str, int], ...]:
    chosen: dict[PodUid, Pod] = {}
    for pods in groups:
        for name in names:
            left = [pod for pod in pods if pod.shape.device_slot == name and pod.uid not in chosen]
            more = left[: _most(session, node, list(chosen.values()), left)]
            chosen.update((pod.uid, pod) for pod in more)
    counts = Counter(pod.shape.device_slot for pod in chosen.values())
    return tuple([(name, counts[name]) for name in names])


def _most(session: Session, node: NodeName, chosen: Sequence[Pod], equal: Sequence[Pod]) -> int:
    """How many of these equal pods have devices on the node beside those that are chosen."""
    low, high = 0, len(equal)
    while low < high:
        middle = (low + high + 1) // 2
        if _have_devices(session, node, [*chosen, *equal[:middle]]):
            low = middle
        else:
            high = middle - 1
    return low


def _have_devices(session: Session, node: NodeName, pods: Sequence[Pod]) -> bool:
    return claimed_devices(session).allocate([(node, tuple(pods))]) is not None
