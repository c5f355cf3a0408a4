"""Traffic between roles as a matrix, and how much of it stays inside the domains of a placement.

Each member of a role sends to each other member of a role, so traffic inside a set of members depends only on
how many members of each role are in it. What crosses the domains of a level is all traffic without what is
inside each of them.
"""

from collections.abc import Hashable, Sequence

from msgspec import Struct

from phalanx.model.names import NodeName
from phalanx.rules.anchors import RoleAnchor

NO_TRAFFIC = -1
"""Stands for the index of a role that neither sends nor receives."""


Located = tuple[Sequence[str], NodeName, int, int]
"""Path and node of members, the index of their role, and their number."""


class TrafficMatrix(Struct, frozen=True):
    """The traffic of one gang. Indices of roles are those of `weights`, not those of the problem."""

    weights: tuple[tuple[int, ...], ...]
    """`weights[a][b]`: what each member of a sends to each other member of b."""
    members: tuple[int, ...]
    """The index of each role of the problem, or NO_TRAFFIC."""
    anchors: tuple[tuple[RoleAnchor, int], ...]
    """Running members with the index of their role."""

    @property
    def size(self) -> int:
        """The number of roles."""
        return len(self.weights)

    def inside(self, counts: Sequence[int]) -> int:
        """The traffic among so many members of each role, exactly."""
        total = 0
        for count, row, index in zip(counts, self.weights, range(len(counts)), strict=True):
            if count:
                total += count * sum([weight * other for weight, other in zip(row, counts, strict=True)])
                total -= count * row[index]
        return total

    def crossing(self, placed: Sequence[Located], levels: int) -> list[int]:
        """The traffic between different domains of each level, and between different nodes, exactly."""
        entries = [*placed, *((each.path, each.node, index, each.count) for each, index in self.anchors)]
        totals = [0] * self.size
        for _, _, index, count in entries:
            totals[index] += count
        everything, found = self.inside(totals), []
        for level in range(levels + 1):
            domains: dict[Hashable, list[int]] = {}
            for path, node, index, count in entries:
                domains.setdefault(_place(path, node, level, levels), [0] * self.size)[index] += count
            found.append(everything - sum(map(self.inside, domains.values())))
        return found

    def both_ways(self, one: int, other: int) -> int:
        """What a member of one role and a member of another one send to each other."""
        return self.weights[one][other] + self.weights[other][one]

    def is_connected(self, pods: Sequence[int]) -> bool:
        """Whether so many pods of each role of the problem cannot be split without splitting traffic."""
        counts = [0] * self.size
        for index, count in zip(self.members, pods, strict=True):
            if index == NO_TRAFFIC and count:
                return False
            if count:
                counts[index] += count
        present = [index for index, count in enumerate(counts) if count]
        if len(present) == 1:
            (only,) = present
            return counts[only] == 1 or self.weights[only][only] > 0
        reached = present[:1]
        for index in reached:
            reached += [
                other for other in present if other not in reached and self.both_ways(index, other) > 0
            ]
        return bool(present) and len(reached) == len(present)

    @property
    def least(self) -> int:
        """The least positive amount that two members exchange."""
        indices = range(self.size)
        amounts = [self.both_ways(one, other) for one in indices for other in indices]
        return min([amount for amount in amounts if amount > 0], default=0)


def _place(path: Sequence[str], node: NodeName, level: int, levels: int) -> Hashable:
    """The domain of a level; the node itself if it lacks the label, and below all levels."""
    return tuple(path[: level + 1]) if level < levels and len(path) > level else node
