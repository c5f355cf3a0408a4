"""The list of all checks."""

from typing import Final

from phalanx.sim.invariants.binds import NodeMayTakePod, OneBindPerPod, RoomOnNodes
from phalanx.sim.invariants.caches import CacheIsTrue, NothingIsKept
from phalanx.sim.invariants.check import Check
from phalanx.sim.invariants.gangs import OneDomain, OwnMembersOnly, WholeGangs
from phalanx.sim.invariants.liveness import (
    FeasibleGangsRun,
    NobodyStarves,
    NoEndlessEvictions,
    WaitingIsExplained,
)
from phalanx.sim.invariants.writes import Fencing, Preconditions

ALL_CHECKS: Final[tuple[type[Check], ...]] = (
    OneBindPerPod,
    RoomOnNodes,
    WholeGangs,
    NodeMayTakePod,
    OneDomain,
    Fencing,
    Preconditions,
    OwnMembersOnly,
    NothingIsKept,
    FeasibleGangsRun,
    NobodyStarves,
    NoEndlessEvictions,
    CacheIsTrue,
    WaitingIsExplained,
)
"""Every check that a run can make."""
