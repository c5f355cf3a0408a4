"""All checks."""

from typing import Final

from phalanx_simulator.invariants.anti_affinity import AntiAffinityHolds
from phalanx_simulator.invariants.binds import NodeAllowsPod, NodeCapacityIsRespected, OneBindPerPod
from phalanx_simulator.invariants.cached_state import CacheMatchesApi, NothingIsLeaked
from phalanx_simulator.invariants.check import Check
from phalanx_simulator.invariants.claim_coverage import ClaimCoverage
from phalanx_simulator.invariants.coverage import (
    BindCoverage,
    GangCoverage,
    NodeCoverage,
    ProcessCoverage,
    WriteCoverage,
)
from phalanx_simulator.invariants.devices import ClaimsAreGivenBack, DevicesHaveOneUser
from phalanx_simulator.invariants.evictions import (
    Breaker,
    EvictionsAreJustified,
    EvictionsNotCountedByJobs,
    FailedNodesAvoided,
    LostMembersAreEvicted,
)
from phalanx_simulator.invariants.extended_resource_claims import ExtendedResourceClaimsFollowPods
from phalanx_simulator.invariants.gangs import OneDomain, OwnMembersOnly, SubgroupsInOneDomain, WholeGangs
from phalanx_simulator.invariants.held_capacity import HeldCapacityIsRespected
from phalanx_simulator.invariants.liveness import (
    FeasibleGangsRun,
    NoEndlessEvictions,
    NoStarvation,
    WaitingIsExplained,
)
from phalanx_simulator.invariants.preemptions import BudgetsAreRespected, PreemptionsAreValid
from phalanx_simulator.invariants.processes import (
    LeaderExists,
    NoProcessExits,
    RefusedBindsBackOff,
    SyncedBeforeDeciding,
)
from phalanx_simulator.invariants.records import BindsAreRecorded
from phalanx_simulator.invariants.restarts import RestartsComplete
from phalanx_simulator.invariants.statuses import QueueUsageIsCorrect, StatusIsCorrect
from phalanx_simulator.invariants.volumes import NoEndlessVolumeWait, VolumesAreBound
from phalanx_simulator.invariants.writes import Fencing, LeastPrivilege, Preconditions

ALL_CHECKS: Final[tuple[type[Check], ...]] = (
    OneBindPerPod,
    NodeCapacityIsRespected,
    WholeGangs,
    NodeAllowsPod,
    OneDomain,
    QueueUsageIsCorrect,
    EvictionsAreJustified,
    Fencing,
    Preconditions,
    OwnMembersOnly,
    NoProcessExits,
    StatusIsCorrect,
    SubgroupsInOneDomain,
    PreemptionsAreValid,
    BudgetsAreRespected,
    HeldCapacityIsRespected,
    AntiAffinityHolds,
    EvictionsNotCountedByJobs,
    FailedNodesAvoided,
    Breaker,
    NothingIsLeaked,
    LeastPrivilege,
    FeasibleGangsRun,
    NoStarvation,
    NoEndlessEvictions,
    CacheMatchesApi,
    LeaderExists,
    SyncedBeforeDeciding,
    RefusedBindsBackOff,
    LostMembersAreEvicted,
    WaitingIsExplained,
    RestartsComplete,
    VolumesAreBound,
    NoEndlessVolumeWait,
    DevicesHaveOneUser,
    ClaimsAreGivenBack,
    ExtendedResourceClaimsFollowPods,
    BindsAreRecorded,
    ClaimCoverage,
    BindCoverage,
    WriteCoverage,
    GangCoverage,
    NodeCoverage,
    ProcessCoverage,
)
"""All checks, and the recorders of coverage points."""
