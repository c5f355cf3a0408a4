"""Amounts as the solver sees them: what stands for parts of nodes (devices, zones) is made to add up."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from phalanx.actions.nodes.numa import ZoneProjection, zone_projection
from phalanx.actions.nodes.shares import ShareProjection, share_projection
from phalanx.framework.session import Session
from phalanx.model.names import NodeName
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources

FreeAmounts = Callable[[NodeName], Resources]


class ResourceProjection(Struct, frozen=True):
    """What makes the amounts of certain pods add up; None for what they do not ask for."""

    shares: ShareProjection | None
    zones: ZoneProjection | None

    @property
    def are_plain(self) -> bool:
        """Whether amounts add up as they are."""
        return self.shares is None and self.zones is None

    def asked(self, pods: Sequence[Pod]) -> list[Resources]:
        """What each of these pods asks for."""
        shares, zones = self.shares, self.zones
        asked = [pod.shape.requests for pod in pods]
        if shares is not None:
            asked = [shares.request(each) for each in asked]
        if zones is not None:
            asked = [{**each, **zones.request(pod)} for each, pod in zip(asked, pods, strict=True)]
        return asked

    def free(self, session: Session) -> FreeAmounts:
        """What is free on each node of a session, as these pods see it."""
        shares, zones = self.shares, self.zones
        if self.are_plain:
            return session.free

        def free(node: NodeName) -> Resources:
            found = session.free(node) if shares is None else shares.free(session, node)
            return found if zones is None else zones.free(session.nodes[node].node, found)

        return free


def projection_for(session: Session, pods: Sequence[Pod]) -> ResourceProjection:
    """What these pods need, a pod of each kind that is placed together."""
    return ResourceProjection(share_projection(pods), zone_projection(session, pods))
