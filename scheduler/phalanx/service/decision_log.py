"""The log of what the scheduler decides: a line for each start and each eviction, with names."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from phalanx.model.decisions import CycleResult, Evict, EvictionReason
from phalanx.model.names import GangId, PodUid
from phalanx.observe.ports import GangStart

_log: Final[Any] = structlog.get_logger(__name__)


class DecisionLog:
    """Writes the lines. Implements StartReports."""

    def __init__(self, name_of: Callable[[GangId], str | None]) -> None:
        """`name_of`: NAMESPACE/NAME of a gang that exists."""
        self._name_of = name_of
        self._evicting: frozenset[PodUid] = frozenset()

    def cycle_finished(self, result: CycleResult) -> None:
        """Name the gangs of which pods are evicted, but those pods that the cycle before evicted already."""
        by_gang: dict[tuple[GangId, EvictionReason, str], list[Evict]] = {}
        for eviction in result.evictions:
            if eviction.pod not in self._evicting:
                key = (eviction.gang, eviction.reason, eviction.beneficiary)
                by_gang.setdefault(key, []).append(eviction)
        self._evicting = frozenset(eviction.pod for eviction in result.evictions)
        for evictions in by_gang.values():
            self._log_evictions(evictions)
        _log.debug(
            "cycle finished",
            cycle=result.cycle,
            gangs_placed=len(result.placements),
            pods_placed=sum(len(placement.binds) for placement in result.placements),
            pods_evicted=len(result.evictions),
            gangs_waiting=len(result.verdicts),
        )

    def _log_evictions(self, evictions: Sequence[Evict]) -> None:
        first = evictions[0]
        _log.info(
            "evicting",
            gang=self._name_of(first.gang) or f"{first.namespace}/{first.name}",
            pods=len(evictions),
            reason=first.reason.value,
            why=first.message,
            **({"for_gang": first.beneficiary} if first.beneficiary else {}),
        )

    def gang_started(self, start: GangStart) -> None:
        """See StartReports."""
        placement = start.placement
        nodes = {bind.node for bind in placement.binds}
        _log.info(
            "gang started",
            gang=placement.group,
            queue=start.queue,
            pods=len(placement.binds),
            nodes=len(nodes),
            where=f"{placement.level} {placement.domain}" if placement.domain else min(nodes, default=""),
            waited_s=max(0, start.bound_ms - start.created_ms) // 1000,
        )

    def bind_confirmed(self, *, seconds: float) -> None:
        """See StartReports."""
