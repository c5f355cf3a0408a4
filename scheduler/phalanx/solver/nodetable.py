"""The nodes behind the rows one by one, for backends that choose single nodes."""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from phalanx.model.names import NodeName
from phalanx.solver.arrays import IntArray, Rows
from phalanx.solver.problem import Assignment

Counts = NDArray[np.int64]
"""Pods placed: one line per node of a selection, one column per role."""


class NodeTable(Struct, frozen=True, eq=False):
    """Names of the nodes and the row of each. A selection of nodes is an array of positions in this table."""

    rows: Rows
    names: tuple[NodeName, ...]
    row: IntArray

    @property
    def everything(self) -> IntArray:
        """The selection of all nodes."""
        return np.arange(len(self.names), dtype=np.int64)


def nodes_of(rows: Rows) -> NodeTable:
    """The table of a problem's usable nodes, in the problem's order."""
    return NodeTable(
        rows=rows,
        names=tuple(name for names in rows.nodes for name in names),
        row=np.repeat(np.arange(len(rows.nodes), dtype=np.int64), rows.count),
    )


class Found(Struct, frozen=True, eq=False):
    """A placement on selected nodes, before it is checked and certified."""

    nodes: IntArray
    counts: Counts

    @property
    def placed(self) -> list[int]:
        """Pods placed per role."""
        placed: list[int] = self.counts.sum(axis=0).tolist()
        return placed


def assignments_of(table: NodeTable, found: Found) -> list[Assignment]:
    """The placement in the form of an answer."""
    used, roles = np.nonzero(found.counts)
    nodes, counts = found.nodes[used].tolist(), found.counts[used, roles].tolist()
    return [
        Assignment(role=role, node=table.names[node], count=count)
        for role, node, count in zip(roles.tolist(), nodes, counts, strict=True)
    ]
