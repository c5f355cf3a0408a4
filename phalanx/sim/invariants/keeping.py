"""On which nodes the leader keeps room for somebody, as its last decision says: others may wait beside it."""

from collections.abc import Iterable

from phalanx.model.decisions import CycleResult
from phalanx.model.names import GangId, NodeName


class Keeping:
    """Tell it of every cycle; a new leader keeps what it says itself."""

    def __init__(self) -> None:
        self._nodes: dict[GangId, dict[NodeName, None]] = {}

    def take(self, result: CycleResult) -> None:
        """What is kept for whom room is made, who is moved, who is promised a start, who lacks members."""
        memory = result.memory
        self._nodes = {}
        for kept in (memory.nominations, memory.moves, memory.promised):
            for gang, each in kept.items():
                self._keep(gang, each.seats)
        for gang, seated in memory.seated.items():
            self._keep(gang, seated.room)

    def _keep(self, gang: GangId, nodes: Iterable[NodeName]) -> None:
        self._nodes.setdefault(gang, {}).update(dict.fromkeys(nodes))

    def nodes(self, *, but: str) -> frozenset[str]:
        """The nodes; not those that are kept only for this gang (its UID)."""
        kept = [nodes for gang, nodes in self._nodes.items() if gang != but]
        return frozenset(str(name) for nodes in kept for name in nodes)
