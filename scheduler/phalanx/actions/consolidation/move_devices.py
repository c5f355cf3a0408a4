"""The devices of claims in a plan of moves, as amounts of nodes.

What claims ask for is counted for each set of kinds of requests (`joint_slots`), of which devices that end
free as many as match one of the kinds: so the devices of several gangs add up. Devices in shares are counted
by their capacity (`move_shares`). Where that does not tell what fits, on a node or for all claims, devices do
not limit the plan; its check does. Nor do those of claims that pods share; devices that several nodes can use
and that end free count on each node.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from phalanx.actions.consolidation.movable_gangs import Movable
from phalanx.actions.consolidation.move_shares import MoveShares
from phalanx.actions.demands.demand import Demand
from phalanx.framework.session import Session
from phalanx.model.names import NodeName
from phalanx.model.pods import Pod
from phalanx.model.resources import NONE, Resources
from phalanx.model.supplies.devices.joint_slots import PlainKinds, plain_kinds
from phalanx.model.supplies.devices.session.needs import DEVICE_SLOT, Need
from phalanx.model.supplies.devices.session.projection import PLENTY
from phalanx.model.supplies.devices.session.session_devices import claimed_devices
from phalanx.model.supplies.devices.session.shared_choices import EVERYWHERE
from phalanx.model.supplies.devices.uses import NONE_TAKEN, DeviceUse, is_share


class MoveDevices:
    """The devices that are free in the session, and those that movable gangs have."""

    def __init__(self, session: Session, demand: Demand, units: Sequence[Movable]) -> None:
        self._session = session
        pods = [
            batch.pods[0] for each in (demand, *(unit.demand for unit in units)) for batch in each.batches
        ]
        needs = {
            pod.shape.device_slot: claimed_devices(session).needs.of(pod.shape)
            for pod in pods
            if pod.shape.device_slot
        }
        self._kinds = _kinds(needs.values())
        self._asked: Mapping[str, Resources] = {}
        self._free: Mapping[NodeName, Resources] = {}
        self._freed: Sequence[Mapping[NodeName, Resources]] = [{} for _ in units]
        if self._kinds is not None:
            self._shares = MoveShares(session, needs.values())
            self._asked = {
                name: {**self._amounts(self._kinds.asked(need.claims)), **self._shares.asked(need)}
                for name, need in needs.items()
            }
            self._count(units, self._kinds)

    def asked(self, pod: Pod) -> Resources:
        """What one pod asks for."""
        return self._asked.get(pod.shape.device_slot, NONE)

    def free(self, node: NodeName) -> Resources:
        """What is free on the node."""
        return self._free.get(node, NONE)

    def freed(self, unit: int) -> Mapping[NodeName, Resources]:
        """What the end of the pods of this unit frees, by node."""
        return self._freed[unit]

    def _count(self, units: Sequence[Movable], kinds: PlainKinds) -> None:
        devices, nodes = claimed_devices(self._session), self._session.nodes
        ended = [devices.changes.freed_by(unit.pods) if _has_claims(unit) else {} for unit in units]
        together: dict[NodeName, frozenset[DeviceUse]] = {}
        for each in ended:
            for node, some in each.items():
                together[node] = together.get(node, NONE_TAKEN) | some
        unknown = {
            name
            for name, state in nodes.items()
            if devices.counts_with(kinds, state.node, together.get(name, NONE_TAKEN)) is None
        }
        before = {
            name: devices.free_for_any(kinds, (), state.node).least
            for name, state in nodes.items()
            if name not in unknown
        }
        plenty = [PLENTY for _ in kinds.sets]
        self._free = {
            name: {**self._amounts(before.get(name) or plenty), **self._shares.free(name)} for name in nodes
        }
        self._freed = [self._ended(each, before, kinds) for each in ended]

    def _ended(
        self,
        freed: Mapping[NodeName, frozenset[DeviceUse]],
        before: Mapping[NodeName, Sequence[int] | None],
        kinds: PlainKinds,
    ) -> dict[NodeName, Resources]:
        """What these devices add to what was free before, by node."""
        devices, nodes = claimed_devices(self._session), self._session.nodes
        no_more = [0 for _ in kinds.sets]
        found = {
            node: _difference(before[node], devices.counts_with(kinds, nodes[node].node, some))
            if node in before
            else no_more
            for node, some in freed.items()
            if node in nodes
        }
        everywhere = freed.get(NodeName(EVERYWHERE), frozenset())
        shared = Counter((each[0], each[1]) for each in everywhere if not is_share(each))
        for node in before if shared else ():
            pools = devices.pools_of(nodes[node].node)
            more = sum(count for pool, count in shared.items() if pool in pools)
            if more:
                found[node] = [count + more for count in found.get(node, no_more)]
        return {
            node: {**self._amounts(counts), **self._shares.freed(node, tuple(freed.get(node, ())))}
            for node, counts in found.items()
        }

    def _amounts(self, counts: Sequence[int]) -> Resources:
        return {f"{DEVICE_SLOT}of kinds {index}": count for index, count in enumerate(counts)}


def _kinds(needs: Iterable[Need]) -> PlainKinds | None:
    """The kinds of requests of all claims; None if there are none, or if these do not tell what fits."""
    found = list(needs)
    if not found or any(need.extended is not None for need in found):
        return None
    kinds = plain_kinds([spec for need in found for spec in need.claims])
    return None if kinds is None or kinds.has_constraints else kinds


def _difference(before: Sequence[int] | None, after: Sequence[int] | None) -> list[int]:
    return [more - less for less, more in zip(before or (), after or (), strict=True)]


def _has_claims(unit: Movable) -> bool:
    return any(pod.device_claims for pod in unit.pods)
