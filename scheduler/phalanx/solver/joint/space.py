"""The domains inside one region, and how many pods of each kind fit into them alone."""

from functools import cached_property

import numpy as np

from phalanx.solver.arrays import IntArray
from phalanx.solver.joint.arrays import Region, labelled


class Space:
    """Depths are numbers of levels from the widest; domains of a depth are numbers."""

    def __init__(self, region: Region) -> None:
        self.region = region

    def room(self, depth: int, *, known: int = 0) -> list[list[int]]:
        """Per domain of this depth, how many pods of each role fit alone, on nodes with `known` labels."""
        fits = np.where(labelled(self.region, known)[:, None], self._fits, 0)
        rows = self.region.table.rows
        room = np.zeros((len(rows.tree.open[depth - 1]), fits.shape[1]), dtype=np.int64)
        np.add.at(room, rows.domain[depth - 1], fits)
        listed: list[list[int]] = room.tolist()
        return listed

    def outer(self, domain: int, depth: int, outer: int) -> int:
        """The domain of depth `outer` around a domain of a deeper one."""
        for level in range(depth - 1, outer - 1, -1):
            domain = int(self.region.table.rows.tree.parent[level][domain])
        return domain

    @cached_property
    def _fits(self) -> IntArray:
        rows = self.region.table.rows
        most = [role.maximum for role in rows.problem.roles]
        return np.minimum(rows.fits, most) * rows.count[:, None]
