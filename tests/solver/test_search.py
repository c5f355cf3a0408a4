"""Greedy search, patterns, bounds, effort and determinism of problems with several roles."""

import itertools
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest
from hypothesis import assume, given
from msgspec import structs
from phalanx.model.names import NodeName, ShapeKey
from phalanx.rules.affinity import PodAffinityRule, PodAntiAffinityRule
from phalanx.rules.anchors import Anchor, SubgroupAnchor
from phalanx.rules.budget import Budget
from phalanx.rules.levels import FewestDomains, SameDomain
from phalanx.rules.other_topologies import OtherTopologyDomain, OtherTopologyFewest
from phalanx.rules.problem import PlacementProblem, Rule
from phalanx.rules.subgroups import SubgroupDomain, SubgroupFewest, SubgroupSegments
from phalanx.rules.topology_spread import TopologySpreadRule
from phalanx.solver.answer import Placed, SolveLimits, Unplaceable
from phalanx.solver.arrays import NodeTable, assignments_of, class_rows, node_table
from phalanx.solver.checker import check
from phalanx.solver.counting import exact as cpsat
from phalanx.solver.counting import node_groups as groups_module
from phalanx.solver.counting.constraints import CONSTRAINTS, constraint
from phalanx.solver.counting.model import CountingModel
from phalanx.solver.counting.node_groups import groups_of
from phalanx.solver.engine import place
from phalanx.solver.objective import Scorer
from phalanx.solver.single.bounds import RelaxationBounds
from phalanx.solver.single.greedy import search
from phalanx.solver.single.scopes import Scope, equivalence_key, scopes_of

from tests.hash_seeds import printed
from tests.solver.oracle import optimum
from tests.solver.problems import bounded, node, problems, role, subgroup_problems


def problem_with_budget_and_costs(*, anchored: bool = False) -> PlacementProblem:
    """Twelve nodes in four racks and two spines, two roles, a budget, costs, a preferred level."""
    nodes = [
        node(
            f"n{i}",
            (16 - i % 5, 8 - i % 3),
            (f"s{i // 6}", f"r{i // 3}"),
            cost=(i * 7 % 5, i * 3 % 4),
            budgets=(0,) if i % 2 else (),
        )
        for i in range(12)
    ]
    odd = frozenset(one for group in nodes for one in group.nodes if group.budgets)
    return PlacementProblem(
        resources=("cpu", "nvidia.com/gpu"),
        levels=("spine", "rack"),
        roles=(role("a", (4, 3), 6, 8), role("b", (5, 2), 5)),
        classes=tuple(nodes),
        rules=(FewestDomains("preferred", "rack"), Budget("limit", {"nvidia.com/gpu": 12}, odd)),
        anchors=(Anchor(("s1", "r2")),) if anchored else (),
    )


def exactly_full_problem() -> PlacementProblem:
    """Three nodes with a perfect packing that best fit does not find: 6 + 4, 5 + 5, 3 + 3 + 4."""
    nodes = [node(name, (10,), roles=4) for name in ("n1", "n2", "n3")]
    sizes = ((6, 1), (5, 2), (4, 2), (3, 2))
    roles = tuple(role(f"size-{size}", (size,), count) for size, count in sizes)
    return PlacementProblem(("nvidia.com/gpu",), (), roles, tuple(nodes))


def table_and_scopes(problem: PlacementProblem) -> tuple[NodeTable, list[Scope]]:
    table = node_table(class_rows(problem))
    return table, scopes_of(table, table.rows.rules.required_depth)


@bounded(70)
@given(problems() | subgroup_problems())
def test_the_answer_is_never_worse_than_greedy_search(problem: PlacementProblem) -> None:
    """The answer is at least as good as what greedy search finds."""
    table, found_scopes = table_and_scopes(problem)
    for scope in found_scopes:
        found = search(table, scope)
        if found is None:
            continue
        answer = place(problem)
        assert isinstance(answer, Placed)
        score = Scorer(problem).score(assignments_of(table, found))
        assert answer.certificate.objective <= score


@bounded(30)
@given(problems() | subgroup_problems())
def test_the_relaxation_bound_is_not_above_the_optimum(problem: PlacementProblem) -> None:
    """The least relaxation bound of all scopes is not above the optimum; there is at least one scope."""
    best = optimum(problem)
    table, found_scopes = table_and_scopes(problem)
    assume(best is not None and any(one.minimum for one in problem.roles))
    assert best is not None
    relaxations = RelaxationBounds(table, Scorer(problem))
    assert min(relaxations.bound(scope) for scope in found_scopes) <= best
    assert relaxations.anywhere(max(sum(scope.fits) for scope in found_scopes)) <= best


@bounded(25)
@given(problems() | subgroup_problems())
def test_answers_with_little_effort_are_sound_and_their_bounds_are_valid(problem: PlacementProblem) -> None:
    """Without effort for a proof, placements are valid and bounds are correct."""
    best = optimum(problem)
    for effort in (0.0, 1e-7):
        answer = place(problem, limits=SolveLimits(deterministic=effort))
        assert answer.errors == ()
        if isinstance(answer, Placed):
            assert best is not None
            assert check(problem, answer) == ()
            assert answer.certificate.bound <= best <= answer.certificate.objective
        elif answer.proven:
            assert best is None


@bounded(70)
@given(problems())
def test_patterns_describe_exactly_what_fits_on_one_node(problem: PlacementProblem) -> None:
    """A combination of pods fits on a node iff some pattern of its group contains it."""
    table = node_table(class_rows(problem))
    for group in groups_of(table, table.everything):
        for position in group.nodes:
            for counts in itertools.product(*(range(one.maximum + 1) for one in problem.roles)):
                contained = any(
                    all(have <= most for have, most in zip(counts, pattern, strict=True))
                    for pattern in group.patterns
                )
                assert contained == fits_on(problem, table.names[position], counts)


def test_nodes_with_different_budgets_are_in_different_groups() -> None:
    """Two nodes have the same patterns, cost and domain, but the budget counts only one of them."""
    nodes = (node("n1", (8,), budgets=(0,)), node("n2", (8,)), node("n3", (9,)))
    limit = Budget("limit", {"nvidia.com/gpu": 4}, frozenset({"n1"}))
    table = node_table(
        class_rows(PlacementProblem(("nvidia.com/gpu",), (), (role("w", (4,), 2),), nodes, (limit,)))
    )
    assert [group.nodes for group in groups_of(table, table.everything)] == [(0,), (1, 2)]


def fits_on(problem: PlacementProblem, name: str, counts: tuple[int, ...]) -> bool:
    group = next(group for group in problem.classes if name in group.nodes)
    used = [
        sum(count * one.request[resource] for count, one in zip(counts, problem.roles, strict=True))
        for resource in range(len(problem.resources))
    ]
    allowed = all(may or not count for may, count in zip(group.eligible, counts, strict=True))
    return allowed and all(amount <= free for amount, free in zip(used, group.free, strict=True))


@bounded(35)
@given(problems())
def test_the_answer_is_the_same_without_patterns(problem: PlacementProblem) -> None:
    """Nodes with too many patterns are modelled by amounts, and the answer is still exact."""
    best = optimum(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups_module, "PATTERNS_MAX", 0)
        answer = place(problem)
    assert answer.errors == ()
    if isinstance(answer, Placed):
        assert answer.certificate.proven
        assert answer.certificate.objective == best
    else:
        assert answer.proven
        assert best is None


def test_infeasibility_is_not_claimed_for_amounts_that_overflow() -> None:
    """Nodes with more than a pebibyte of a resource: no answer, and no false proof."""
    huge = 2**52
    nodes = [node(name, (3 * huge,), roles=2) for name in ("n1", "n2")]
    problem = PlacementProblem(
        ("memory",), (), (role("a", (huge + 1,), 2), role("b", (huge - 1,), 2)), tuple(nodes)
    )
    assert place(problem) == Unplaceable(proven=False, by="none")
    small = structs.replace(problem, roles=(role("a", (3,), 2), role("b", (5,), 2)))
    assert isinstance(place(small), Placed)


def test_greedy_search_answers_when_costs_could_overflow() -> None:
    """The model accepts no such coefficient; the greedy answer is kept without a proof of its cost."""
    problem = problem_with_budget_and_costs()
    expensive = tuple(
        structs.replace(one, cost=tuple(2**41 * p for p in one.cost)) for one in problem.classes
    )
    answer = place(structs.replace(problem, classes=expensive))
    assert isinstance(answer, Placed)
    assert not answer.certificate.proven
    assert answer.certificate.by == "relaxation"


def test_infeasibility_is_proven_only_when_a_second_solver_configuration_agrees(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each role fits and so does the sum, but 6 + 5 does not fit on 10: only CP-SAT proves that."""
    nodes = [node(name, (10,), roles=2) for name in ("n1", "n2")]
    problem = PlacementProblem(
        ("nvidia.com/gpu",), (), (role("six", (6,), 2), role("five", (5,), 1)), tuple(nodes)
    )
    assert place(problem) == Unplaceable(proven=True, by="cp-sat")
    monkeypatch.setattr(cpsat._Solve, "_confirmed_empty", lambda solve: False)
    assert place(problem) == Unplaceable(proven=False, by="cp-sat")


FEWEST = SubgroupFewest("fewest", "left", "rack")
SIZES = (("s0", "r0", 3), ("s0", "r1", 5), ("s1", "r2", 4), ("s1", "r3", 4), ("s1", "r4", 9))


@pytest.mark.parametrize(
    ("count", "rules", "anchors", "racks"),
    [
        (4, (FEWEST,), (), {"r2"}),
        (9, (FEWEST,), (), {"r4"}),
        (12, (FEWEST,), (), {"r2", "r4"}),
        (4, (FEWEST,), (SubgroupAnchor("left", ("s1", "r4"), 2),), {"r4"}),
        (6, (FEWEST, SubgroupDomain("hard", "left", "spine")), (), {"r4"}),
        (12, (FEWEST, SubgroupSegments("hard", "left", "rack", 4)), (), {"r2", "r4"}),
        (12, (FEWEST, SubgroupDomain("hard", "all", "spine")), (), {"r2", "r4"}),
    ],
)
def test_greedy_search_places_subgroups_in_the_fewest_domains(
    count: int, rules: tuple[Rule, ...], anchors: tuple[SubgroupAnchor, ...], racks: set[str]
) -> None:
    """Other members use the same racks of one node each; the bound without search proves the optimum."""
    nodes = tuple(node(rack, (size,), (spine, rack), roles=2) for spine, rack, size in SIZES)
    left = structs.replace(role("left", (1,), count), subgroups=("left", "all"))
    levels = ("spine", "rack")
    given = PlacementProblem(
        ("cpu",), levels, (left, role("other", (1,), 1)), nodes, rules, subgroup_anchors=anchors
    )
    answer = place(given, limits=SolveLimits(deterministic=0.0))
    assert isinstance(answer, Placed)
    assert {one.node for one in answer.assignments if one.role == 0} == racks
    assert answer.certificate.proven


def test_the_empty_placement_is_optimal_when_no_domain_can_hold_segments() -> None:
    """No node has the level; CP-SAT leaves all groups empty, which is a valid answer."""
    nodes = structs.replace(node("a", (2,), ("x",), roles=2), nodes=tuple(map(NodeName, "abcd")))
    roles = tuple(
        structs.replace(role(name, (size,), 0, 1), subgroups=("left",)) for name, size in (("s", 1), ("l", 2))
    )
    rules = (SubgroupSegments("segments", "left", "spine", 1),)
    answer = place(PlacementProblem(("cpu",), ("zone", "spine"), roles, (nodes,), rules))
    assert isinstance(answer, Placed)
    assert (answer.errors, answer.assignments, answer.certificate.proven) == ((), (), True)


def test_constraints_have_unique_names() -> None:
    assert "budget" in CONSTRAINTS
    with pytest.raises(ValueError, match="two constraints are named budget"):
        constraint("budget")(lambda model: None)


@pytest.mark.parametrize("name", sorted(CONSTRAINTS))
def test_every_constraint_adds_to_the_model(name: str) -> None:
    """Each constraint adds CP-SAT constraints for a problem that needs it."""
    problem = problem_with_budget_and_costs()
    subgroup_rules = (SubgroupDomain("d", "left", "spine"), SubgroupSegments("s", "left", "rack", 2))
    subgroup_rules = (*subgroup_rules, SubgroupFewest("w", "left", "rack"))
    roles = (structs.replace(problem.roles[0], subgroups=("left",)), *problem.roles[1:])
    roles = tuple(structs.replace(one, shape=f"{index}") for index, one in enumerate(roles))
    one, other = ((ShapeKey(role.shape),) for role in roles[:2])
    affinity_rules = (PodAntiAffinityRule("a", "row", one, other), PodAffinityRule("b", "row", one, other))
    other_rules = (
        OtherTopologyDomain("o", "left", "net", "pod"),
        OtherTopologyFewest("f", "left", "net", ("pod",)),
    )
    keys = ("row", other_rules[0].key, *other_rules[1].keys)
    classes = tuple(structs.replace(each, label_values=("x",) * len(keys)) for each in problem.classes)
    spread_rule = TopologySpreadRule("c", "row", one, other, (("x", 1), ("y", 0)), 1)
    rules = (*problem.rules, *subgroup_rules, *affinity_rules, spread_rule, *other_rules)
    problem = structs.replace(problem, rules=rules, roles=roles, classes=classes, keys=keys)
    table = node_table(class_rows(problem))
    groups = groups_of(table, table.everything)
    if name == "capacity-amounts":
        groups = [structs.replace(one, patterns=(), nodes=(n,)) for one in groups for n in one.nodes]
    model = CountingModel(table, groups)
    before = len(model.cp.proto.constraints)
    CONSTRAINTS[name](model)
    assert len(model.cp.proto.constraints) > before


PROGRAM = """
import pickle, sys
import msgspec
from phalanx.solver.engine import place
for problem in pickle.load(sys.stdin.buffer):
    print(msgspec.json.encode(place(problem)).decode())
"""


@pytest.mark.slow
def test_the_answer_does_not_depend_on_the_hash_seed() -> None:
    """The answers are equal byte for byte for any iteration order of sets of strings."""
    given = pickle.dumps(
        [
            problem_with_budget_and_costs(),
            problem_with_budget_and_costs(anchored=True),
            exactly_full_problem(),
        ]
    )
    outputs = [printed("-c", PROGRAM, hash_seed=seed, given=given) for seed in ("1", "2", "3")]
    assert outputs[0].count(b"cp-sat") >= 1
    assert outputs[0] == outputs[1] == outputs[2]


def test_the_solver_library_is_loaded_only_when_it_is_needed() -> None:
    program = PROGRAM + "print('ortools' in sys.modules)"
    given = pickle.dumps([PlacementProblem(("cpu",), (), (role("a", (1,), 1),), (node("n1", (1,)),))])
    done = subprocess.run([sys.executable, "-c", program], input=given, capture_output=True, check=True)
    assert done.stdout.endswith(b"False\n")


def racks_of(
    sizes: Sequence[int], *, free: Callable[[int, int], int] = lambda rack, place: 8
) -> PlacementProblem:
    """Racks of `sizes` nodes with eight devices; sixteen pods of five and twenty of four require one rack."""
    nodes = [
        node(f"n{rack:03}-{place:02}", (free(rack, place),), (f"r{rack:03}",), roles=2)
        for rack, size in enumerate(sizes)
        for place in range(size)
    ]
    return PlacementProblem(
        resources=("nvidia.com/gpu",),
        levels=("rack",),
        roles=(role("a", (5,), 16), role("b", (4,), 20)),
        classes=tuple(nodes),
        rules=(SameDomain("required", "rack"),),
    )


def test_the_only_rack_of_hundreds_that_holds_the_gang_is_found() -> None:
    answer = place(racks_of([24] * 300 + [32]))
    assert isinstance(answer, Placed)
    assert {one.node[:4] for one in answer.assignments} == {"n300"}


def test_the_only_rack_is_found_when_all_racks_differ() -> None:
    different = racks_of(
        [24] * 300 + [32], free=lambda rack, place: 8 if rack == 300 or place % 9 else 8 + rack
    )
    assert isinstance(place(different), Placed)


def test_infeasibility_of_one_rack_is_reused_for_equivalent_racks() -> None:
    answer = place(racks_of([24] * 300), limits=SolveLimits(deterministic=0.05))
    assert answer == Unplaceable(proven=True, by="cp-sat")


def test_racks_with_different_nodes_or_running_members_are_not_equivalent() -> None:
    def kinds(problem: PlacementProblem) -> list[object]:
        table = node_table(class_rows(problem))
        return [equivalence_key(table, scope) for scope in scopes_of(table, 1)]

    assert len(set(kinds(racks_of([24, 24, 25])))) == 2
    assert len(set(kinds(racks_of([24, 24], free=lambda rack, place: 8 + rack * (place == 0))))) == 2
    started = structs.replace(racks_of([24, 24]), anchors=(Anchor(("r001",)),))
    assert set(kinds(started)) == {None}
