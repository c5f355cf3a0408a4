"""A flow in a network without sources and sinks: each arc has a least and a greatest flow.

The flow changes along cycles of the residual network. So if it cannot change as wanted, no flow within the
bounds has what is wanted (Ahuja, Magnanti and Orlin, Network Flows, 1993, section 6.7).
"""

from collections import deque
from collections.abc import Mapping


class Circulation:
    """The arcs by their numbers, with their bounds and their flow; nodes are numbers from 0 on."""

    def __init__(self, nodes: int) -> None:
        self.lows: list[int] = []
        self.highs: list[int] = []
        self.flows: list[int] = []
        self._ends: list[tuple[int, int]] = []
        self._around: list[list[tuple[int, int, bool]]] = [[] for _ in range(nodes)]

    def add(self, tail: int, head: int, low: int, high: int) -> int:
        """Add an arc without flow; return its number."""
        arc = len(self.flows)
        self.lows.append(low)
        self.highs.append(high)
        self.flows.append(0)
        self._ends.append((tail, head))
        self._around[tail].append((arc, head, True))
        self._around[head].append((arc, tail, False))
        return arc

    def brings_inside(self, arc: int) -> bool:
        """Whether the flow of the arc can be brought inside its bounds; the flow changes so far as it can.

        No other arc leaves its bounds.
        """
        tail, head = self._ends[arc]
        while (lacking := self.lows[arc] - self.flows[arc]) > 0:
            changed = self._changed(head, tail, arc, lacking)
            if not changed:
                return False
            self.flows[arc] += changed
        while (excess := self.flows[arc] - self.highs[arc]) > 0:
            changed = self._changed(tail, head, arc, excess)
            if not changed:
                return False
            self.flows[arc] -= changed
        return True

    def _changed(self, start: int, end: int, without: int, most: int) -> int:
        """How much was sent from one node to the other, along one path or several ones."""
        came: dict[int, tuple[int, int, bool]] = {start: (-1, -1, True)}
        queue, sent = deque([start]), 0
        lows, highs, flows = self.lows, self.highs, self.flows
        while queue and sent < most:
            node = queue.popleft()
            for arc, other, forward in self._around[node]:
                if other in came or arc == without:
                    continue
                if flows[arc] >= highs[arc] if forward else flows[arc] <= lows[arc]:
                    continue
                if other != end:
                    came[other] = (node, arc, forward)
                    queue.append(other)
                elif sent < most:
                    sent += self._send(came, (node, arc, forward), most - sent)
        return sent

    def _send(self, came: Mapping[int, tuple[int, int, bool]], last: tuple[int, int, bool], most: int) -> int:
        """How much was sent along the path that ends with this step; it may have been used up before."""
        steps = []
        node, arc, forward = last
        while arc >= 0:
            steps.append((arc, forward))
            node, arc, forward = came[node]
        amount = min(most, *(self._residual(*step) for step in steps))
        for arc, forward in steps:
            self.flows[arc] += amount if forward else -amount
        return amount

    def _residual(self, arc: int, forward: bool) -> int:
        flow = self.flows[arc]
        return self.highs[arc] - flow if forward else flow - self.lows[arc]
