"""The next step of a verdict: its text, and which advice it gives. `tests/advice` follows all advice."""

from collections.abc import Sequence

import pytest
from phalanx.actions.explanations import explainer
from phalanx.actions.explanations.advice import (
    AddNodes,
    Advice,
    AllEnd,
    BringBack,
    ChangePods,
    Ends,
    Freed,
    LabelNodes,
    LowerMinimum,
    PodsFit,
    PreferLevel,
    RaiseLimits,
    Released,
    RequireNoLevel,
    Together,
)
from phalanx.actions.explanations.changed_nodes import ChangedNode
from phalanx.actions.explanations.next_steps import sentence
from phalanx.actions.explanations.node_changes import Copy, fewest_copies
from phalanx.model.named_parts import plain, shown
from phalanx.model.names import GangId, NodeName
from phalanx.model.nodes import Taint, TaintEffect
from phalanx.model.queues import Flavor
from phalanx.model.reasons import Reason, Verdict
from phalanx.model.resources import GPU, PODS
from phalanx.solver.infeasibility.relaxations import NodeCapacity

from tests.builders import GI, Scenario, demands_of, term

TAINT = Taint(key="gpu", value="", effect=TaintEffect.NO_SCHEDULE)


def capacity(amount: int, *nodes: str) -> tuple[NodeCapacity, ...]:
    return tuple(NodeCapacity(NodeName(node), {GPU: amount}) for node in nodes)


def verdict(scenario: Scenario) -> Verdict:
    return scenario.decide().verdict("g")


# --- texts --------------------------------------------------------------------------------------------------


def test_each_part_of_the_sentence_is_enough_by_itself() -> None:
    prefer, lower = PreferLevel("rack"), LowerMinimum(3)
    assert sentence(Advice(events=(Ends(("gang x",)), AllEnd())), "-") == (
        "Wait until gang x ends or running work ends"
    )
    assert sentence(Advice(events=(AllEnd(),), actions=(prefer, lower)), "-") == (
        "Wait until running work ends; to start now, prefer rack instead of requiring it, "
        "or lower minMember to 3"
    )
    assert sentence(Advice(actions=(prefer,)), "-") == "Prefer rack instead of requiring it"
    assert sentence(Advice(actions=(lower,), later_actions=(prefer,)), "-") == (
        "Lower minMember to 3; or prefer rack instead of requiring it; then wait until running work ends"
    )
    assert sentence(Advice(), "Look elsewhere") == "Look elsewhere"


def test_free_amounts_are_named_per_node() -> None:
    assert plain(Freed(capacity(2, "a-0")).text) == "2 more nvidia.com/gpu are free on a-0"
    assert plain(Freed(capacity(2, "a-0", "b-0"), "rack", ("z", "r")).text) == (
        "2 more nvidia.com/gpu are free in rack z/r on each of a-0, b-0"
    )
    assert plain(Freed((*capacity(2, "a-0"), *capacity(1, "b-0"))).text) == (
        "2 more nvidia.com/gpu are free on a-0 and 1 more nvidia.com/gpu is free on b-0"
    )
    assert plain(PodsFit(2, {GPU: 4}, "rack", ("z", "r")).text) == (
        "nodes in rack z/r fit 2 more pods (at least 4 more nvidia.com/gpu)"
    )


def test_amounts_are_rounded_up_and_include_pods() -> None:
    amounts = {"cpu": 1500, "memory": GI + 1, GPU: 1, PODS: 1}
    assert plain(Freed((NodeCapacity(NodeName("a-0"), amounts),)).text) == (
        "1500m more cpu, 1.1Gi more memory, 1 more nvidia.com/gpu, 1 more pod are free on a-0"
    )
    limits = {"limit of queue q": {"memory": 3 * GI - 1, PODS: 2}, "limit of queue p": {GPU: 1}}
    assert RaiseLimits(limits).text == (
        "raise the limit of queue q by 3Gi memory, 2 pods and the limit of queue p by 1 nvidia.com/gpu"
    )
    assert Released(limits).text == (
        "3Gi memory, 2 pods of the limit of queue q and 1 nvidia.com/gpu of the limit of queue p are released"
    )


def test_many_holders_are_named_in_part() -> None:
    assert Ends(("a", "b")).text == "a and b end"
    assert Ends(tuple("abcde")).text == "at most 5 end (a, b, c, 2 more)"


def test_actions_are_imperatives() -> None:
    a, b = NodeName("a"), NodeName("b")
    assert plain(BringBack(cordoned=(a,), faulty=(b,)).text) == "uncordon a and repair b"
    assert plain(BringBack((), (a,), (b,)).text) == "repair a and wait until b takes pods"
    assert plain(BringBack((), (), (a, b)).text) == "wait until a, b take pods"
    assert ChangePods(("nodeSelector",), (TAINT,)).text == ("remove nodeSelector and tolerate gpu:NoSchedule")
    assert plain(AddNodes(2, a, {GPU: 8}).text) == "add 2 nodes like a with at least 8 nvidia.com/gpu"
    assert RequireNoLevel("rack", "s").text == "require no rack for subgroup s"
    assert LabelNodes("rack").text == "label all nodes that lack it with one value of rack"
    assert LowerMinimum(3, {"ps": 1}, {"s": 2}).text == "lower minMember to 3 (role ps to 1, subgroup s to 2)"
    together = Together((LowerMinimum(3), AddNodes(1, a)))
    assert plain(together.text) == "lower minMember to 3, and also add 1 node like a"


@pytest.mark.parametrize(
    ("is_one_less_enough", "text"), [(False, "add 4 nodes like n-0"), (None, "add at most 4 nodes like n-0")]
)
def test_a_number_of_nodes_that_is_not_proven_to_be_the_fewest_is_a_most(
    is_one_less_enough: bool | None, text: str
) -> None:
    snapshot = Scenario().nodes("n").gang("g", 6).snapshot()
    copy = Copy(snapshot.nodes[NodeName("n-0")].node, {}, frozenset(), "")
    demands = demands_of(snapshot.gangs[GangId("gang-g")])

    def fits(nodes: Sequence[ChangedNode]) -> bool | None:
        return len(nodes) > 3 or is_one_less_enough

    (found,) = fewest_copies(copy, demands[0], fits)
    assert plain(found.text) == text


def test_who_may_not_see_a_node_reads_what_its_copy_is_like() -> None:
    scenario = Scenario("zone", "rack").nodes("n", gpu=2, within="z/r").gang("g", 1, gpu=4, required="rack")
    found = verdict(scenario)
    assert "dd 1 node like n-0 with at least 4 nvidia.com/gpu" in found.next_step
    step = shown(found.marked.next_step, lambda _: False) if found.marked is not None else ""
    assert "dd 1 node in rack z/r that the pods may use, with " in step
    assert "4 nvidia.com/gpu" in step


# --- which advice is given ----------------------------------------------------------------------------------


def test_a_smaller_minimum_names_the_roles_that_must_be_smaller_too() -> None:
    assert verdict(Scenario().nodes("n", gpu=3).gang("g", 4, gpu=1)).next_step.startswith(
        "Lower minMember to 3"
    )
    scenario = Scenario().nodes("n", gpu=3).gang("g", 4, min=5, gpu=1, role="worker")
    scenario.role("g", 1, gpu=1, role="ps", min=1).role("g", 0, role="worker", min=4)
    assert verdict(scenario).next_step.startswith("Lower minMember to 3 (role worker to 2)")
    running = Scenario().nodes("n", gpu=2).gang("g", 4, gpu=1, bound=2, min=2)
    assert "minMember" not in verdict(running).next_step


def test_pods_without_selectors_are_not_advised_to_change_them() -> None:
    scenario = Scenario().nodes("full", cpu=4).gang("old", 1, cpu=4, on=("full-0",))
    scenario.nodes("lost", cpu=4, conditions={"Ready": "False"}).gang("g", 1, cpu=4)
    assert verdict(scenario).next_step.endswith("; to start now, repair lost-0")
    scenario.nodes("held", cpu=4, cordoned=True)
    assert verdict(scenario).next_step.endswith("; to start now, uncordon held-0")
    scenario.nodes("gpu", cpu=4, taints=(TAINT,))
    said = "; to start now, uncordon held-0, or tolerate gpu:NoSchedule"
    assert verdict(scenario).next_step.endswith(said)


def test_a_healthy_node_with_conditions_is_not_to_be_repaired() -> None:
    """All nodes of a real cluster have conditions."""
    conditions = {"MemoryPressure": "False", "Ready": "True"}
    scenario = Scenario().nodes("full", 8, cpu=4, conditions=conditions)
    scenario.gang("old", 8, cpu=4, on=[f"full-{number}" for number in range(8)])
    scenario.nodes("held", cpu=4, cordoned=True, conditions=conditions).gang("g", 1, cpu=4)
    assert verdict(scenario).next_step.endswith("; to start now, uncordon held-0")


def test_two_limits_are_raised_together_where_both_are_reached() -> None:
    scenario = (
        Scenario().nodes("n", 2, gpu=8).queue("p", limit={GPU: 2}).queue("q", parent="p", limit={GPU: 1})
    )
    assert verdict(scenario.gang("g", 4, gpu=1, queue="q")).next_step == (
        "Raise the limit of queue q by 3 nvidia.com/gpu and the limit of queue p by 2 nvidia.com/gpu, "
        "or lower minMember to 1"
    )


def test_several_actions_are_advised_together_where_no_single_one_helps() -> None:
    scenario = Scenario().nodes("n", 1, gpu=2, taints=(TAINT,)).queue("q", limit={GPU: 1})
    scenario.gang("g", 1, gpu=2, queue="q", selector={"group": "x"})
    assert verdict(scenario).next_step == (
        "Raise the limit of queue q by 1 nvidia.com/gpu, "
        "and also remove nodeSelector and tolerate gpu:NoSchedule"
    )


def test_a_limit_that_is_too_small_needs_running_work_to_end_too() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8).queue("q", limit={GPU: 2}).gang("old", 1, gpu=6, on=["n-0"])
    assert verdict(scenario.gang("g", 3, gpu=1, queue="q")).next_step == (
        "Lower minMember to 2; or raise the limit of queue q by 1 nvidia.com/gpu; "
        "then wait until running work ends"
    )


def test_the_end_of_pods_that_the_gang_must_be_near_is_not_waited_for() -> None:
    """The pods of `store` use the cores of the only node where the gang may be."""
    near = (term(app="store"),)
    scenario = Scenario().nodes("n", 2, cpu=4).gang("store", 1, cpu=3, labels={"app": "store"}, on=["n-0"])
    found = verdict(scenario.gang("g", 1, cpu=2, near=near))
    assert found.reason is Reason.INSUFFICIENT_CAPACITY
    assert found.next_step == (
        "Wait until 1 more cpu is free on n-0 or a pod that podAffinity selects runs on n-1; "
        "to start now, remove podAffinity"
    )


def test_an_additional_node_of_a_full_domain_is_not_in_that_domain_if_the_domain_is_the_node() -> None:
    scenario = Scenario("host")
    for name in "ab":
        scenario.nodes(name, 1, gpu=2, labels={"test/host": name})
    step = verdict(scenario.gang("g", 3, gpu=1, required="host")).next_step
    assert "like" not in step.partition("; or")[0] or "with at least 3 nvidia.com/gpu" in step


def test_a_conflict_names_the_limit_before_the_level() -> None:
    """Rack r1 is large enough but limited to 4 devices, rack r2 is too small."""
    small = Flavor("r1", (("group", "r1"),), {GPU: 4})
    scenario = Scenario("rack").nodes("r1", 1, gpu=8, within="r1").nodes("r2", 1, gpu=2, within="r2")
    scenario.queue("q", flavors=[small]).gang("g", 6, gpu=1, required="rack", queue="q")
    found = verdict(scenario)
    assert found.reason is Reason.ABOVE_QUEUE_LIMIT
    assert [each.subject for each in found.evidence if each.subject.startswith("conflict")] == [
        "conflict of limit of queue q for flavor r1 + required level rack + capacity"
    ]


def test_nodes_get_no_label_by_which_pods_there_repel_the_gang() -> None:
    """All nodes lack the label. The anti-affinity by it, without effect before, concerns a pod on n-0."""
    scenario = Scenario("rack").nodes("n", 2, gpu=1).foreign_pod("x", "n-0", labels={"app": "x"})
    scenario.gang("g", 1, gpu=1, required="rack", apart=[term("test/rack", app="x")])
    found = verdict(scenario)
    assert found.next_step.startswith("Label n-1 with one value of test/rack, or ")
    scenario = Scenario("rack").nodes("n", 2, gpu=1).gang("g", 1, gpu=1, required="rack", labels={"app": "x"})
    scenario.foreign_pod("x", "n-0", apart=[term("test/rack", app="x")])
    assert verdict(scenario).next_step.startswith("Label n-1 with one value of test/rack, or ")


def test_the_smallest_change_lets_any_member_start_that_a_running_gang_waits_for() -> None:
    """The first surplus member lacks a device too."""
    scenario = Scenario().nodes("n", cpu=8, gpu=1).gang("old", 1, cpu=6, gpu=1, on=["n-0"])
    scenario.gang("g", 1, cpu=1, on=["n-0"]).role("g", 1, cpu=2, gpu=1, role="ps")
    assert verdict(scenario).next_step == (
        "Wait until gang team/old ends or 1 more cpu, 1 more nvidia.com/gpu are free on n-0"
    )
    scenario.role("g", 1, cpu=2, role="worker")
    assert verdict(scenario).next_step == "Wait until gang team/old ends or 1 more cpu is free on n-0"


def test_a_member_that_no_node_could_take_is_one_to_start_with_without_the_field_that_excludes_nodes() -> (
    None
):
    scenario = Scenario().nodes("a", gpu=2).nodes("b", gpu=4)
    scenario.gang("g", 2, gpu=2, role="first", selector={"group": "a"}, near=(term(app="store"),))
    step = "emove nodeSelector and remove podAffinity"
    assert step in verdict(scenario).next_step
    scenario.role("g", 2, gpu=1, role="unfit", selector={"group": "none"})
    assert step not in verdict(scenario).next_step
    assert "emove nodeSelector" in verdict(scenario).next_step


def test_a_lower_minimum_helps_at_once_if_other_members_than_those_of_the_empty_cluster_fit_now() -> None:
    """The member near `store` fits while that runs, another one when it has ended."""
    store = {"app": "store"}
    scenario = Scenario().nodes("n", cpu=4, gpu=2).gang("store", 1, gpu=2, labels=store, on=["n-0"])
    scenario.gang("g", 1, min=3, cpu=1, role="near", near=(term(app="store"),))
    found = verdict(scenario.role("g", 2, gpu=2, role="far")).next_step
    assert found == "Lower minMember to 1, or add 2 nodes like n-0"


# --- effort -------------------------------------------------------------------------------------------------


def test_a_gang_of_more_kinds_of_pods_gets_fewer_solves_for_its_advice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = Scenario().nodes("n", gpu=2).gang("g", 3, gpu=1)
    assert verdict(scenario).next_step != verdict_without_solves(scenario, monkeypatch).next_step


def verdict_without_solves(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    monkeypatch.setattr(explainer, "ADVICE_KINDS_MAX", 0)
    return verdict(scenario)
