"""Since when each node is good or bad, and the breaker that opens when many turn bad at once.

So many faults in so short a time are more often a fault of whoever reports them than of the nodes. While the
breaker is open nothing is evicted, and new pods go only to nodes that were good throughout the window. It
closes by itself: nodes are good again, or have been bad for longer than the window.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from phalanx.framework.config import ToleranceConfig
from phalanx.model.memory import Memory, NodeRecord
from phalanx.model.names import NodeName

LONG_AGO: Final = 0
"""Since when a node is what it was when the scheduler first saw it: nobody knows, so it has not turned."""


class NodeWatch(Struct, frozen=True):
    """`turned_bad`: nodes that were good when the last cycle looked.

    `why_open` is empty while the breaker is closed, `wake_at` is when time may close it, and `distrusted` are
    the good nodes that are not used meanwhile.
    """

    records: Mapping[NodeName, NodeRecord]
    turned_bad: tuple[NodeName, ...] = ()
    distrusted: Mapping[NodeName, str] = {}
    why_open: str = ""
    wake_at: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether the breaker is open."""
        return bool(self.why_open)


def watch(
    nodes: Mapping[NodeName, object],
    faults: Mapping[NodeName, str],
    *,
    memory: Memory,
    now: int,
    config: ToleranceConfig,
) -> NodeWatch:
    """Compare the nodes with what the last cycle saw. One that is bad when first seen has not turned."""
    is_first = not memory.cycle
    known = memory.nodes
    records: dict[NodeName, NodeRecord] = {}
    turned: list[NodeName] = []
    for name in nodes:
        good, before = name not in faults, known.get(name)
        if before is not None and before.good == good:
            records[name] = before
        elif before is None:
            records[name] = NodeRecord(good=good, since=now if good and not is_first else LONG_AGO)
        else:
            records[name] = NodeRecord(good=good, since=now)
            if not good:
                turned.append(name)
    return _with_breaker(records, tuple(turned), now=now, config=config)


def _with_breaker(
    records: Mapping[NodeName, NodeRecord],
    turned_bad: tuple[NodeName, ...],
    *,
    now: int,
    config: ToleranceConfig,
) -> NodeWatch:
    window = config.breaker_window_ms
    recent = {name: each for name, each in records.items() if each.since and each.since > now - window}
    bad = [name for name, each in recent.items() if not each.good]
    is_large = len(records) >= config.breaker_nodes_min
    if not is_large or len(bad) * 100 <= config.breaker_percent * len(records):
        return NodeWatch(records=records, turned_bad=turned_bad)
    why = f"{len(bad)} of {len(records)} nodes turned bad within {window // 1000} s"
    distrust = f"breaker open, not good throughout the last {window // 1000} s"
    return NodeWatch(
        records=records,
        turned_bad=turned_bad,
        distrusted={name: distrust for name, each in recent.items() if each.good},
        why_open=why,
        wake_at=min(recent[name].since for name in bad) + window,
    )
