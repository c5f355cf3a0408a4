"""Traffic between roles, against all placements of small problems and an evaluation pair by pair."""

import itertools
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from ortools.sat.python import cp_model
from phalanx.model.names import NodeName
from phalanx.model.queues import Objective
from phalanx.rules.anchors import RoleAnchor
from phalanx.rules.levels import FewestDomains
from phalanx.rules.problem import Assignment, NodeClass, PlacementProblem, RoleDemand, Rule
from phalanx.rules.traffic import Flow, Traffic
from phalanx.solver.answer import Placed, Unplaceable
from phalanx.solver.arrays import class_rows, node_table
from phalanx.solver.counting.constraints import CONSTRAINTS
from phalanx.solver.counting.model import CountingModel, objective_term
from phalanx.solver.counting.node_groups import groups_of
from phalanx.solver.cp_sat import one_worker
from phalanx.solver.engine import GREEDY_ONLY, place
from phalanx.solver.joint.arrays import unsupported_gangs
from phalanx.solver.joint.problem import GangDemand, GangRole, JointProblem, PodClass
from phalanx.solver.objective import Scorer
from phalanx.solver.single.bounds import RelaxationBounds
from phalanx.solver.single.closed_form import place_closed
from phalanx.solver.single.scopes import scopes_of
from phalanx.solver.single.tree_dp import place_on_tree

from tests.solver.problems import bounded, role

LEVELS = ("spine", "rack")
NAMES = ("ps", "worker")
Spots = tuple[str, ...]
"""The node of each pod; empty for none."""


@st.composite
def problems(draw: st.DrawFn) -> PlacementProblem:
    """Two or three roles with traffic on up to five nodes, some of them equal, and members that run."""
    sizes = draw(st.sampled_from(((1, 1, 1), (2, 1), (3,), (2, 2), (1, 2), (4,), (2, 3))))
    names = iter("abcde")
    requests = draw(st.sampled_from(((1, 1), (1, 1), (1, 2), (2, 1))))
    classes = tuple(
        NodeClass(
            path=draw(st.sampled_from((("s", "r"), ("s", "q"), ("t", "r"), ("s",), ()))),
            free=(draw(st.integers(1, 4)),),
            eligible=(True, draw(st.sampled_from((True, True, True, False)))),
            cost=draw(st.sampled_from(((0, 0), (0, 0), (1, 2)))),
            nodes=tuple(NodeName(next(names)) for _ in range(size)),
        )
        for size in sizes
    )
    counts = draw(st.sampled_from(((1, 2), (2, 2), (2, 3), (1, 3), (3, 2))))
    roles = tuple(
        role(name, (request,), count - draw(st.sampled_from((0, 0, 1))), count)
        for name, request, count in zip(NAMES, requests, counts, strict=True)
    )
    pairs = draw(
        st.lists(st.sampled_from([*itertools.product(NAMES, NAMES)]), min_size=1, max_size=3, unique=True)
    )
    flows = tuple(Flow(one, other, draw(st.sampled_from((1, 2, 5)))) for one, other in pairs)
    rules: list[Rule] = [Traffic("traffic", flows, NAMES, draw(_anchors(classes)))]
    if draw(st.integers(0, 3)) == 0:
        rules.append(FewestDomains("few", draw(st.sampled_from(LEVELS))))
    return PlacementProblem(("cpu",), LEVELS, roles, classes, tuple(rules))


@st.composite
def _anchors(draw: st.DrawFn, classes: Sequence[NodeClass]) -> tuple[RoleAnchor, ...]:
    found = [(group.path, node) for group in classes for node in group.nodes]
    found.append((("s", "q"), NodeName("full")))
    chosen = draw(st.lists(st.sampled_from(found), max_size=2, unique=True))
    return tuple(RoleAnchor(draw(st.sampled_from(NAMES)), path, node, 1) for path, node in chosen)


def all_placements(problem: PlacementProblem) -> Iterator[list[tuple[int, NodeName]]]:
    """Each possible placement, as the role and node of each pod."""
    groups = {node: group for group in problem.classes for node in group.nodes}
    choices = [
        [
            chosen
            for count in range(one.minimum, one.maximum + 1)
            for chosen in itertools.combinations_with_replacement(sorted(groups), count)
        ]
        for one in problem.roles
    ]
    for chosen in itertools.product(*choices):
        pods = [(number, node) for number, nodes in enumerate(chosen) for node in nodes]
        used = dict.fromkeys(groups, 0)
        for number, node in pods:
            used[node] += problem.roles[number].request[0]
        if all(groups[node].eligible[number] for number, node in pods) and all(
            used[node] <= groups[node].free[0] for node in groups
        ):
            yield pods


def value(problem: PlacementProblem, pods: Sequence[tuple[int, NodeName]]) -> tuple[int, ...]:
    """The objective, pair by pair."""
    paths = {node: group.path for group in problem.classes for node in group.nodes}
    rule = next(rule for rule in problem.rules if isinstance(rule, Traffic))
    paths |= {anchor.node: anchor.path for anchor in rule.anchors}
    members = [(NAMES[number], node) for number, node in pods]
    members += [(anchor.role, anchor.node) for anchor in rule.anchors for _ in range(anchor.count)]
    terms = [sum(one.maximum for one in problem.roles) - len(pods)]
    if all(one.minimum == one.maximum for one in problem.roles):
        terms = []
    for preferred in (rule for rule in problem.rules if isinstance(rule, FewestDomains)):
        for depth in range(1, LEVELS.index(preferred.level) + 2):
            terms.append(len({_domain(paths[node], node, depth) for _, node in pods}))
    for depth in (1, 2, 3):
        terms.append(
            sum(
                flow.weight
                for (number, one), (index, other) in itertools.permutations(enumerate(members), 2)
                for flow in rule.flows
                if (one[0], other[0]) == (flow.sender, flow.receiver)
                and _domain(paths[one[1]], one[1], depth) != _domain(paths[other[1]], other[1], depth)
            )
        )
    costs = {node: group.cost for group in problem.classes for node in group.nodes}
    if any(map(any, (group.cost for group in problem.classes))):
        terms.append(sum(costs[node][number] for number, node in pods))
    return tuple(terms)


def _domain(path: Sequence[str], node: str, depth: int) -> object:
    return tuple(path[:depth]) if depth <= len(LEVELS) and len(path) >= depth else node


def pods_of(placed: Placed) -> list[tuple[int, NodeName]]:
    """The role and node of each pod."""
    return [(one.role, one.node) for one in placed.assignments for _ in range(one.count)]


@bounded(60)
@given(problems())
def test_the_proven_answer_is_the_best_of_all_placements(problem: PlacementProblem) -> None:
    answer, values = place(problem), [value(problem, pods) for pods in all_placements(problem)]
    assert answer.errors == ()
    if isinstance(answer, Unplaceable):
        assert values == []
        return
    assert answer.certificate.objective == value(problem, pods_of(answer))
    assert answer.certificate.bound <= min(values) <= answer.certificate.objective
    assert answer.certificate.proven


@bounded(40)
@given(problems())
def test_without_cp_sat_the_bound_still_holds(problem: PlacementProblem) -> None:
    answer, values = place(problem, limits=GREEDY_ONLY), [value(problem, p) for p in all_placements(problem)]
    if isinstance(answer, Placed):
        assert answer.errors == ()
        assert answer.certificate.bound <= min(values) <= answer.certificate.objective


@bounded(40)
@given(problems())
def test_relaxations_are_below_all_placements_of_their_scope(problem: PlacementProblem) -> None:
    table = node_table(class_rows(problem))
    bounds = RelaxationBounds(table, Scorer(problem))
    values = [(pods, value(problem, pods)) for pods in all_placements(problem)]
    for depth in range(len(LEVELS) + 1):
        for scope in scopes_of(table, depth):
            inside = {table.names[position] for position in scope.nodes.tolist()}
            here = [one for pods, one in values if {node for _, node in pods} <= inside]
            if here:
                assert bounds.bound(scope) <= min(here)


@bounded(30)
@given(problems(), st.integers(0, 10_000))
def test_the_terms_of_the_model_are_those_of_each_placement(problem: PlacementProblem, choice: int) -> None:
    """With all counts fixed, the least value of each term is that of the placement."""
    split = tuple(
        structs.replace(group, nodes=(node,), label_values=(node,))
        for group in problem.classes
        for node in group.nodes
    )
    problem = structs.replace(problem, classes=split, keys=("host",))
    found = [*all_placements(problem)]
    table = node_table(class_rows(problem))
    if not found or not table.names:
        return
    pods = found[choice % len(found)]
    model = CountingModel(table, groups_of(table, table.everything))
    for add in CONSTRAINTS.values():
        add(model)
    for (number, index), variable in model.pods.items():
        node = table.names[model.groups[index].nodes[0]]
        model.cp.add(variable == pods.count((number, node)))
    scorer = Scorer(problem)
    wanted = dict(zip(scorer.terms, value(problem, pods), strict=True))
    for term in (term for term in scorer.terms if "traffic" in term):
        model.cp.minimize(objective_term(model, term))
        solver = one_worker(0, 1.0)
        assert solver.solve(model.cp) == cp_model.OPTIMAL
        assert (term, round(solver.objective_value)) == (term, wanted[term])


def gang(*flows: Flow, free: Sequence[int] = (3, 3), ps: int = 2, workers: int = 4) -> PlacementProblem:
    """Parameter servers and workers of one unit each, on a node for each free amount."""
    classes = tuple(
        NodeClass((f"rack-{index}",), (units,), (True, True), (0, 0), (NodeName(f"n{index}"),))
        for index, units in enumerate(free)
    )
    roles = (role("ps", (1,), ps), role("worker", (1,), workers))
    rule = Traffic("traffic", flows, NAMES)
    return PlacementProblem(("cpu",), ("rack",), roles, classes, (rule,))


def test_servers_are_divided_among_the_workers() -> None:
    answer = place(gang(Flow("ps", "worker", 100), Flow("worker", "ps", 100)))
    assert isinstance(answer, Placed)
    assert answer.certificate.terms == ("traffic:rack", "node-traffic")
    assert (answer.certificate.objective, answer.certificate.proven) == ((800, 800), True)


def test_all_are_on_one_node_that_holds_them() -> None:
    answer = place(gang(Flow("ps", "worker", 1), free=(3, 3, 6)))
    assert isinstance(answer, Placed)
    assert {one.node for one in answer.assignments} == {"n2"}
    assert answer.certificate.objective == (0, 0)


def test_members_of_one_role_send_to_each_other() -> None:
    answer = place(gang(Flow("worker", "worker", 1), free=(3, 4), ps=2, workers=4))
    assert isinstance(answer, Placed)
    assert answer.certificate.objective == (0, 0)


def test_a_late_member_goes_to_those_that_it_exchanges_with() -> None:
    problem = gang(Flow("ps", "worker", 1), free=(2, 1, 4), ps=0, workers=1)
    rule = Traffic(
        "traffic", (Flow("ps", "worker", 1),), NAMES, (RoleAnchor("ps", ("rack-1",), NodeName("n1"), 2),)
    )
    answer = place(structs.replace(problem, rules=(rule,)))
    assert isinstance(answer, Placed)
    assert [one.node for one in answer.assignments] == ["n1"]
    assert answer.certificate.objective == (0, 0)


def test_a_queue_that_spreads_does_not_separate_them() -> None:
    problem = gang(Flow("ps", "worker", 1), free=(6, 6))
    spread = tuple(structs.replace(one, path=("rack",), order=((0,),)) for one in problem.classes)
    answer = place(structs.replace(problem, classes=spread, ties=Objective.SPREAD))
    assert isinstance(answer, Placed)
    assert len({one.node for one in answer.assignments}) == 1


def test_a_problem_too_large_for_a_proof_keeps_its_placement_with_the_gap() -> None:
    free = [3] * 40
    answer = place(
        gang(Flow("ps", "worker", 1), Flow("worker", "worker", 3), free=free, ps=10, workers=60),
        limits=GREEDY_ONLY,
    )
    assert isinstance(answer, Placed)
    assert answer.certificate.bound < answer.certificate.objective
    assert not answer.certificate.proven


def test_a_model_that_is_too_large_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = gang(Flow("ps", "worker", 3), Flow("worker", "worker", 1), free=(3, 2, 2, 3), ps=3, workers=6)
    proven = place(problem)
    assert isinstance(proven, Placed)
    assert (proven.certificate.by, proven.certificate.proven) == ("cp-sat", True)
    monkeypatch.setattr("phalanx.solver.counting.traffic.VARIABLES_MAX", 1)
    answer = place(problem)
    assert isinstance(answer, Placed)
    assert (answer.errors, answer.certificate.by) == ((), "relaxation")
    assert answer.certificate.bound <= proven.certificate.objective <= answer.certificate.objective


def test_backends_that_do_not_know_traffic_decline() -> None:
    alone = PlacementProblem(
        ("cpu",),
        ("rack",),
        (RoleDemand("worker", (1,), 2, 2),),
        (NodeClass(("a",), (2,), (True,), (0,), (NodeName("n"),)),),
        (Traffic("traffic", (Flow("worker", "worker", 1),), ("worker",)),),
    )
    assert place_closed(structs.replace(alone, levels=(), classes=alone.classes)) is None
    assert place_on_tree(alone) is None
    demand = GangDemand("gang", (GangRole(0, 2),), alone.rules, value=1)
    joint = JointProblem(("cpu",), ("rack",), (PodClass("worker", (1,)),), (demand,), alone.classes)
    assert unsupported_gangs(joint) == (0,)


def test_the_objective_of_another_placement_is_worse() -> None:
    problem = gang(Flow("ps", "worker", 100))
    apart = [
        Assignment(0, NodeName("n0"), 2),
        Assignment(1, NodeName("n0"), 1),
        Assignment(1, NodeName("n1"), 3),
    ]
    assert Scorer(problem).score(apart) == (600, 600)
