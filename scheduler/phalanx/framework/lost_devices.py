"""The devices that are held for claims of lost members."""

from collections.abc import Iterable, Iterator

from phalanx.framework.changes import CapacityHold
from phalanx.model.names import NodeName
from phalanx.model.pods import Assignments
from phalanx.model.supplies.devices.session.grants import Granting, Places
from phalanx.model.supplies.devices.session.session_devices import SessionDevices
from phalanx.model.supplies.devices.uses import DeviceUse


def granted_to_lost(devices: SessionDevices, assignments: Assignments) -> Iterator[Granting]:
    """Devices for claims of the placeholders of lost members: for all together, else for each that can have
    some. Each part must be taken before the next one is asked for."""
    wanted = [
        (node, [pod for pod in pods if devices.needs.claims_of_lost(pod) is not None])
        for node, pods in assignments
    ]
    wanted = [(node, pods) for node, pods in wanted if pods]
    found = devices.allocate(wanted) if wanted else None
    if found is not None:
        yield found
        return
    for node, pod in [(node, pod) for node, pods in wanted for pod in pods]:
        found = devices.allocate([(node, (pod,))])
        if found is not None:
            yield found


def held_by(hold: CapacityHold, devices: SessionDevices) -> Places:
    nodes = [(node, pod.uid) for node, pods in hold.assignments for pod in pods if pod.uid in hold.claimed]
    return by_place(((node, hold.claimed[pod]) for node, pod in nodes), devices)


def united(places: Iterable[Places]) -> Places:
    """All these devices."""
    found: Places = {}
    for each in places:
        for place, some in each.items():
            found[place] = found.get(place, frozenset()) | some
    return found


def by_place(held: Iterable[tuple[NodeName, Iterable[DeviceUse]]], devices: SessionDevices) -> Places:
    """Devices that are held for pods on these nodes."""
    return united(dict(devices.by_place(node, frozenset(uses))) for node, uses in held)
