"""Preferences between pods of a gang, against all placements of small problems and an evaluation pair by
pair."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from phalanx.model.names import NodeName, ShapeKey
from phalanx.model.queues import Objective
from phalanx.rules.affinity import PairWeight, PodAffinityRule, PodAntiAffinityRule, PodPairs
from phalanx.rules.levels import FewestDomains, SameDomain
from phalanx.rules.problem import NodeClass, PlacementProblem, Rule
from phalanx.solver.answer import Placed, Unplaceable
from phalanx.solver.arrays import class_rows, node_table
from phalanx.solver.engine import GREEDY_ONLY, place
from phalanx.solver.joint.arrays import unsupported_gangs
from phalanx.solver.joint.problem import GangDemand, GangRole, JointProblem, PodClass
from phalanx.solver.objective import Scorer
from phalanx.solver.single.bounds import RelaxationBounds
from phalanx.solver.single.closed_form import place_closed
from phalanx.solver.single.scopes import scopes_of
from phalanx.solver.single.tree_dp import place_on_tree

from tests.solver.oracle import optimum
from tests.solver.problems import bounded, role
from tests.solver.test_brute_force import compare

LEVELS = ("spine", "rack")
SHAPES = (ShapeKey("a"), ShapeKey("b"))


@st.composite
def problems(draw: st.DrawFn) -> PlacementProblem:
    """One or two roles on up to five nodes, some of them equal, by the labels of a zone and of a node."""
    sizes = draw(st.sampled_from(((1, 1, 1), (2, 1), (3,), (2, 2), (1, 2), (4,), (2, 3))))
    counts = draw(st.sampled_from(((2,), (3,), (4,), (1, 2), (2, 2), (2, 1), (3, 2))))
    names, capacity = iter("mnopq"), draw(st.sampled_from((0, 3)))
    requests = draw(st.sampled_from(((1, 1), (1, 1), (1, 2), (2, 1))))
    classes = tuple(
        NodeClass(
            path=draw(st.sampled_from((("s", "r"), ("s", "q"), ("t", "r"), ("s",), ()))),
            free=(draw(st.integers(1, 4)),),
            eligible=(True, draw(st.sampled_from((True, True, True, False))))[: len(counts)],
            cost=draw(st.sampled_from(((0, 0), (0, 0), (100, 0), (7, 200))))[: len(counts)],
            nodes=tuple(NodeName(next(names)) for _ in range(size)),
            label_values=(draw(st.sampled_from(("x", "x", "y", ""))),),
            domain_capacity=capacity,
        )
        for size in sizes
    )
    roles = tuple(
        structs.replace(role(shape, (request,), count - draw(st.sampled_from((0, 0, 1))), count), shape=shape)
        for shape, request, count in zip(SHAPES, requests, counts, strict=False)
    )
    rules: list[Rule] = [
        draw(_preferences(key)) for key in draw(st.sampled_from((["zone"], ["host"], ["zone", "host"])))
    ]
    return PlacementProblem(("cpu",), LEVELS, roles, classes, (*rules, *draw(_other_rules())), keys=("zone",))


@st.composite
def _preferences(draw: st.DrawFn, key: str) -> PodPairs:
    pairs = draw(
        st.lists(
            st.tuples(st.sampled_from(SHAPES), st.sampled_from(SHAPES)), min_size=1, max_size=3, unique=True
        )
    )
    weights = st.sampled_from((100, 100, 1, -1, -30, -100, -100))
    return PodPairs(key, key, tuple(PairWeight(*pair, draw(weights)) for pair in pairs))


@st.composite
def _other_rules(draw: st.DrawFn) -> list[Rule]:
    few: Rule = FewestDomains("few", draw(st.sampled_from(LEVELS)))
    one: Rule = SameDomain("one", draw(st.sampled_from(LEVELS)))
    apart: Rule = PodAntiAffinityRule("apart", draw(st.sampled_from(("zone", "host"))), SHAPES[:1], SHAPES)
    near: Rule = PodAffinityRule("near", "zone", SHAPES[:1], (), (), SHAPES[:1])
    return draw(st.sampled_from(([], [], [few], [one], [apart], [near], [few, apart])))


@bounded(60)
@given(problems())
def test_the_proven_answer_is_the_best_of_all_placements(problem: PlacementProblem) -> None:
    compare(problem)


@bounded(30)
@given(problems())
def test_without_cp_sat_the_bound_still_holds(problem: PlacementProblem) -> None:
    answer, best = place(problem, limits=GREEDY_ONLY), optimum(problem)
    assert answer.errors == ()
    if isinstance(answer, Placed):
        assert best is not None
        assert answer.certificate.bound <= best <= answer.certificate.objective


@bounded(30)
@given(problems())
def test_relaxations_are_below_all_placements_of_their_scope(problem: PlacementProblem) -> None:
    table = node_table(class_rows(problem))
    bounds = RelaxationBounds(table, Scorer(problem))
    for depth in range(table.rows.rules.depth + 1):
        for scope in scopes_of(table, depth):
            inside = {table.names[position] for position in scope.nodes.tolist()}
            best = optimum(structs.replace(problem, classes=_within(problem, inside)))
            if best is not None:
                assert bounds.bound(scope)[: len(best)] <= best


def _within(problem: PlacementProblem, nodes: set[NodeName]) -> tuple[NodeClass, ...]:
    """The classes, without capacity on other nodes."""
    nothing = (0,) * len(problem.resources)
    return tuple(
        structs.replace(group, nodes=(node,), free=group.free if node in nodes else nothing)
        for group in problem.classes
        for node in group.nodes
    )


def replicas(
    count: int, weights: dict[str, int], *, nodes: Sequence[tuple[str, int, int]], size: int = 10
) -> PlacementProblem:
    """Equal pods that prefer each other by these labels; nodes by zone, free units and cost, `size` of
    each."""
    classes = tuple(
        NodeClass(
            path=(),
            free=(free,),
            eligible=(True,),
            cost=(cost,),
            nodes=tuple(NodeName(f"{zone}-{number}-{index}") for index in range(size)),
            label_values=(zone,),
        )
        for number, (zone, free, cost) in enumerate(nodes)
    )
    (shape, _) = SHAPES
    rules = tuple(PodPairs(key, key, (PairWeight(shape, shape, each),)) for key, each in weights.items())
    one = structs.replace(role("worker", (1,), count), shape=shape)
    return PlacementProblem(("cpu",), (), (one,), classes, rules, keys=("zone",))


def by_zone(answer: Placed) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in answer.assignments:
        zone = each.node.partition("-")[0]
        found[zone] = found.get(zone, 0) + each.count
    return dict(sorted(found.items()))


def placed(problem: PlacementProblem) -> Placed:
    answer = place(problem)
    assert isinstance(answer, Placed)
    assert answer.errors == ()
    return answer


def test_replicas_are_spread_over_nodes_and_proven_without_search() -> None:
    answer = placed(replicas(25, {"host": -100}, nodes=(("x", 8, 0), ("y", 8, 0))))
    assert sorted(each.count for each in answer.assignments) == [*[1] * 15, *[2] * 5]
    assert (answer.certificate.objective, answer.certificate.proven) == ((5 * 200,), True)
    assert answer.certificate.by == "relaxation"


def test_replicas_are_spread_over_zones_first() -> None:
    answer = placed(replicas(12, {"zone": -100, "host": -1}, nodes=(("x", 8, 0), ("y", 8, 0), ("z", 8, 0))))
    assert by_zone(answer) == {"x": 4, "y": 4, "z": 4}
    assert {each.count for each in answer.assignments} == {1}
    assert answer.certificate.proven


def test_a_cheaper_node_is_worth_more_pods_on_it() -> None:
    """Another pod on a node costs 200, another node 300: three pods cost 600 on two nodes, and on one."""
    problem = replicas(3, {"host": -100}, nodes=(("x", 8, 0), ("y", 8, 300)), size=1)
    answer = placed(problem)
    assert (answer.certificate.objective, answer.certificate.proven) == ((500,), True)
    assert by_zone(answer) == {"x": 2, "y": 1}


def test_pods_that_draw_each_other_share_a_zone() -> None:
    answer = placed(replicas(30, {"zone": 1}, nodes=(("x", 2, 0), ("y", 3, 0), ("z", 2, 0))))
    assert by_zone(answer) == {"y": 30}
    assert (answer.certificate.objective, answer.certificate.proven) == ((0,), True)


def test_a_problem_too_large_for_a_proof_keeps_its_placement_with_the_gap() -> None:
    problem = replicas(60, {"host": 10, "zone": -3}, nodes=[(zone, 3, 0) for zone in "xyz"], size=40)
    answer = place(problem, limits=GREEDY_ONLY)
    assert isinstance(answer, Placed)
    assert answer.certificate.bound < answer.certificate.objective
    assert not answer.certificate.proven


def test_a_model_that_is_too_large_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = replicas(9, {"host": 10, "zone": -3}, nodes=[("x", 3, 0), ("y", 2, 1), ("z", 3, 2)], size=2)
    proven = placed(problem)
    assert (proven.certificate.by, proven.certificate.proven) == ("cp-sat", True)
    monkeypatch.setattr("phalanx.solver.counting.traffic.VARIABLES_MAX", 1)
    answer = placed(problem)
    assert answer.certificate.by == "relaxation"
    assert answer.certificate.bound <= proven.certificate.objective <= answer.certificate.objective


def test_a_queue_that_leaves_large_holes_keeps_them_apart() -> None:
    problem = replicas(4, {"host": -1}, nodes=(("x", 8, 0),))
    spread = tuple(structs.replace(one, order=tuple((0,) for _ in one.nodes)) for one in problem.classes)
    answer = placed(structs.replace(problem, classes=spread, ties=Objective.LARGEST_HOLE))
    assert {each.count for each in answer.assignments} == {1}


def test_preferences_never_prevent_a_placement() -> None:
    assert by_zone(placed(replicas(4, {"host": -100}, nodes=(("x", 4, 0),), size=1))) == {"x": 4}
    answer = place(replicas(5, {"host": 100}, nodes=(("x", 4, 0),), size=1))
    assert isinstance(answer, Unplaceable)
    assert answer.proven


def test_backends_that_do_not_know_them_decline() -> None:
    alone = replicas(2, {"host": -1}, nodes=(("x", 4, 0),))
    assert place_closed(alone) is None
    deep = tuple(structs.replace(one, path=("r",)) for one in alone.classes)
    few = (*alone.rules, FewestDomains("few", "rack"))
    assert place_on_tree(structs.replace(alone, levels=("rack",), classes=deep, rules=few)) is None
    demand = GangDemand("gang", (GangRole(0, 2),), alone.rules, value=1)
    joint = JointProblem(("cpu",), (), (PodClass("worker", (1,)),), (demand,), alone.classes)
    assert unsupported_gangs(joint) == (0,)


def test_a_single_pod_has_no_pairs() -> None:
    assert placed(replicas(1, {"host": -1}, nodes=(("x", 4, 0),))).certificate.terms == ()
