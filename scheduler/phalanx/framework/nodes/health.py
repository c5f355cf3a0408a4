"""Since when each node is good or bad, and the breaker that opens when many turn bad at once.

So many faults in so short a time are more often a fault of whoever reports them than of the nodes. While the
breaker is open nothing is evicted, and new pods go only to nodes that were good throughout the window. It
closes by itself: nodes are good again, or have been bad for longer than the window.

A new leader has seen no node turn, and goes by what their conditions tell.
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
"""Since when a node is what it was when the scheduler first saw it, if nothing tells: it has not turned."""


class HealthState(Struct, frozen=True):
    """`became_faulty`: nodes that were good when the last cycle looked.

    `open_reason` is empty while the breaker is closed, `wake_at` is when time may close it, and `distrusted`
    are
    the good nodes that are not used meanwhile.
    """

    records: Mapping[NodeName, NodeRecord]
    became_faulty: tuple[NodeName, ...] = ()
    distrusted: Mapping[NodeName, str] = {}
    open_reason: str = ""
    wake_at: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether the breaker is open."""
        return bool(self.open_reason)


def watch(
    nodes: Mapping[NodeName, object],
    faults: Mapping[NodeName, str],
    *,
    memory: Memory,
    now: int,
    config: ToleranceConfig,
    told: Mapping[NodeName, int] = MappingProxyType({}),
) -> HealthState:
    """Compare the nodes with what the last cycle saw. A node that joins, and is bad, has not turned.

    `told`: in the first cycle, since when (ms) nodes are what they are.
    """
    is_first = not memory.cycle
    known = memory.nodes
    if _are_as_before(nodes, faults, known):
        return _with_breaker(known, (), now=now, config=config)
    records: dict[NodeName, NodeRecord] = {}
    turned: list[NodeName] = []
    for name in nodes:
        good, before = name not in faults, known.get(name)
        if before is not None and before.good == good:
            records[name] = before
        elif before is None:
            since = told.get(name, LONG_AGO) if is_first else now if good else LONG_AGO
            records[name] = NodeRecord(good=good, since=since)
        else:
            records[name] = NodeRecord(good=good, since=now)
            if not good:
                turned.append(name)
    return _with_breaker(records, tuple(turned), now=now, config=config)


def _are_as_before(
    nodes: Mapping[NodeName, object], faults: Mapping[NodeName, str], known: Mapping[NodeName, NodeRecord]
) -> bool:
    bad = [name for name, record in known.items() if not record.good]
    return list(known) == list(nodes) and faults.keys() == set(bad)


def reported_transitions(
    snapshot: Snapshot, status_since: Callable[[Node], int], config: ToleranceConfig
) -> dict[NodeName, int]:
    """Since when (ms, by our clock) nodes are good or bad, as their conditions tell.

    Where pods are younger than now, our clock is behind by at least that. A node whose clock is a whole
    window ahead tells nothing, one that is less ahead has turned just now.
    """
    now = snapshot.now
    pods = [pod.created * 1000 for gang in snapshot.gangs.values() for pod in gang.members]
    behind = max(0, max(pods, default=0) - now)
    turns = {name: status_since(state.node) * 1000 - behind for name, state in snapshot.nodes.items()}
    latest = now + config.breaker_window_ms
    return {name: min(at, now) for name, at in turns.items() if LONG_AGO < at < latest}


def _with_breaker(
    records: Mapping[NodeName, NodeRecord],
    became_faulty: tuple[NodeName, ...],
    *,
    now: int,
    config: ToleranceConfig,
) -> HealthState:
    window = config.breaker_window_ms
    recent = {name: each for name, each in records.items() if each.since and each.since > now - window}
    bad = [name for name, each in recent.items() if not each.good]
    is_large = len(records) >= config.breaker_nodes_min
    if not is_large or len(bad) * 100 <= config.breaker_percent * len(records):
        return HealthState(records=records, became_faulty=became_faulty)
    why = f"{len(bad)} of {len(records)} nodes failed within {window // 1000} s"
    distrust = f"breaker open, not healthy throughout the last {window // 1000} s"
    return HealthState(
        records=records,
        became_faulty=became_faulty,
        distrusted={name: distrust for name, each in recent.items() if each.good},
        open_reason=why,
        wake_at=min(recent[name].since for name in bad) + window,
    )
