"""Explanations of infeasibility: each statement must be true, and each relaxation must be feasible."""

from collections.abc import Sequence
from itertools import product

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs
from phalanx.rules.budget import Budget
from phalanx.rules.levels import SameDomain
from phalanx.rules.problem import NodeClass, Obstacle, PlacementProblem
from phalanx.rules.subgroups import SubgroupSegments
from phalanx.rules.topology_spread import TopologySpreadRule
from phalanx.solver.answer import Placed
from phalanx.solver.engine import place
from phalanx.solver.infeasibility.explain import explain, fits_when_empty, with_only_rules
from phalanx.solver.infeasibility.feasibility import feasibility_problem
from phalanx.solver.infeasibility.relaxations import with_free, with_raised_budgets

from tests.solver.oracle import optimum, placements_of
from tests.solver.problems import bounded, node, problems, role, two_tree_problems

GPU = ("nvidia.com/gpu",)


def racks(*free: tuple[str, str, int]) -> tuple[NodeClass, ...]:
    """Nodes as (name, rack, free GPUs), all of one spine."""
    return tuple(node(name, (gpus,), ("s1", rack)) for name, rack, gpus in free)


def test_required_rack_that_no_rack_holds() -> None:
    problem = PlacementProblem(
        resources=GPU,
        levels=("spine", "rack"),
        roles=(role("worker", (8,), 3),),
        classes=racks(("n1", "r1", 8), ("n2", "r1", 8), ("n3", "r2", 8), ("n4", "r1", 0)),
        rules=(SameDomain("required", "rack"),),
    )
    empty = structs.replace(problem, classes=tuple(structs.replace(c, free=(8,)) for c in problem.classes))
    found = explain(problem, empty=empty)
    assert fits_when_empty(empty)
    assert found.most == (2,)
    assert found.most_proven
    assert set(found.conflict) == {"required", "capacity"}
    assert found.irreducible
    assert found.obstacle is Obstacle.LEVELS
    assert found.missing is not None
    assert (found.missing.domain, found.missing.level, dict(found.missing.amounts)) == (
        ("s1", "r1"),
        "rack",
        {"nvidia.com/gpu": 8},
    )
    assert [one.node for one in found.missing.capacity] == ["n4"]


def test_no_capacity_is_missing_where_no_domain_is_large_enough() -> None:
    problem = PlacementProblem(
        resources=GPU,
        levels=("spine", "rack"),
        roles=(role("worker", (8,), 3),),
        classes=racks(("n1", "r1", 8), ("n2", "r1", 8)),
    )
    found = explain(problem, empty=problem)
    assert fits_when_empty(problem) is False
    assert found.conflict == ("capacity",)
    assert found.missing is None


def test_a_conflicting_budget_is_named_with_the_missing_amount() -> None:
    problem = PlacementProblem(
        resources=GPU,
        levels=("spine", "rack"),
        roles=(role("worker", (8,), 3),),
        classes=racks(("n1", "r1", 8), ("n2", "r1", 8), ("n3", "r2", 8)),
        rules=(Budget("limit of team-a", {"nvidia.com/gpu": 16}),),
    )
    found = explain(problem)
    assert found.conflict == ("limit of team-a",)
    assert found.obstacle is Obstacle.LIMITS
    assert found.raised == ({"limit of team-a": {"nvidia.com/gpu": 8}},)


def test_budgets_are_raised_together_where_no_single_one_is_enough() -> None:
    problem = PlacementProblem(
        resources=GPU,
        levels=(),
        roles=(role("worker", (8,), 3),),
        classes=racks(("n1", "r1", 8), ("n2", "r1", 8), ("n3", "r2", 8)),
        rules=(Budget("inner", {"nvidia.com/gpu": 16}), Budget("outer", {"nvidia.com/gpu": 8})),
    )
    found = explain(problem)
    assert found.raised == ({"inner": {"nvidia.com/gpu": 8}, "outer": {"nvidia.com/gpu": 16}},)


def test_a_cause_of_ineligible_nodes_is_named() -> None:
    """The nodes have capacity; `repelled` excludes those that the role may use."""
    problem = PlacementProblem(
        resources=GPU,
        levels=(),
        roles=(role("worker", (8,), 1),),
        classes=tuple(
            structs.replace(group, eligible=(False,)) for group in racks(("n1", "r1", 8), ("n2", "r1", 8))
        ),
    )
    exclusions = {"eligibility": [(True,), (False,)], "repelled": [(False,), (True,)]}
    found = explain(problem, empty=problem, exclusions=exclusions)
    assert found.conflict == ("eligibility", "repelled")
    assert found.obstacle is Obstacle.AFFINITY


def test_domains_of_nodes_that_pods_may_not_use_are_in_no_conflict() -> None:
    """Pods that might use r2 would have to spread over both racks, but they may not."""
    worker = role("worker", (1,), 3)
    problem = PlacementProblem(
        resources=GPU,
        levels=("spine", "rack"),
        roles=(worker,),
        classes=(
            structs.replace(node("n1", (8,), ("s1", "r1"), budgets=(0,)), label_values=("r1",)),
            structs.replace(
                node("n2", (8,), ("s1", "r2"), budgets=()), label_values=("r2",), eligible=(False,)
            ),
        ),
        rules=(
            SameDomain("required", "rack"),
            TopologySpreadRule("spread", "rack", (worker.shape,), (worker.shape,), (("r1", 0),), 2),
            Budget("limit", {"nvidia.com/gpu": 2}, nodes=frozenset({"n1"})),
        ),
        keys=("rack",),
    )
    found = explain(problem)
    assert found.conflict == ("eligibility", "limit")
    assert found.irreducible
    assert found.obstacle is Obstacle.LIMITS


def test_each_role_counts_with_as_many_pods_as_fit() -> None:
    problem = PlacementProblem(
        resources=GPU,
        levels=("spine", "rack"),
        roles=(role("leader", (0,), 1), role("worker", (8,), 6)),
        classes=tuple(
            structs.replace(c, eligible=(True, True), cost=(0, 0))
            for c in racks(("n1", "r1", 8), ("n2", "r1", 8), ("n3", "r2", 8))
        ),
    )
    found = explain(problem)
    assert found.most == (1, 3)
    assert found.most_proven


def test_the_most_pods_are_proven_where_a_resource_is_used_up() -> None:
    """Each of 60 pods has another request of memory; there are 40 GPUs."""
    problem = PlacementProblem(
        resources=("memory", *GPU),
        levels=(),
        roles=tuple(role(f"w{number}", (100 + number, 1), 1) for number in range(60)),
        classes=tuple(node(f"n{number}", (10_000, 8), (), roles=60) for number in range(5)),
    )
    found = explain(problem)
    assert sum(found.most) == 40
    assert found.most_proven


def test_nothing_to_place_on() -> None:
    problem = PlacementProblem(resources=GPU, levels=(), roles=(role("worker", (1,), 1),), classes=())
    found = explain(problem)
    assert found.conflict == ()
    assert found.most == (0,)


@bounded(30)
@given(problems() | two_tree_problems())
def test_the_conflict_is_irreducible_and_every_relaxation_is_feasible(problem: PlacementProblem) -> None:
    """The conflict is infeasible, each proper subset is feasible, and each raise makes the gang fit."""
    assume(optimum(problem) is None)
    found = explain(problem)
    core = feasibility_problem(problem)
    assert optimum(with_only_rules(core, found.conflict)) is None
    for name in found.conflict:
        assert optimum(with_only_rules(core, [one for one in found.conflict if one != name])) is not None
    for raised in found.raised:
        assert isinstance(place(with_raised_budgets(problem, raised)), Placed)


@bounded(25)
@given(problems(roles=2))
def test_the_most_pods_that_fit_equal_the_oracle(problem: PlacementProblem) -> None:
    """Every combination of numbers of pods with a larger sum is infeasible."""
    assume(optimum(problem) is None)
    found = explain(problem)
    core = feasibility_problem(problem)
    assert found.most_proven
    assert optimum(with_counts(core, found.most)) is not None
    for counts in product(*(range(one.minimum + 1) for one in core.roles)):
        assert sum(counts) <= sum(found.most) or optimum(with_counts(core, counts)) is None


def with_counts(core: PlacementProblem, counts: Sequence[int]) -> PlacementProblem:
    """The problem with exactly these pods per role."""
    roles = zip(core.roles, counts, strict=True)
    return structs.replace(core, roles=tuple(structs.replace(one, minimum=n, maximum=n) for one, n in roles))


def least_by_listing(core: PlacementProblem, vacant: PlacementProblem) -> int | None:
    """The least amount of the single resource that must be freed, over every placement on the empty nodes."""
    free = [group.free[0] for group in core.classes for _ in group.nodes]
    need = core.roles[0].request[0]
    placements = [one[0] for one in placements_of(vacant)]
    return min(
        (
            sum(max(0, count * need - have) for count, have in zip(counts, free, strict=True))
            for counts in placements
        ),
        default=None,
    )


@st.composite
def occupied_clusters(draw: st.DrawFn) -> tuple[PlacementProblem, PlacementProblem]:
    """One role and one resource on up to five nodes in three racks, as occupied now and when empty."""
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))
    paths = [("s", draw(st.sampled_from("xyz"))) for _ in sizes]
    rules = draw(st.sampled_from(((), (SameDomain("required", "rack"),))))

    def problem(free: Sequence[int]) -> PlacementProblem:
        classes = [
            node(name, (amount,), path) for name, amount, path in zip("abcde", free, paths, strict=False)
        ]
        return PlacementProblem(GPU, ("spine", "rack"), roles, tuple(classes), rules)

    roles = (role("worker", (draw(st.integers(1, 4)),), draw(st.integers(1, 4))),)
    return problem([draw(st.integers(0, size)) for size in sizes]), problem(sizes)


@bounded(90)
@given(occupied_clusters())
def test_the_missing_capacity_is_the_least(problems: tuple[PlacementProblem, PlacementProblem]) -> None:
    """No choice of nodes in any domain of the required level frees less, and the amount is sufficient."""
    now, empty = problems
    assume(optimum(now) is None)
    found = explain(now, empty=empty).missing
    least = least_by_listing(now, empty)
    if least is None:
        assert found is None
        return
    assert found is not None
    assert dict(found.amounts) == {GPU[0]: least}
    assert optimum(with_free(now, {one.node: one.amounts for one in found.capacity})) is not None
    inside = [group for group in now.classes if group.path[: len(found.domain)] == found.domain]
    fit = sum(group.free[0] // now.roles[0].request[0] for group in inside)
    assert fit + found.pods == now.roles[0].minimum, "that many additional pods complete the minimum"


def test_the_most_pods_that_fit_are_whole_segments() -> None:
    problem = PlacementProblem(
        resources=GPU,
        levels=("rack",),
        roles=(structs.replace(role("rank", (1,), 12), subgroups=("ranks",)), role("leader", (1,), 1)),
        classes=(node("n1", (5,), ("r1",), roles=2), node("n2", (4,), ("r2",), roles=2)),
        rules=(SubgroupSegments("segments", "ranks", "rack", 4),),
    )
    assert explain(problem).most == (8, 1)


def test_a_feasible_problem_has_no_irreducible_conflict() -> None:
    problem = PlacementProblem(
        resources=GPU, levels=(), roles=(role("worker", (8,), 1),), classes=(node("n1", (8,), ()),), rules=()
    )
    assert not explain(problem).irreducible


def test_very_large_amounts_are_explained() -> None:
    tib = 1 << 40
    nodes = [node(f"n{i}", (2 * tib,), (f"r{i}",)) for i in range(3)]
    problem = PlacementProblem(
        resources=("memory",),
        levels=("rack",),
        roles=(role("worker", (tib,), 1025),),
        classes=tuple(nodes),
        rules=(SameDomain("required", "rack"),),
    )
    found = explain(problem)
    assert found.irreducible
    assert "capacity" in found.conflict
