"""Node classes: what distinguishes nodes, and that incremental updates equal a new computation."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from phalanx.actions.demands.demand import Demand
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.decisions import Certificate
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName
from phalanx.model.nodes import Taint
from phalanx.model.queues import Flavor
from phalanx.model.reasons import Objection
from phalanx.model.resources import CPU, GPU, fits
from phalanx.rules.problem import NodeClass

from tests.builders import GI, Scenario, demands_of
from tests.examples import holds

PROOF = Certificate(terms=(), objective=(), bound=(), proven=True, by="test")


def opened(scenario: Scenario) -> Session:
    return Session(scenario.snapshot(), SchedulerConfig())


def demand(session: Session, name: str) -> Demand:
    found = demands_of(session.gangs[f"gang-{name}"])  # type: ignore[index]
    assert not isinstance(found, Objection)
    return found[0]


def classes(scenario: Scenario) -> tuple[NodeClass, ...]:
    session = opened(scenario)
    return ProblemBuilder(session).build_problem(demand(session, "g")).problem.classes


def uneven(**fields: Any) -> Scenario:
    """Eight nodes of eight devices that differ in used CPU and memory, as real ones do."""
    scenario = Scenario("zone", "rack")
    for index in range(8):
        odd = {CPU: 100 + 50 * index, "memory": 4097 * index, "pods": index % 3}
        scenario.nodes(f"n{index}", gpu=8, within=f"z/r{index // 4}", used=odd, **fields)
    return scenario


def test_small_differences_in_use_do_not_distinguish_nodes() -> None:
    (one,) = classes(uneven().gang("g", 64, gpu=1, memory=8))
    assert len(one.nodes) == 8
    assert one.free == (8000, 64 * GI, 8, 8)
    assert one.path == ()


def test_only_as_many_nodes_as_could_be_needed_are_listed_fullest_first() -> None:
    scenario = uneven().gang("old", 2, gpu=3, on=["n5-0", "n6-0"])
    (one,) = classes(scenario.gang("g", 3, gpu=1))
    assert one.nodes == ("n6-0", "n5-0", "n7-0")


def test_capacity_beyond_what_the_batch_could_use_does_not_distinguish_nodes() -> None:
    scenario = uneven().gang("old", 1, gpu=5, on=["n0-0"])
    assert len(classes(scenario.gang("g", 3, gpu=1))) == 1
    assert [len(each.nodes) for each in classes(scenario.gang("g", 8, gpu=1))] == [1, 7]


def test_full_nodes_are_left_out() -> None:
    (one,) = classes(uneven().gang("old", 1, gpu=8, on=["n0-0"]).gang("g", 8, gpu=1))
    assert "n0-0" not in one.nodes
    assert classes(uneven().gang("g", 1, gpu=9)) == ()


def test_domains_distinguish_nodes_down_to_the_requested_level() -> None:
    assert {each.path for each in classes(uneven().gang("g", 8, gpu=1))} == {()}
    assert {each.path for each in classes(uneven().gang("g", 8, gpu=1, required="zone"))} == {("z",)}
    racks = classes(uneven().gang("g", 64, gpu=1, required="zone", preferred="rack"))
    assert [each.path for each in racks] == [("z", "r0"), ("z", "r1")]


def test_eligibility_and_cost_distinguish_nodes() -> None:
    scenario = uneven().nodes("soft", gpu=8, taints=[Taint("old", "PreferNoSchedule")])
    scenario.nodes("hard", gpu=8, taints=[Taint("gone", "NoExecute")])
    found = {each.cost: each.nodes for each in classes(scenario.gang("g", 16, gpu=1))}
    assert {cost: len(nodes) for cost, nodes in found.items()} == {(0,): 8, (100,): 1}


def test_a_node_that_only_one_batch_may_use_is_listed() -> None:
    scenario = uneven().nodes("cpu", cpu=4).gang("g", 2, gpu=1, selector={"group": "n0"}, min=4)
    scenario.role("g", 2, role="ps", selector={"group": "cpu"})
    assert {each.nodes: each.eligible for each in classes(scenario)} == {
        ("n0-0",): (True, False),
        ("cpu-0",): (False, True),
    }


def test_limits_distinguish_nodes() -> None:
    flavor = Flavor("first", (("group", "n0"),), {GPU: 4})
    scenario = uneven().queue("q", limit={GPU: 32}, flavors=[flavor]).gang("g", 8, gpu=1, queue="q")
    assert [(each.budgets, len(each.nodes)) for each in classes(scenario)] == [((0,), 7), ((0, 1), 1)]


def test_free_capacity_is_capped_at_what_all_batches_could_use() -> None:
    """Two small pods and one large one: 2 + 8 of 64 cores of a node count."""
    scenario = uneven().gang("g", 2, gpu=0, memory=1, min=3).role("g", 1, gpu=8, cpu=8, memory=1)
    assert {each.free[0] for each in classes(scenario)} == {10_000}


@holds(35)
@given(st.lists(st.tuples(st.integers(0, 7), st.sampled_from(["a", "b", "c"])), max_size=20))
def test_incremental_updates_equal_a_new_computation(steps: list[tuple[int, str]]) -> None:
    scenario = uneven().gang("g", 8, gpu=1, required="rack").gang("h", 3, gpu=2, cpu=7)
    for name, gpu in (("a", 1), ("b", 3), ("c", 0)):
        scenario.gang(name, 20, gpu=gpu, cpu=5)
    session = opened(scenario)
    following = ProblemBuilder(session)
    left = {name: list(session.gangs[f"gang-{name}"].members) for name in "abc"}  # type: ignore[index]
    for index, name in steps:
        node = NodeName(f"n{index}-0")
        gang: Gang = session.gangs[f"gang-{name}"]  # type: ignore[index]
        if fits(left[name][0].shape.requests, session.free(node)):
            with session.statement() as statement:
                assignments = [(node, [left[name].pop()])]
                statement.place(gang=gang, assignments=assignments, cause="start", certificate=PROOF)
                if index == 0:
                    statement.roll_back()
        fresh = ProblemBuilder(session)
        for name in ("g", "h"):
            assert following.build_problem(demand(session, name)) == fresh.build_problem(
                demand(session, name)
            )
