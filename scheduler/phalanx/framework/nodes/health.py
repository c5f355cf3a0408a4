"""Health transitions of nodes, and the circuit breaker that opens when many nodes become faulty at once.

Many faults in a short time are more often an error of the monitoring than of the nodes. While the breaker is
open nothing is evicted, and new pods go only to nodes that were healthy throughout the window. It closes by
itself, when nodes are healthy again or have been faulty for longer than the window.

A new leader takes the times of transitions from the conditions of nodes.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from phalanx.framework.config import ToleranceConfig
from phalanx.model.memory import Memory, NodeRecord
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node
from phalanx.model.snapshot import Snapshot

LONG_AGO: Final = 0
"""The time of the last transition if it is unknown."""


class HealthState(Struct, frozen=True):
    """The health of all nodes, and the state of the breaker."""

    records: Mapping[NodeName, NodeRecord]
    became_faulty: tuple[NodeName, ...] = ()
    """Nodes that were healthy in the last cycle."""
    distrusted: Mapping[NodeName, str] = {}
    """Healthy nodes that take no new pods while the breaker is open, and why."""
    open_reason: str = ""
    """The reason why the breaker is open; empty while it is closed."""
    wake_at: int | None = None
    """The time (ms) at which the breaker may close by itself."""

    @property
    def is_open(self) -> bool:
        """Whether the breaker is open."""
        return bool(self.open_reason)


def assess(
    nodes: Mapping[NodeName, object],
    faults: Mapping[NodeName, str],
    *,
    memory: Memory,
    now: int,
    config: ToleranceConfig,
    reported: Mapping[NodeName, int] = MappingProxyType({}),
) -> HealthState:
    """Compare the nodes with the last cycle. A faulty node that is new did not become faulty.

    `reported`: for the first cycle, the times (ms) of the last transitions.
    """
    is_first = not memory.cycle
    known = memory.nodes
    if _are_unchanged(nodes, faults, known):
        return _with_breaker(known, (), now=now, config=config)
    records: dict[NodeName, NodeRecord] = {}
    became_faulty: list[NodeName] = []
    for name in nodes:
        good, before = name not in faults, known.get(name)
        if before is not None and before.good == good:
            records[name] = before
        elif before is None:
            since = reported.get(name, LONG_AGO) if is_first else now if good else LONG_AGO
            records[name] = NodeRecord(good=good, since=since)
        else:
            records[name] = NodeRecord(good=good, since=now)
            if not good:
                became_faulty.append(name)
    return _with_breaker(records, tuple(became_faulty), now=now, config=config)


def _are_unchanged(
    nodes: Mapping[NodeName, object], faults: Mapping[NodeName, str], known: Mapping[NodeName, NodeRecord]
) -> bool:
    bad = [name for name, record in known.items() if not record.good]
    return list(known) == list(nodes) and faults.keys() == set(bad)


def reported_transitions(
    snapshot: Snapshot, status_since: Callable[[Node], int], config: ToleranceConfig
) -> dict[NodeName, int]:
    """The times (ms, by our clock) of the last transitions of nodes, from their conditions.

    If a pod was created after now, our clock is behind by at least the difference. A time that is a whole
    window in the future is ignored; one that is less in the future counts as now.
    """
    now = snapshot.now
    pods = [pod.created * 1000 for gang in snapshot.gangs.values() for pod in gang.members]
    behind = max(0, max(pods, default=0) - now)
    transitions = {name: status_since(state.node) * 1000 - behind for name, state in snapshot.nodes.items()}
    latest = now + config.breaker_window_ms
    return {name: min(at, now) for name, at in transitions.items() if LONG_AGO < at < latest}


def _with_breaker(
    records: Mapping[NodeName, NodeRecord],
    became_faulty: tuple[NodeName, ...],
    *,
    now: int,
    config: ToleranceConfig,
) -> HealthState:
    window = config.breaker_window_ms
    recent = {
        name: record for name, record in records.items() if record.since and record.since > now - window
    }
    bad = [name for name, record in recent.items() if not record.good]
    is_large = len(records) >= config.breaker_nodes_min
    if not is_large or len(bad) * 100 <= config.breaker_percent * len(records):
        return HealthState(records=records, became_faulty=became_faulty)
    why = f"{len(bad)} of {len(records)} nodes failed within {window // 1000} s"
    distrust = f"breaker open, not healthy throughout the last {window // 1000} s"
    return HealthState(
        records=records,
        became_faulty=became_faulty,
        distrusted={name: distrust for name, record in recent.items() if record.good},
        open_reason=why,
        wake_at=min(recent[name].since for name in bad) + window,
    )
