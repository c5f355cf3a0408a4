"""What one plugin says about evictions of gangs for other gangs: rights, protection and limits."""

from typing import Final

from phalanx.framework.class_checks import check_methods
from phalanx.framework.evictions import Beneficiary, PodEvictionLimit, QueueEvictionLimit
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import PodUid
from phalanx.model.overridden_methods import methods_of
from phalanx.model.resources import NONE, Resources

NEVER: Final = 1 << 62
"""Milliseconds: later than any time."""


class EvictionPolicy:
    """Override what the policy needs; it may store what it computes, for it is made for one cycle."""

    def __init__(self, view: SessionView) -> None:
        self.view = view

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        check_methods(cls, EvictionPolicy, noun="question to an eviction policy")

    def reason(self, victim: Gang, beneficiary: Beneficiary) -> str | None:
        """Why the victim may be evicted for the beneficiary, for the event of the victim; None if this plugin
        does not allow it. One plugin that allows it is enough."""
        return None

    def delayed_until(self, beneficiary: Gang) -> int:
        """The time (ms) before which nothing is evicted or moved for the gang; 0 for none, or NEVER."""
        return 0

    def protected_until(self, victim: Gang, beneficiary: Gang) -> int:
        """The time (ms) before which the beneficiary may not evict the victim; 0 for none, or NEVER."""
        return 0

    def protected_pods(self, victim: Gang, beneficiary: Beneficiary) -> frozenset[PodUid]:
        """Pods of a victim that may not be evicted for the beneficiary although others of the gang may."""
        return frozenset()

    def queue_limits(self, beneficiary: Beneficiary) -> tuple[QueueEvictionLimit, ...]:
        """Limits on what may be evicted from queues for the beneficiary, over all victims together."""
        return ()

    def least(self, beneficiary: Beneficiary) -> Resources:
        """The least amounts that the victims together must free, if anything is evicted.

        Asked also as if starts of the cycle were not decided, and the beneficiary requested their amounts.
        """
        return NONE

    def pod_limits(self) -> tuple[PodEvictionLimit, ...]:
        """Limits on the number of evicted pods in total; asked once per cycle that searches victims."""
        return ()


QUESTIONS: Final = methods_of(EvictionPolicy)


class NoEvictions(EvictionPolicy):
    """Nothing is evicted: the policy of a plugin that failed to give one."""

    def protected_until(self, victim: Gang, beneficiary: Gang) -> int:
        """For ever."""
        return NEVER
