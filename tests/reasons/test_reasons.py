"""One minimal scenario per reason, named after it. A test checks that none is missing."""

import sys
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace
from phalanx.actions.explanations import explainer
from phalanx.actions.verdicts import CYCLE_EXPLANATIONS_MAX
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.limits import CAPACITY_HOLD_MS, PARTIAL_GANG_GRACE_MS
from phalanx.model.api.pod_groups import Disruption, Recovery, RecoveryMode, Runtime, TopologyRequest
from phalanx.model.conversion.shapes import shape_of_requests
from phalanx.model.gangs import Gang, RoleSpec, SubgroupSpec
from phalanx.model.names import NodeName
from phalanx.model.nodes import TOPOLOGY_UNKNOWN, Taint, TaintEffect
from phalanx.model.pods import (
    BindBackoff,
    PodClaim,
    PodPhase,
    Requirement,
    SpreadConstraint,
    Term,
    VolumeClaim,
)
from phalanx.model.queues import Backfill, Cell, Flavor, Ordering, QueueState
from phalanx.model.reasons import Category, Evidence, Objection, Reason, Verdict
from phalanx.model.resources import GPU, PODS
from phalanx.model.supplies.devices.cluster import ClusterDevices
from phalanx.rules.budget import Budget
from phalanx.rules.problem import Rule, RuleWords
from phalanx_plugins.queue_state import QueueStates

from tests.builders import Scenario, term
from tests.plugins.installed import installed

FOUND_WHILE_READING: Final = (
    Reason.POD_GROUP_NOT_FOUND,
    Reason.WORKLOAD_NOT_FOUND,
    Reason.NOT_A_MEMBER,
    Reason.INCONSISTENT_GANG,
    Reason.UNSUPPORTED_FIELD,
    Reason.INVALID_OBJECT,
)


def verdict(scenario: Scenario, gang: str = "g") -> Verdict:
    found = scenario.decide().verdict(gang)
    assert found.message
    assert found.next_step
    return found


def racks() -> Scenario:
    return Scenario("zone", "rack").nodes("n", 2, gpu=8, within="z/r1").nodes("m", 2, gpu=8, within="z/r2")


@pytest.mark.parametrize("reason", FOUND_WHILE_READING)
def test_problems_found_while_decoding_are_reported_as_they_are(reason: Reason) -> None:
    problem = Objection(reason=reason, message="spec.x: is wrong", next_step="Correct spec.x")
    found = verdict(racks().gang("g", 1, problems=(problem, Objection(Reason.INVALID_OBJECT, "second"))))
    assert (found.reason, found.message, found.next_step) == (reason, problem.message, problem.next_step)
    assert found.group == "team/g"


def test_scheduling_gated() -> None:
    found = verdict(racks().gang("g", 2, gated=True))
    assert found.reason is Reason.SCHEDULING_GATED
    assert "2 of 2 waiting pods" in found.message


def test_scheduling_gated_when_only_gated_members_are_left() -> None:
    scenario = racks().gang("g", 2, min=2, gpu=1, bound=2).role("g", 1, gated=True)
    assert verdict(scenario).reason is Reason.SCHEDULING_GATED


@pytest.mark.parametrize("gated", [True, False])
def test_scheduling_gated_while_a_subgroup_that_is_needed_has_gates(gated: bool) -> None:
    """Enough pods are ready, but only one of two subgroups is complete."""
    scenario = racks().gang("g", 4, min=4).role("g", 2, gated=gated)
    parts = tuple(SubgroupSpec(name, 2) for name in "ab")
    named = zip(scenario.members("g"), "aaaabb", strict=True)
    members = tuple(replace(pod, subgroup=name) for pod, name in named)
    scenario.change("g", members=members, subgroups=parts, min_subgroups=2)
    assert scenario.decide().reasons() == ({"g": Reason.SCHEDULING_GATED} if gated else {})


def test_scheduling_gates_are_not_the_reason_where_their_pods_would_not_help() -> None:
    scenario = racks().gang("g", 1, min=3, role="ps").role("g", 2, gated=True, role="ps")
    assert verdict(scenario.role("g", 0, min=1, role="chief")).reason is Reason.MEMBERS_MISSING


def test_members_missing() -> None:
    found = verdict(racks().gang("g", 3, min=4))
    assert found.reason is Reason.MEMBERS_MISSING
    assert found.message == "3 of 4 required pods exist, 1 missing"


def test_members_missing_of_a_role() -> None:
    scenario = racks().gang("g", 1, min=3, role="ps").role("g", 2, min=2, role="worker")
    found = verdict(scenario.role("g", 0, min=1, role="chief"))
    assert found.reason is Reason.MEMBERS_MISSING
    assert found.message == "role chief needs 1 more pod"


def test_queue_not_found() -> None:
    found = verdict(racks().queue("vision").gang("g", 1, queue="vison"))
    assert found.reason is Reason.QUEUE_NOT_FOUND
    assert "vison" in found.message
    assert found.next_step.startswith("Did you mean vision? Submit to an existing queue (vision, default)")


def test_queue_not_leaf() -> None:
    found = verdict(racks().queue("all").queue("part", parent="all").gang("g", 1, queue="all"))
    assert found.reason is Reason.QUEUE_NOT_LEAF


def test_queue_invalid() -> None:
    problem = Objection(Reason.QUEUE_INVALID, "spec.parent: it is its own ancestor", "Break the circle")
    scenario = racks().queue("bad", problems=(problem,)).queue("below", parent="bad").queue("good")
    scenario.gang("g", 1, queue="below").gang("other", 1, queue="good")
    found = verdict(scenario)
    assert found.reason is Reason.QUEUE_INVALID
    assert found.message == "queue bad: spec.parent: it is its own ancestor"
    assert scenario.decide().placed() == ["other"]


def test_namespace_not_allowed() -> None:
    selector = Term((Requirement("team", "In", ("vision",)),))
    found = verdict(racks().queue("q", namespace_selector=selector).gang("g", 1, queue="q"))
    assert found.reason is Reason.NAMESPACE_NOT_ALLOWED


def test_queue_limit() -> None:
    scenario = racks().queue("q", limit={GPU: 8}).gang("old", 6, gpu=1, bound=6, queue="q")
    found = verdict(scenario.gang("g", 4, gpu=1, queue="q"))
    assert found.reason is Reason.QUEUE_LIMIT
    assert found.reason.category is Category.WAITING
    assert found.evidence == (
        Evidence("limit of queue q", "4 nvidia.com/gpu needed, 2 nvidia.com/gpu left"),
        Evidence("conflict of limit of queue q", "each of them is necessary"),
        Evidence("gang team/old", "frees 6 cpu, 6Gi memory, 6 nvidia.com/gpu when it ends"),
    )
    assert found.next_step.startswith(
        "Wait until gang team/old ends or 2 nvidia.com/gpu of the limit of queue q are released; "
    )


def test_above_queue_limit() -> None:
    scenario = racks().queue("q", limit={GPU: 8}).gang("old", 6, gpu=1, bound=6, queue="q")
    found = verdict(scenario.gang("g", 9, gpu=1, queue="q"))
    assert found.reason is Reason.ABOVE_QUEUE_LIMIT
    assert found.reason.category is Category.IMPOSSIBLE
    assert "allows 8 nvidia.com/gpu" in found.message
    assert found.next_step == (
        "Raise the limit of queue q by 1 nvidia.com/gpu, or lower minMember to 8; "
        "then wait until running work ends"
    )


def test_topology_not_found() -> None:
    found = verdict(racks().gang("g", 2, required="spine"))
    assert found.reason is Reason.TOPOLOGY_NOT_FOUND
    assert "zone, rack" in found.message
    found = verdict(racks().gang("g", 2, topology=TopologyRequest(name="fabric", required="rack")))
    assert found.reason is Reason.TOPOLOGY_NOT_FOUND
    assert "fabric" in found.message


def test_volume_not_bound() -> None:
    scenario = racks().gang("g", 2, claims=["data"]).gang("lost", 1, claims=["none"])
    scenario.claims["team/data"] = VolumeClaim(why_unusable="it is not bound to a volume yet")
    found = verdict(scenario)
    assert found.reason is Reason.VOLUME_NOT_BOUND
    assert "team/data" in found.message
    assert "not bound to a volume" in found.message
    assert "team/none cannot be used: it does not exist" in verdict(scenario, "lost").message


def test_resource_claim_not_ready() -> None:
    scenario = racks().gang("g", 1)
    (pod,) = scenario.members("g")
    scenario.change("g", members=(replace(pod, device_claims=(PodClaim("gpu", "missing"),)),))
    scenario.devices = ClusterDevices(are_claimed=True)
    found = verdict(scenario)
    assert found.reason is Reason.RESOURCE_CLAIM_NOT_READY
    assert found.reason.category is Category.WAITING
    assert found.message == "pod g-0: spec.resourceClaims[0]: ResourceClaim missing does not exist"


def test_no_eligible_node() -> None:
    scenario = racks().nodes("c", 3, gpu=4, cordoned=True).gang("g", 1, selector={"group": "x"})
    found = verdict(scenario)
    assert found.reason is Reason.NO_ELIGIBLE_NODE
    assert found.reason.category is Category.IMPOSSIBLE
    assert found.evidence == (
        Evidence("nodes", "node selector does not match", 4),
        Evidence("nodes", "cordoned", 3),
    )


def test_nodes_unavailable() -> None:
    """The relaxation ignores cordons, faults with their taints, and an unknown topology."""
    not_ready = Taint("node.kubernetes.io/not-ready", TaintEffect.NO_SCHEDULE, is_state=True)
    scenario = (
        Scenario("rack").nodes("a", 2, gpu=8, within="a").nodes("b", 2, gpu=8, cordoned=True, within="a")
    )
    scenario.nodes("c", gpu=8, conditions={"Ready": "False"}, taints=[not_ready], within="a")
    scenario.nodes("d", gpu=8, conditions={TOPOLOGY_UNKNOWN: "True"}, within="a")
    found = verdict(scenario.gang("old", 1, gpu=8, on=["a-0"]).gang("g", 6, gpu=8, required="rack"))
    assert found.reason is Reason.NODES_UNAVAILABLE
    assert found.reason.category is Category.WAITING
    assert found.message.endswith(
        "while nodes are unavailable: 2 cordoned, 1 condition NodeNotInNWTopologyCM is True, "
        "1 condition Ready is False"
    )
    assert found.next_step == (
        "Uncordon b-0, b-1 and repair c-0, d-0, or lower minMember to 2, or add 4 nodes like a-0; "
        "then wait until running work ends"
    )
    assert Evidence("nodes unavailable", "cordoned", 2) in found.evidence
    scenario.change("g", min_member=7).role("g", 1, gpu=8)
    assert verdict(scenario).reason is Reason.ABOVE_CLUSTER_CAPACITY


def test_a_gang_that_may_use_only_cordoned_nodes_waits_for_them() -> None:
    scenario = racks().nodes("c", 3, gpu=8, cordoned=True).gang("g", 1, selector={"group": "c"})
    assert verdict(scenario).reason is Reason.NODES_UNAVAILABLE


def test_a_gang_that_fits_available_nodes_waits_for_capacity_not_for_nodes() -> None:
    scenario = racks().nodes("c", 3, gpu=8, cordoned=True).gang("old", 4, gpu=8, bound=4)
    found = verdict(scenario.gang("g", 1, gpu=8))
    assert found.reason is Reason.INSUFFICIENT_CAPACITY
    assert Evidence("nodes", "cordoned", 3) in found.evidence


def test_no_eligible_node_in_an_empty_cluster() -> None:
    assert verdict(Scenario().gang("g", 1)).reason is Reason.NO_ELIGIBLE_NODE


def test_insufficient_capacity() -> None:
    found = verdict(racks().gang("old", 20, gpu=1, bound=20).gang("g", 16, gpu=1))
    assert found.reason is Reason.INSUFFICIENT_CAPACITY
    assert found.message.startswith("12 of 16 pods fit now")
    assert found.next_step == (
        "Wait until gang team/old ends or 4 more nvidia.com/gpu are free on n-0; "
        "to start now, lower minMember to 12"
    )
    assert found.evidence[0] == Evidence("conflict of capacity", "each of them is necessary")
    assert Evidence(GPU, "16 nvidia.com/gpu needed, 12 nvidia.com/gpu free") in found.evidence
    assert Evidence("nodes", "insufficient nvidia.com/gpu", 2) in found.evidence


def test_insufficient_capacity_because_of_fragmentation() -> None:
    scenario = racks().gang("old", 4, gpu=1, on=["n-0", "n-1", "m-0", "m-1"]).gang("g", 1, gpu=8)
    found = verdict(scenario)
    assert found.reason is Reason.INSUFFICIENT_CAPACITY
    assert "fragmented across nodes" in found.message


def test_above_cluster_capacity() -> None:
    found = verdict(racks().gang("g", 33, gpu=1))
    assert found.reason is Reason.ABOVE_CLUSTER_CAPACITY
    assert found.next_step == "Lower minMember to 32, or add 1 node like m-0"


def test_above_cluster_capacity_of_one_pod() -> None:
    found = verdict(racks().gang("g", 1, gpu=9))
    assert found.reason is Reason.ABOVE_CLUSTER_CAPACITY
    assert "requests 9 nvidia.com/gpu, but the largest eligible node has 8" in found.message


def test_no_domain_fits() -> None:
    scenario = (
        racks()
        .gang("old", 1, gpu=5, on=["n-0"])
        .gang("too", 1, gpu=4, on=["m-0"])
        .gang("g", 16, gpu=1, required="rack")
    )
    found = verdict(scenario)
    assert found.reason is Reason.NO_DOMAIN_FITS
    assert found.evidence[0] == Evidence("rack z/r2", "fits 12 of 16 pods")
    assert "require zone instead of rack" in found.next_step


def test_above_domain_capacity() -> None:
    found = verdict(racks().gang("g", 17, gpu=1, required="rack"))
    assert found.reason is Reason.ABOVE_DOMAIN_CAPACITY
    assert "the largest fits 16" in found.message
    assert found.next_step.startswith("Require zone instead of rack, or lower minMember to 16, or add 1 node")
    assert found.evidence[0].subject == "conflict of required level rack + capacity"


def test_above_domain_capacity_with_no_wider_level() -> None:
    found = verdict(racks().nodes("far", 4, gpu=8, within="y/r1").gang("g", 40, gpu=1, required="zone"))
    assert found.reason is Reason.ABOVE_DOMAIN_CAPACITY
    assert found.next_step.startswith("Prefer zone instead of requiring it, or lower")


def test_not_tried_yet() -> None:
    scenario = racks()
    for size in range(CYCLE_EXPLANATIONS_MAX + 3):
        scenario.gang(f"g{size}", 40 + size, gpu=1)
    first = scenario.decide()
    assert list(first.reasons().values()).count(Reason.NOT_TRIED_YET) == 3
    assert first.result.wake_at == scenario.now
    second = scenario.take(first).decide()
    assert set(second.reasons().values()) == {Reason.ABOVE_CLUSTER_CAPACITY}
    assert second.result.wake_at is None
    assert second.result.stats.solves == {}


def test_an_expensive_explanation_leaves_the_others_to_later_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explainer, "CYCLE_EXPLANATION_SOLVES", 1)
    scenario = racks()
    for size in range(3):
        scenario.gang(f"g{size}", 40 + size, gpu=1)
    unexplained = []
    for _ in range(3):
        decided = scenario.decide()
        scenario.take(decided)
        unexplained.append(list(decided.reasons().values()).count(Reason.NOT_TRIED_YET))
    assert unexplained == [2, 1, 0]


def test_all_gangs_are_explained_in_turn_though_every_cycle_changes_the_cluster() -> None:
    scenario = racks()
    gangs = [f"g{size}" for size in range(CYCLE_EXPLANATIONS_MAX + 3)]
    for size, gang in enumerate(gangs):
        scenario.gang(gang, 40 + size, gpu=1)
    explained = set[str]()
    for turn in range(2):
        scenario.nodes(f"new{turn}", 1, gpu=1).capacity_version += 1
        result = scenario.decide()
        scenario.take(result)
        explained |= {each for each in gangs if result.verdict(each).reason is not Reason.NOT_TRIED_YET}
    assert explained == set(gangs)


def test_capacity_reserved_after_placements_in_the_same_cycle() -> None:
    """Fair shares are computed again for the explanation, on the cluster with all placements."""
    scenario = Scenario().nodes("n", 5, gpu=8).queue("a", guarantee={GPU: 16}).queue("b", guarantee={GPU: 24})
    scenario.gang("broken", 2, gpu=8, bound=2, started=True, queue="a")
    scenario.change("broken", members=scenario.members("broken")[:1])
    scenario.gang("early", 3, gpu=8, queue="a", priority=5)
    scenario.gang("g", 1, gpu=8, queue="a", disruption=Disruption(preemptible=False))
    decided = scenario.decide()
    assert decided.placed() == ["early"]
    assert decided.verdict("g").reason is Reason.CAPACITY_RESERVED


def test_the_last_message_is_repeated_until_a_new_explanation() -> None:
    scenario = racks()
    for size in range(2 * CYCLE_EXPLANATIONS_MAX + 1):
        scenario.gang(f"g{size}", 40 + size, gpu=1)
    for _ in range(3):
        last = scenario.decide()
        scenario.take(last)
    for _ in range(2):
        scenario.nodes(f"new{scenario.capacity_version}", 1, gpu=1).capacity_version += 1
        last = scenario.decide()
        scenario.take(last)
        waiting = [each for each in last.result.verdicts if each.reason is Reason.NOT_TRIED_YET]
        assert waiting
        assert all(each.message.count("before the last change: ") == 1 for each in waiting)
    for _ in range(3):
        last = scenario.decide()
        scenario.take(last)
    assert not any("before the last change" in each.message for each in last.result.verdicts)


def test_backoff_after_failure() -> None:
    scenario = racks().gang("g", 2)
    first, second = scenario.members("g")
    failed = BindBackoff(until=scenario.now + 1, failures=2, why="denied by a webhook")
    scenario.change("g", members=(first, replace(second, bind_backoff=failed)))
    assert verdict(scenario).reason is Reason.BACKOFF_AFTER_FAILURE


def test_plugin_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: QueueStates, gang: Gang, view: SessionView) -> None:
        raise ValueError("no such state")

    monkeypatch.setattr(QueueStates, "check_gang", fail)
    found = verdict(racks().gang("g", 2))
    assert found.reason is Reason.PLUGIN_ERROR
    assert found.message == "plugin queue-state failed in check_gang: ValueError('no such state')"


def test_unmanaged_pods() -> None:
    scenario = racks().gang("other", 3, gpu=8, on=["n-1", "m-0", "m-1"])
    scenario.gang("g", 2, gpu=8, bound=1, controller=None)
    scenario.take(scenario.decide())
    scenario.now += PARTIAL_GANG_GRACE_MS
    result = scenario.decide()
    assert result.evicted() == []
    found = result.verdict("g")
    assert found.reason is Reason.UNMANAGED_PODS
    assert found.reason.category is Category.MISCONFIGURED
    assert found.evidence == (Evidence("team/g-0", "holds node n-0"),)


def test_recovering() -> None:
    scenario = racks().gang("g", 2, gpu=1, bound=2, recovery=Recovery(on_member_failure=RecoveryMode.RESTART))
    kept, lost = scenario.members("g")
    failed = replace(lost, phase=PodPhase.FAILED, ended=1)
    scenario.change(
        "g", members=(kept, failed, replace(lost, uid="again", node=None, phase=PodPhase.PENDING))
    )
    found = verdict(scenario)
    assert found.reason is Reason.RECOVERING
    assert "1 pod still to terminate" in found.message


def test_queue_closed() -> None:
    found = verdict(racks().queue("q", state=QueueState.CLOSED).gang("g", 1, queue="q"))
    assert found.reason is Reason.QUEUE_CLOSED
    assert found.next_step == "Submit to another queue"


def test_held() -> None:
    found = verdict(racks().gang("g", 1, hold=True))
    assert found.reason is Reason.HELD
    assert found.message == "spec.hold of the PodGroup is true: the gang is not started"
    assert verdict(racks().gang("g", 9, gpu=8)).reason is not Reason.HELD


def test_queue_held() -> None:
    found = verdict(racks().queue("q", state=QueueState.HELD).gang("g", 1, queue="q"))
    assert found.reason is Reason.QUEUE_HELD
    assert found.message == "queue q is held: it starts no work for now"


def test_blocked_by_queue_head() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8).queue("q", ordering=Ordering.STRICT_FIFO)
    scenario.gang("run", 8, gpu=1, bound=8).gang("first", 1, gpu=1, queue="q")
    found = verdict(scenario.gang("g", 1, queue="q"))
    assert found.reason is Reason.BLOCKED_BY_QUEUE_HEAD
    assert found.message.startswith("gang team/first is at the head of strict FIFO queue q")


def test_pod_affinity() -> None:
    found = verdict(Scenario().nodes("n", 2).gang("g", 2, near=[term(app="x")]))
    assert found.reason is Reason.POD_AFFINITY
    assert found.message == (
        "pod affinity allows 0 of 2 pods now: 2 no pod there matches pod affinity by kubernetes.io/hostname"
    )
    assert found.next_step == (
        "Wait until a pod that podAffinity selects runs on n-0; to start now, remove podAffinity"
    )


def test_pod_anti_affinity() -> None:
    scenario = Scenario().nodes("n", 2).gang("old", 1, labels={"app": "x"}, on=["n-0"])
    scenario.gang("g", 2, labels={"app": "x"}, apart=[term(app="x")])
    found = verdict(scenario)
    assert found.reason is Reason.POD_ANTI_AFFINITY
    assert found.message == "pod anti-affinity allows 1 of 2 pods now"
    assert "excluded by pod anti-affinity by kubernetes.io/hostname" in str(found.evidence)
    assert found.next_step == (
        "Wait until gang team/old ends; to start now, remove podAntiAffinity, or lower minMember to 1"
    )


def test_topology_spread() -> None:
    """Both nodes count, and the pods may use only the one that already has two of them."""
    scenario = Scenario().nodes("n", 2).gang("old", 2, labels={"app": "x"}, on=["n-0", "n-0"])
    counted = term(app="x")
    constraint = SpreadConstraint(replace(counted, for_spread=True), 1, honors_affinity=False)
    scenario.gang("g", 1, labels={"app": "x"}, spread=[constraint], selector={counted.topology_key: "n-0"})
    found = verdict(scenario)
    assert found.reason is Reason.TOPOLOGY_SPREAD
    assert found.message == "topology spread by kubernetes.io/hostname allows 0 of 1 pod now"
    assert "maxSkew 1 would be 3 in n-0; pods there now: n-0 2, n-1 0" in [
        each.finding for each in found.evidence
    ]
    assert found.next_step == ("Wait until gang team/old ends; to start now, remove nodeSelector")


def test_affinity_is_not_the_reason_where_capacity_would_be_enough() -> None:
    """The pods must be near `x`, whose node lacks a core; on the other node they would fit."""
    scenario = Scenario().nodes("n", 2, cpu=4).gang("x", 1, cpu=2, labels={"app": "x"}, on=["n-0"])
    found = verdict(scenario.gang("g", 1, cpu=3, near=[term(app="x")]))
    assert found.reason is Reason.INSUFFICIENT_CAPACITY
    assert "1 more cpu is free on n-0" in found.next_step


def test_capacity_reserved() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8).gang("broken", 2, gpu=8, bound=2, started=True)
    scenario.change("broken", members=scenario.members("broken")[:1])
    found = verdict(scenario.gang("g", 1, gpu=8))
    assert found.reason is Reason.CAPACITY_RESERVED
    assert "reserved for missing members of team/broken" in found.message


def test_capacity_nominated() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8).nominated("pod web/serve of scheduler other", "n-0", gpu=4)
    found = verdict(scenario.gang("g", 1, gpu=8))
    assert found.reason is Reason.CAPACITY_NOMINATED
    assert [fact.subject for fact in found.evidence] == ["node n-0"]
    assert "web/serve of scheduler other" in found.evidence[0].finding


def test_reservation_expired() -> None:
    declared = RoleSpec("worker", 2, 2, shape_of_requests({GPU: 1}))
    scenario = racks().gang("g", 1, min=2, gpu=1, role="worker", reserves=True, roles=(declared,))
    scenario.take(scenario.decide())
    scenario.now += CAPACITY_HOLD_MS
    found = verdict(scenario)
    assert found.reason is Reason.RESERVATION_EXPIRED
    assert found.message.startswith("1 pod of role worker did not come within 10 minutes")


def test_eviction_in_progress() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8).gang("low", 2, gpu=4, on=["n-0"] * 2)
    found = verdict(scenario.gang("g", 1, gpu=8, priority=1))
    assert found.reason is Reason.EVICTION_IN_PROGRESS
    assert "2 pods evicted for it" in found.message


def test_preempted() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8).gang("low", 2, gpu=4, on=["n-0"] * 2, started=True)
    scenario.gang("high", 1, gpu=8, priority=1)
    scenario.memory = scenario.decide().result.memory
    scenario.role("low", 1, gpu=4)
    found = scenario.decide().verdict("low")
    assert found.reason is Reason.PREEMPTED
    assert "preempted by team/high; 2 pods still to terminate" in found.message


def test_cells_reserved() -> None:
    scenario = Scenario("rack").nodes("n", 1, gpu=8, within="r1").queue("q", cells=(Cell("rack", 1),))
    found = verdict(scenario.gang("g", 1, gpu=8))
    assert found.reason is Reason.CELLS_RESERVED
    assert "in cells reserved for queue q: rack r1" in found.message


class RackCap(Plugin):
    """One pod of each gang in each rack."""

    name = "rack-cap"

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        words = RuleWords("one pod of a gang runs in each rack", "Add a rack")
        racks = [frozenset(map(NodeName, nodes)) for nodes in (("n-0", "n-1"), ("m-0", "m-1"))]
        return tuple(Budget(str(n), {PODS: 1}, nodes, words=words) for n, nodes in enumerate(racks))


RACK_CAP: Final = SchedulerConfig(plugins=(PluginConfig("rack-cap"),))


def test_plugin_limit() -> None:
    scenario = racks().gang("run", 2, gpu=8, on=["m-0", "m-1"]).gang("g", 2, gpu=1)
    with installed(rack_cap=RackCap):
        found = scenario.decide(RACK_CAP).verdict("g")
    assert found.reason is Reason.PLUGIN_LIMIT
    assert found.message == "1 of 2 pods fit now; one pod of a gang runs in each rack"


def test_above_plugin_limit() -> None:
    with installed(rack_cap=RackCap):
        found = racks().gang("g", 3, gpu=1).decide(RACK_CAP).verdict("g")
    assert found.reason is Reason.ABOVE_PLUGIN_LIMIT
    assert found.message == "2 of 3 pods fit the empty cluster; one pod of a gang runs in each rack"
    assert found.next_step == "Lower minMember to 2"


def test_would_delay_reservation() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8).queue("default", backfill=Backfill.EASY)
    scenario.gang("run", 1, gpu=8, bound=1, runtime=Runtime(max="1m")).gang("big", 2, gpu=8)
    found = verdict(scenario.gang("g", 1, gpu=8))
    assert found.reason is Reason.WOULD_DELAY_RESERVATION
    assert "then reserved for gang team/big" in found.message


def test_breaker_open() -> None:
    scenario = Scenario().nodes("good", 5).nodes("back", 1, gpu=8).nodes("bad", 9)
    for conditions in ({"Ready": "False"}, None):
        scenario.memory = scenario.decide().result.memory
        scenario.now += 1
        scenario.nodes("bad", 9, conditions={"Ready": "False"}).nodes("back", 1, gpu=8, conditions=conditions)
    found = verdict(scenario.gang("g", 1, gpu=8))
    assert found.reason is Reason.BREAKER_OPEN
    assert "9 of 15 nodes failed within 300 s" in found.message


def test_the_limit_of_a_flavor_is_reported_with_what_it_leaves() -> None:
    flavor = Flavor("n", (("group", "n"),), {GPU: 4})
    scenario = racks().queue("q", flavors=[flavor]).gang("g", 8, gpu=1, queue="q", selector={"group": "n"})
    found = verdict(scenario)
    assert found.reason is Reason.ABOVE_QUEUE_LIMIT
    assert found.next_step == (
        "Raise the limit of queue q for flavor n by 4 nvidia.com/gpu, or remove nodeSelector, "
        "or lower minMember to 4"
    )


def test_every_reason_has_a_scenario() -> None:
    tests = {name for name in vars(sys.modules[__name__]) if name.startswith("test_")}
    named = {reason for reason in Reason if f"test_{_snake(reason)}" in tests}
    assert named | set(FOUND_WHILE_READING) == set(Reason)


def _snake(reason: Reason) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in reason)[1:]


@pytest.mark.parametrize("reason", Reason)
def test_the_documentation_has_the_category_of_each_reason(reason: Reason) -> None:
    documentation = (Path(__file__).resolve().parents[2] / "docs" / "reasons.md").read_text()
    assert f"| `{reason}` | {reason.category} |" in documentation
