"""Project what pods need of supplies to amounts that add up: the solver knows no parts of nodes.

What consists of parts is projected by its supply (`OpenSupply.project`). Of other supplies every node offers
the same, so nodes do not list it; the projection adds it. What a node has of volumes that exist already, and
of space for new ones, is known to the session. For devices of claims see `device_projection`. What queues are
charged for them is projected too (`charge_projection`).
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from phalanx.actions.nodes.charge_projection import ChargeProjection, charge_projection
from phalanx.actions.nodes.device_projection import (
    DeviceProjection,
    device_projection,
    keeps_devices_apart,
)
from phalanx.framework.session import Session
from phalanx.framework.volume_supply import VolumeAmounts
from phalanx.model.names import NodeName
from phalanx.model.nodes import NodeState
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources
from phalanx.model.supplies.known import supplied_of, supply_of, with_offered, with_supplied
from phalanx.model.supplies.supply import Projection


def is_safety(resource: str) -> bool:
    """Whether the amount keeps pods of several kinds apart that might fit together."""
    supply = supply_of(resource)
    return keeps_devices_apart(resource) or (supply is not None and supply.is_safety(resource))


FreeAmounts = Callable[[NodeName], Resources]


class ResourceProjection(Struct, frozen=True):
    """The projections that certain pods need; None for those that they do not."""

    parts: tuple[Projection, ...]
    supplied: tuple[str, ...] = ()
    """The resources of supplies that these pods use: nodes do not list what they offer of them."""
    volumes: VolumeAmounts | None = None
    devices: DeviceProjection | None = None
    charges: ChargeProjection | None = None

    @property
    def are_plain(self) -> bool:
        """Whether no projection is needed."""
        others = (self.volumes, self.devices, self.charges)
        return not self.supplied and not self.parts and others == (None, None, None)

    def asked(self, pods: Sequence[Pod]) -> list[Resources]:
        """The projected requests of these pods."""
        asked = [with_supplied(pod.shape) for pod in pods]
        for part in self.parts:
            asked = [part.request(pod.shape, some) for some, pod in zip(asked, pods, strict=True)]
        if self.devices is not None:
            asked = [{**some, **self.devices.request(pod)} for some, pod in zip(asked, pods, strict=True)]
        if self.charges is not None:
            asked = [self.charges.request(pod, some) for some, pod in zip(asked, pods, strict=True)]
        return asked

    def free(self, session: Session) -> FreeAmounts:
        """A function that returns the projected free amounts of a node."""
        if self.are_plain:
            return session.free
        return lambda node: self.of_node(session, session.nodes[node], session.free(node))

    def of_node(self, session: Session, state: NodeState, free: Resources) -> Resources:
        """The projection of these free amounts of a node."""
        found = with_offered(free, self.supplied)
        if self.volumes is not None:
            found = {**found, **self.volumes.on(state.node.name)}
        for part in self.parts:
            found = part.free(state, found)
        found = found if self.devices is None else self.devices.free(session.devices, state.node, found)
        return found if self.charges is None else self.charges.free(found)


def projection_for(session: Session, pods: Sequence[Pod], most: Sequence[int]) -> ResourceProjection:
    """The projection for these pods, one of each kind that is placed together. `most`: a node gets at most so
    many of each."""
    shapes = [pod.shape for pod in pods]
    supplied = supplied_of(shapes)
    devices = device_projection(session, pods, most)
    volumes = volume_amounts(session, pods)
    parts = tuple([supply.project(shapes) for supply in session.facts.needed_supplies(shapes)])
    return ResourceProjection(
        parts, supplied, volumes=volumes, devices=devices, charges=charge_projection(pods)
    )


def volume_amounts(session: Session, pods: Sequence[Pod]) -> VolumeAmounts | None:
    """What nodes have of the volumes that these pods need; None if they need none."""
    shapes = [pod.shape for pod in pods if pod.shape.volume_sets]
    return VolumeAmounts(session.volume_supply, shapes) if shapes else None
