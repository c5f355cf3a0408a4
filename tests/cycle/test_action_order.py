"""The actions of a cycle run in the order of the configuration, and every order is allowed."""

from itertools import permutations

import pytest
from msgspec.structs import replace
from phalanx.framework.config import ActionName, SchedulerConfig
from phalanx.limits import NODE_LOSS_GRACE_MS, PARTIAL_GANG_GRACE_MS
from phalanx.model.api.pod_groups import Recovery, RecoveryMode
from phalanx.model.decisions import EvictionReason
from phalanx.model.names import NodeName

from tests.builders import Scenario

ACTION_OF = {
    EvictionReason.GANG_INCOMPLETE: ActionName.RELEASE,
    EvictionReason.MEMBER_REPLACED: ActionName.RECOVER,
    EvictionReason.GANG_RESTARTED: ActionName.RECOVER,
    EvictionReason.PREEMPTED: ActionName.PREEMPT,
    EvictionReason.CONSOLIDATED: ActionName.CONSOLIDATE,
}
OLD_MS = max(NODE_LOSS_GRACE_MS, PARTIAL_GANG_GRACE_MS)


def cluster(mode: RecoveryMode) -> Scenario:
    """A gang that never was complete, one with a lost node, one of low priority, and one of high priority."""
    scenario = Scenario().nodes("n", 6, gpu=1).gang("half", 2, gpu=1, on=["n-0"], started=False)
    scenario.change("half", members=scenario.members("half")[:1], min_member=2)
    scenario.gang("lost", 3, min=1, gpu=1, on=["n-1", "n-2", "n-3"], recovery=Recovery(on_node_loss=mode))
    scenario.gang("low", 2, gpu=1, on=["n-4", "n-5"])
    name = NodeName("n-1")
    scenario._nodes[name] = replace(scenario._nodes[name], conditions={"Ready": "Unknown"})
    return scenario.gang("high", 4, gpu=1, priority=9)


@pytest.mark.parametrize("mode", [RecoveryMode.REPLACE, RecoveryMode.RESTART])
@pytest.mark.parametrize("actions", list(permutations(ActionName)), ids="-".join)
def test_actions_run_in_the_configured_order(actions: tuple[ActionName, ...], mode: RecoveryMode) -> None:
    scenario, config = cluster(mode), SchedulerConfig(actions=actions)
    first = scenario.decide(SchedulerConfig(actions=(ActionName.RELEASE, ActionName.RECOVER)))
    assert first.evicted() == []
    scenario.memory = first.result.memory
    scenario.now += OLD_MS
    evictions = scenario.decide(config).result.evictions
    assert {eviction.name for eviction in evictions} >= {"half-0", "lost-0", "low-0", "low-1"}
    assert len({eviction.pod for eviction in evictions}) == len(evictions)
    ran = list(dict.fromkeys(ACTION_OF[eviction.reason] for eviction in evictions))
    assert ran == [action for action in actions if action in ran]


def test_an_action_that_is_not_listed_does_not_run() -> None:
    scenario = cluster(RecoveryMode.REPLACE)
    decided = scenario.decide(SchedulerConfig(actions=(ActionName.PREEMPT,)))
    assert {eviction.reason for eviction in decided.result.evictions} == {EvictionReason.PREEMPTED}
    assert scenario.decide(SchedulerConfig(actions=())).evicted() == []
