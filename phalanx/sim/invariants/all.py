"""The list of all checks."""

from typing import Final

from phalanx.sim.invariants.access import LeastPrivilege
from phalanx.sim.invariants.binds import NodeMayTakePod, OneBindPerPod, RoomOnNodes
from phalanx.sim.invariants.budgets import BudgetsHold
from phalanx.sim.invariants.caches import CacheIsTrue, NothingIsKept
from phalanx.sim.invariants.check import Check
from phalanx.sim.invariants.company import PodsApart
from phalanx.sim.invariants.evictions import (
    Breaker,
    BudgetOfJobs,
    FailedNodesAvoided,
    FewEvictions,
    LostMembersGo,
)
from phalanx.sim.invariants.gangs import OneDomain, OwnMembersOnly, WholeGangs
from phalanx.sim.invariants.kept_room import KeptRoomIsKept
from phalanx.sim.invariants.liveness import (
    FeasibleGangsRun,
    NobodyStarves,
    NoEndlessEvictions,
    WaitingIsExplained,
)
from phalanx.sim.invariants.marking import BindMarks, GangMarks, NodeMarks, ProcessMarks, WriteMarks
from phalanx.sim.invariants.preemptions import PreemptionsHelp
from phalanx.sim.invariants.processes import (
    KnowsAllBeforeDeciding,
    NobodyExits,
    RefusedBindsRest,
    SomebodyLeads,
)
from phalanx.sim.invariants.restarts import RestartsEnd
from phalanx.sim.invariants.statuses import QueuesAddUp, StatusIsTrue
from phalanx.sim.invariants.subgroups import SubgroupsTogether
from phalanx.sim.invariants.writes import Fencing, Preconditions

ALL_CHECKS: Final[tuple[type[Check], ...]] = (
    OneBindPerPod,
    RoomOnNodes,
    WholeGangs,
    NodeMayTakePod,
    OneDomain,
    QueuesAddUp,
    FewEvictions,
    Fencing,
    Preconditions,
    OwnMembersOnly,
    NobodyExits,
    StatusIsTrue,
    SubgroupsTogether,
    PreemptionsHelp,
    BudgetsHold,
    KeptRoomIsKept,
    PodsApart,
    BudgetOfJobs,
    FailedNodesAvoided,
    Breaker,
    NothingIsKept,
    LeastPrivilege,
    FeasibleGangsRun,
    NobodyStarves,
    NoEndlessEvictions,
    CacheIsTrue,
    SomebodyLeads,
    KnowsAllBeforeDeciding,
    RefusedBindsRest,
    LostMembersGo,
    WaitingIsExplained,
    RestartsEnd,
    BindMarks,
    WriteMarks,
    GangMarks,
    NodeMarks,
    ProcessMarks,
)
"""Every check that a run can make, and the marks of rare paths."""
