"""Fair shares of a session: which capacity is divided, and which gangs count as demand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.actions import allocate, enqueue
from phalanx.actions.backlog.backlogs import Backlogs
from phalanx.actions.context import Cycle
from phalanx.actions.nodes.node_classes import ClassTableCache
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.queues.division import QueueShare
from phalanx.framework.session import Session
from phalanx.model.decisions import CycleResult
from phalanx.model.names import QueueName, ShapeKey
from phalanx.model.queues import Flavor, Selector
from phalanx.model.reasons import Reason
from phalanx.model.resources import CPU, GPU
from phalanx.solver.answer_cache import AnswerCache

from tests.builders import Decided, Scenario
from tests.examples import holds

A100 = (("group", "a100"),)
H100 = (("group", "h100"),)


def share(scenario: Scenario, queue: str, flavor: Selector | None = None) -> QueueShare:
    session = Session(scenario.snapshot(), SchedulerConfig())
    return session.fair_shares.of(QueueName(queue), flavor)


def fair_shares(scenario: Scenario, *queues: str, flavor: Selector | None = None) -> list[int]:
    """How many devices each queue is entitled to."""
    return [share(scenario, queue, flavor).fair_share.get(GPU, 0) for queue in queues]


def two(gpu: int = 8, **fields: int) -> Scenario:
    return Scenario().nodes("n", 1, gpu=gpu, **fields).queue("a").queue("b")


def test_demand_is_what_runs_and_what_waits() -> None:
    scenario = two().gang("old", 2, gpu=1, bound=2, queue="a").gang("new", 3, gpu=1, queue="a")
    found = share(scenario, "a")
    assert (found.used[GPU], found.demand[GPU], found.fair_share[GPU]) == (2, 5, 5)
    assert found.guarantee == {}


def test_capacity_used_by_foreign_pods_is_not_divided() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8, used={GPU: 2}).queue("a").queue("b")
    scenario.gang("x", 8, gpu=1, queue="a").gang("y", 8, gpu=1, queue="b")
    assert fair_shares(scenario, "a", "b") == [3, 3]


def test_capacity_used_by_pods_of_a_deleted_queue_is_not_divided() -> None:
    scenario = two().gang("left", 2, gpu=1, bound=2, queue="gone")
    scenario.gang("x", 8, gpu=1, queue="a").gang("y", 8, gpu=1, queue="b")
    assert fair_shares(scenario, "a", "b", "gone") == [3, 3, 0]


def test_use_on_a_deleted_node_is_not_divided() -> None:
    scenario = two().gang("lost", 2, gpu=1, on=["gone-0"] * 2, queue="a")
    scenario.gang("x", 8, gpu=1, queue="a").gang("y", 8, gpu=1, queue="b")
    assert fair_shares(scenario, "a", "b") == [4, 4]


def test_only_the_used_capacity_of_a_cordoned_node_is_divided() -> None:
    scenario = two(4).nodes("old", 1, gpu=8, cordoned=True)
    scenario.gang("run", 2, gpu=1, on=["old-0"] * 2, queue="a")
    scenario.gang("x", 8, gpu=1, queue="a").gang("y", 8, gpu=1, queue="b")
    assert fair_shares(scenario, "a", "b") == [3, 3]


@pytest.mark.parametrize(
    "fields",
    [
        {"gpu": 9},  # on no node
        {"gpu": 1, "selector": {"no": "node"}},
        {"gpu": 1, "gated": True},
        {"gpu": 1, "min": 9},  # members are missing
        {"gpu": 1, "queue": "parent"},
    ],
)
def test_gangs_that_cannot_be_placed_are_no_demand(fields: dict[str, object]) -> None:
    scenario = two().queue("parent").queue("child", parent="parent")
    scenario.gang("x", 8, **{"queue": "a", **fields}).gang("y", 8, gpu=1, queue="b")
    assert fair_shares(scenario, "a", "parent", "b") == [0, 0, 8]


def test_gangs_that_were_proven_impossible_are_no_demand_any_more() -> None:
    """Two racks of one node; the gang needs two nodes and requires one rack."""
    scenario = Scenario("rack").nodes("r", 1, gpu=8, within="r1").nodes("s", 1, gpu=8, within="s1")
    scenario.queue("a").queue("b").gang("x", 16, gpu=1, queue="a", required="rack")
    scenario.gang("y", 16, gpu=1, queue="b", created=0)
    assert fair_shares(scenario, "a", "b") == [8, 8]
    result = scenario.decide()
    assert result.reasons()["x"] is Reason.ABOVE_DOMAIN_CAPACITY
    scenario.memory = result.result.memory
    assert fair_shares(scenario, "a", "b") == [0, 16]


def test_demand_includes_the_minimums_of_roles_first() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8).queue("a")
    scenario.gang("g", 3, min=2, gpu=1, role="ps", queue="a").role("g", 1, min=1, role="worker", gpu=4)
    assert share(scenario, "a").demand[GPU] == 5


def test_flavors_are_divided_separately() -> None:
    scenario = Scenario().nodes("a100", 1, gpu=8).nodes("h100", 1, gpu=4)
    fast = Flavor("fast", H100, guarantee={GPU: 3})
    same = Flavor("other-name", H100)
    scenario.queue("a", flavors=[fast, Flavor("slow", A100)]).queue("b", flavors=[same])
    scenario.gang("x", 12, gpu=1, queue="a").gang("y", 12, gpu=1, queue="b")
    assert fair_shares(scenario, "a", "b") == [6, 6]
    assert fair_shares(scenario, "a", "b", flavor=A100) == [4, 4]
    assert fair_shares(scenario, "a", "b", flavor=H100) == [4, 0]
    assert fair_shares(scenario, "unknown", flavor=H100) == [0]


def test_a_parent_inherits_the_flavors_of_its_children() -> None:
    """It has the sum of their flavor guarantees, and is charged for what all queues below it use there."""
    scenario = Scenario().nodes("a100", 1, gpu=8).nodes("h100", 1, gpu=8).queue("org").queue("other")
    fast = Flavor("fast", H100, guarantee={GPU: 3})
    scenario.queue("a", parent="org", flavors=[fast]).queue("b", parent="org")
    scenario.gang("x", 2, gpu=1, queue="b", on=["a100-0", "h100-0"])
    assert share(scenario, "org", H100).guarantee == {GPU: 3}
    ledger = Session(scenario.snapshot(), SchedulerConfig()).ledger
    assert [ledger.guaranteed(QueueName(name)) for name in ("org", "b", "other")] == [(H100,), (), ()]
    assert [ledger.usage(QueueName("org"), each)[GPU] for each in (None, H100)] == [2, 1]


def test_use_of_a_resource_that_no_node_has_does_not_reduce_a_share() -> None:
    """A pod that requests it was bound; until its kubelet rejects it, its devices count as used."""
    scenario = two().gang("x", 1, gpu=4, queue="a", on=["n-0"]).gang("y", 8, gpu=1, queue="b")
    (pod,) = scenario.members("x")
    shape = replace(pod.shape, key=ShapeKey("odd"), requests={**pod.shape.requests, "example.com/odd": 1})
    scenario.change("x", members=(replace(pod, shape=shape),))
    assert fair_shares(scenario, "a", "b") == [4, 4]
    assert "example.com/odd" not in share(scenario, "a").demand


def test_gangs_that_may_not_use_the_nodes_of_a_flavor_are_no_demand_there() -> None:
    scenario = Scenario().nodes("a100", 1, gpu=8).nodes("h100", 1, gpu=4)
    scenario.queue("a", flavors=[Flavor("h", H100)]).queue("b", flavors=[Flavor("h", H100)])
    scenario.gang("x", 4, gpu=1, queue="a", selector={"group": "a100"}).gang("y", 4, gpu=1, queue="b")
    assert fair_shares(scenario, "a", "b", flavor=H100) == [0, 4]


def test_queues_in_a_cycle_are_roots() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8).queue("a", parent="b").queue("b", parent="a")
    scenario.queue("c", parent="a").queue("d", parent="nowhere")
    for queue in "abcd":
        scenario.gang(f"old-{queue}", 2, gpu=1, bound=2, queue=queue)
    assert fair_shares(scenario, "b", "c", "d") == [2, 2, 2]


def test_each_queue_is_reported_and_unmet_guarantees_block_no_gang() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8).queue("a", guarantee={GPU: 12}).queue("b", guarantee={GPU: 4})
    result = scenario.gang("x", 7, gpu=1, queue="a", cpu=0).decide()
    assert result.placed() == ["x"]
    report = result.result.queues["a"]
    assert report.guarantee == {GPU: 6}
    assert report.fair_share[GPU] == 7
    assert report.borrowed[GPU] == 1
    assert [each.reason for each in report.unmet_guarantees] == [Reason.QUEUE_INVALID]
    assert report.unmet_guarantees[0].message.startswith(
        "spec.guarantee[nvidia.com/gpu]: 6 of 12 are guaranteed"
    )
    assert report.problems == ()
    assert result.result.queues["default"].unmet_guarantees == ()


def test_an_unmet_guarantee_of_a_flavor_is_reported() -> None:
    scenario = Scenario().nodes("h100", 1, gpu=4, cpu=8)
    scenario.queue("a", flavors=[Flavor("h", H100, guarantee={GPU: 4, CPU: 9000})])
    (problem,) = scenario.decide().result.queues["a"].unmet_guarantees
    assert problem.message.startswith("spec.flavors[h].guarantee[cpu]: 8000 of 9000 are guaranteed")


def test_a_queue_that_gets_children_divides_its_share_with_them() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8).queue("top", guarantee={GPU: 6}).queue("leaf", parent="top")
    scenario.queue("other").gang("run", 4, gpu=1, bound=4, queue="top").gang("late", 1, gpu=1, queue="top")
    scenario.gang("x", 8, gpu=1, queue="leaf").gang("y", 8, gpu=1, queue="other")
    result = scenario.decide()
    assert result.evicted() == []
    assert result.reasons()["late"] is Reason.QUEUE_NOT_LEAF
    assert fair_shares(scenario, "top", "leaf", "other") == [7, 3, 1]


def test_a_guarantee_and_a_limit_reduced_below_the_use_evict_no_gang() -> None:
    scenario = two(9).queue("a", guarantee={GPU: 4}, limit={GPU: 2}).gang("run", 6, gpu=1, bound=6, queue="a")
    scenario.gang("x", 1, gpu=1, queue="a").gang("y", 2, gpu=1, queue="b")
    result = scenario.decide()
    assert (result.placed(), result.evicted()) == (["y"], [])
    assert result.reasons() == {"x": Reason.QUEUE_LIMIT}
    report = result.result.queues["a"]
    assert (report.guarantee, report.fair_share[GPU], report.borrowed[GPU]) == ({GPU: 2}, 2, 4)
    assert report.unmet_guarantees[0].message.startswith("spec.guarantee[nvidia.com/gpu]: 2 of 4")


@holds(60)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=8)
)
def test_the_incremental_ledger_equals_a_new_computation(gangs: list[tuple[str, int, int]]) -> None:
    """Per queue and flavor, after a cycle has placed some gangs and rolled back the others."""
    scenario = (
        Scenario().nodes("a100", 1, gpu=8).nodes("h100", 1, gpu=8).queue("top", flavors=[Flavor("f", H100)])
    )
    scenario.queue("a", parent="top", flavors=[Flavor("h", H100), Flavor("s", A100)]).queue("b", parent="top")
    scenario.queue("c", limit={GPU: 6})
    for index, (queue, count, bound) in enumerate(gangs):
        scenario.gang(f"g{index}", count, gpu=2, queue=queue)
        if bound and index < 3:
            scenario.gang(f"old{index}", bound, gpu=1, bound=bound, queue=queue)
    snapshot = scenario.snapshot()
    session = Session(snapshot, SchedulerConfig())
    backlog = Backlogs(SchedulerConfig()).begin(snapshot)
    cycle = Cycle(session, backlog, ClassTableCache(), AnswerCache())
    enqueue.execute(cycle)
    allocate.execute(cycle)
    scenario.take(Decided(CycleResult(cycle=1, placements=session.placements)))
    again = Session(scenario.snapshot(), SchedulerConfig()).ledger
    for queue in session.queues:
        for selector in (None, *(flavor.node_selector for flavor in queue.flavors)):
            assert session.ledger.usage(queue.name, selector) == again.usage(queue.name, selector)


def test_limits_of_children_bound_the_demand_below_a_parent() -> None:
    """Of 4 GPUs below the parent, a may use 1: with 2 of b nothing is short."""
    scenario = Scenario().nodes("n", 1, gpu=8).queue("p", limit={GPU: 4})
    scenario.queue("a", parent="p", limit={GPU: 1}).queue("b", parent="p")
    scenario.gang("x", 5, gpu=1, queue="a").gang("y", 2, gpu=1, queue="b")
    session = Session(scenario.snapshot(), SchedulerConfig())
    assert not session.fair_shares.is_scarce(GPU, QueueName("p"))
    scenario.gang("z", 2, gpu=1, queue="b")
    assert Session(scenario.snapshot(), SchedulerConfig()).fair_shares.is_scarce(GPU, QueueName("p"))
