"""What one session leaves to the next, since from one cycle to the next little changes.

Everything here is compared with what it was worked out from, so that it says what a session alone would say:
it changes no decision. What is kept is replaced as a whole and never changed, so that sessions that overlap
may be slower for it, but not wrong.
"""

from collections.abc import Mapping, Sequence

from phalanx.framework.config import SchedulerConfig
from phalanx.framework.nodes.node_facts import FaultCheck, NodeFacts
from phalanx.framework.running_sums import RunningSums
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, NodeName
from phalanx.model.nodes import NodeState

Settled = Mapping[GangId, Gang]
"""Gangs that have what they need, on good nodes."""


class SessionCache:
    """One per sequence of cycles; a session that is none of them has its own."""

    def __init__(self) -> None:
        self.sums = RunningSums()
        self._facts: tuple[SchedulerConfig, NodeFacts] | None = None
        self._settled: tuple[NodeFacts, Settled] | None = None

    def node_facts(
        self,
        states: Mapping[NodeName, NodeState],
        config: SchedulerConfig,
        fault_checks: Sequence[FaultCheck],
    ) -> NodeFacts:
        """Those of the last session where no node is another one now."""
        nodes = tuple([state.node for state in states.values()])
        known = self._facts
        if known is not None and known[0] == config and known[1].nodes == nodes:
            return known[1]
        made = NodeFacts(nodes, fault_checks)
        self._facts = (config, made)
        return made

    def incomplete(self, gangs: Mapping[GangId, Gang], facts: NodeFacts) -> tuple[Gang, ...]:
        """All gangs but those that have what they need, on nodes with which nothing is wrong."""
        kept = self._settled
        known = kept[1] if kept is not None and kept[0] is facts else {}
        news = [gang for name, gang in gangs.items() if known.get(name) is not gang]
        incomplete = tuple([gang for gang in news if not (gang.is_stable and gang.nodes <= facts.good)])
        self._settled = (facts, _settled(known, gangs, news, incomplete))
        return incomplete


def _settled(
    known: Settled, gangs: Mapping[GangId, Gang], news: list[Gang], unsettled: tuple[Gang, ...]
) -> Settled:
    settled = {**known, **{gang.id: gang for gang in news}}
    for gang in unsettled:
        del settled[gang.id]
    if len(settled) + len(unsettled) > len(gangs):
        for gone in settled.keys() - gangs.keys():
            del settled[gone]
    return settled
