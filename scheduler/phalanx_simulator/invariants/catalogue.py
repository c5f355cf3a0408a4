"""All checks."""

from typing import Final

from phalanx_simulator.invariants.anti_affinity import AntiAffinityHolds
from phalanx_simulator.invariants.binds import NodeMayTakePod, OneBindPerPod, RoomOnNodes
from phalanx_simulator.invariants.cached_state import CacheMatchesApi, NothingIsLeaked
from phalanx_simulator.invariants.check import Check
from phalanx_simulator.invariants.coverage import (
    BindCoverage,
    GangCoverage,
    NodeCoverage,
    ProcessCoverage,
    WriteCoverage,
)
from phalanx_simulator.invariants.evictions import (
    Breaker,
    EvictionsAreJustified,
    EvictionsNotCountedByJobs,
    FailedNodesAvoided,
    LostMembersGo,
)
from phalanx_simulator.invariants.gangs import OneDomain, OwnMembersOnly, SubgroupsInOneDomain, WholeGangs
from phalanx_simulator.invariants.held_capacity import HeldCapacityIsRespected
from phalanx_simulator.invariants.liveness import (
    FeasibleGangsRun,
    NobodyStarves,
    NoEndlessEvictions,
    WaitingIsExplained,
)
from phalanx_simulator.invariants.preemptions import BudgetsHold, PreemptionsAreValid
from phalanx_simulator.invariants.processes import (
    KnowsAllBeforeDeciding,
    NobodyExits,
    RefusedBindsRest,
    SomebodyLeads,
)
from phalanx_simulator.invariants.restarts import RestartsComplete
from phalanx_simulator.invariants.statuses import QueuesAddUp, StatusIsTrue
from phalanx_simulator.invariants.writes import Fencing, LeastPrivilege, Preconditions

ALL_CHECKS: Final[tuple[type[Check], ...]] = (
    OneBindPerPod,
    RoomOnNodes,
    WholeGangs,
    NodeMayTakePod,
    OneDomain,
    QueuesAddUp,
    EvictionsAreJustified,
    Fencing,
    Preconditions,
    OwnMembersOnly,
    NobodyExits,
    StatusIsTrue,
    SubgroupsInOneDomain,
    PreemptionsAreValid,
    BudgetsHold,
    HeldCapacityIsRespected,
    AntiAffinityHolds,
    EvictionsNotCountedByJobs,
    FailedNodesAvoided,
    Breaker,
    NothingIsLeaked,
    LeastPrivilege,
    FeasibleGangsRun,
    NobodyStarves,
    NoEndlessEvictions,
    CacheMatchesApi,
    SomebodyLeads,
    KnowsAllBeforeDeciding,
    RefusedBindsRest,
    LostMembersGo,
    WaitingIsExplained,
    RestartsComplete,
    BindCoverage,
    WriteCoverage,
    GangCoverage,
    NodeCoverage,
    ProcessCoverage,
)
"""Every check that a run can make, and the marks of rare paths."""
