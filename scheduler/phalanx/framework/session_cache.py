"""Cache values of a session for the next one, since little changes between cycles.

Cached values never change a decision: a value is used only if its inputs are unchanged. Values are replaced
and never modified, so overlapping sessions may be slower but not wrong.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from phalanx.framework.config import SchedulerConfig
from phalanx.framework.nodes.affinity import AffinityCache
from phalanx.framework.nodes.node_facts import FaultCheck, NodeFacts
from phalanx.framework.overriders import Overriders
from phalanx.framework.plugin import Plugin
from phalanx.framework.running_sums import RunningSums
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, NodeName
from phalanx.model.nodes import NodeState

K = TypeVar("K")

Complete = Mapping[GangId, Gang]
"""Gangs that have all their members on healthy nodes."""


class SessionCache:
    """The cache of a sequence of cycles."""

    def __init__(self, overriders: Overriders | None = None) -> None:
        """`overriders`: of the classes of the plugins, if they are known already."""
        self.sums = RunningSums()
        self._kept: dict[type, Any] = {}
        self.affinity = AffinityCache()
        self._facts: tuple[SchedulerConfig, NodeFacts] | None = None
        self._complete: tuple[NodeFacts, Complete] | None = None
        self._overriders = overriders or Overriders(())

    def kept(self, kind: type[K]) -> K:
        """What a supply keeps from session to session."""
        if kind not in self._kept:
            self._kept[kind] = kind()
        made: K = self._kept[kind]
        return made

    def for_trial(self) -> "SessionCache":
        """A cache for sessions on other snapshots, which begins with what such snapshots may share."""
        made = SessionCache(self._overriders)
        made.affinity = self.affinity.copy()
        return made

    def forget_unused(self, gangs: Collection[GangId]) -> None:
        """Forget what no session has used lately. `gangs`: those of the last snapshot."""
        self.sums.forget_unused()
        self.affinity.forget_unused(gangs)

    def overriders(self, plugins: Iterable[Plugin]) -> Overriders:
        """Those of the classes of these plugins."""
        kinds = tuple(type(plugin) for plugin in plugins)
        if kinds != self._overriders.kinds:
            self._overriders = Overriders(kinds)
        return self._overriders

    def node_facts(
        self,
        states: Mapping[NodeName, NodeState],
        config: SchedulerConfig,
        fault_checks: Sequence[FaultCheck],
    ) -> NodeFacts:
        """The facts of these nodes; those of the last session if no node has changed."""
        nodes = tuple([state.node for state in states.values()])
        known = self._facts
        if known is not None and known[0] == config and known[1].nodes == nodes:
            return known[1]
        made = NodeFacts(nodes, fault_checks)
        self._facts = (config, made)
        return made

    def incomplete(self, gangs: Mapping[GangId, Gang], facts: NodeFacts) -> tuple[Gang, ...]:
        """All gangs but those that have all their members on healthy nodes."""
        last = self._complete
        known = last[1] if last is not None and last[0] is facts else {}
        changed = [gang for name, gang in gangs.items() if known.get(name) is not gang]
        incomplete = tuple([gang for gang in changed if not (gang.is_stable and gang.nodes <= facts.healthy)])
        self._complete = (facts, _complete(known, gangs, changed, incomplete))
        return incomplete


def _complete(
    known: Complete, gangs: Mapping[GangId, Gang], changed: list[Gang], incomplete: tuple[Gang, ...]
) -> Complete:
    complete = {**known, **{gang.id: gang for gang in changed}}
    for gang in incomplete:
        del complete[gang.id]
    if len(complete) + len(incomplete) > len(gangs):
        for gone in complete.keys() - gangs.keys():
            del complete[gone]
    return complete
