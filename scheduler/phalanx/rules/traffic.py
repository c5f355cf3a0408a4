"""Traffic between the roles of a gang."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.rules.anchors import RoleAnchor
from phalanx.rules.primitives import Primitive
from phalanx.rules.problem import PlacementProblem, Rule
from phalanx.rules.traffic_matrix import NO_TRAFFIC, TrafficMatrix


class Flow(Struct, frozen=True):
    """What each member of a role sends to each other member of a role."""

    sender: str
    receiver: str
    weight: int


class Traffic(Rule, frozen=True, tag="traffic"):
    """Preference: little traffic between different domains, the widest level first, then between nodes."""

    is_about_pairs = True

    flows: tuple[Flow, ...]
    members: tuple[str, ...] = ()
    """The role of the pods of each role of the problem. Empty: the problem does not count traffic."""
    anchors: tuple[RoleAnchor, ...] = ()
    """Where members already run."""

    def depth(self, levels: Sequence[str]) -> int:
        """All levels count traffic."""
        return len(levels)

    def lower(self, problem: PlacementProblem) -> Iterator[Primitive]:
        indices: dict[str, int] = {}
        for flow in self.flows:
            for name in (flow.sender, flow.receiver):
                indices.setdefault(name, len(indices))
        weights = [[0] * len(indices) for _ in indices]
        for flow in self.flows:
            weights[indices[flow.sender]][indices[flow.receiver]] += flow.weight
        members = tuple([indices.get(name, NO_TRAFFIC) for name in self.members])
        anchors = [(anchor, indices[anchor.role]) for anchor in self.anchors if anchor.role in indices]
        if any(index != NO_TRAFFIC for index in members):
            yield TrafficMatrix(weights=tuple(map(tuple, weights)), members=members, anchors=tuple(anchors))

    def with_roles(self, members: tuple[str, ...], anchors: tuple[RoleAnchor, ...]) -> Rule:
        return replace(self, members=members, anchors=anchors)
