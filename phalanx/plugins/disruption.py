"""Keeps gangs from eviction as their `spec.disruption` asks: never, or not before they ran for a while.

The time counts from when the first member began to run; a gang that does not run yet has all of it before it.
What a gang asks for here holds against others that want its room, not against its own recovery.
"""

from typing import Final

from phalanx.framework.plugin import NEVER
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang


class DisruptionWishes:
    """`preemptible` and `minRuntime`."""

    name: Final = "disruption"

    def spared_until(self, victim: Gang, session: Session) -> int:
        """When the gang may be evicted at the earliest."""
        wish = victim.disruption
        if not wish.preemptible:
            return NEVER
        if not wish.min_runtime_ms:
            return 0
        began = [pod.running_since for pod in victim.members if pod.running_since and pod.holds_node]
        since = min(began) * 1000 if began else session.snapshot.now
        return since + wish.min_runtime_ms
