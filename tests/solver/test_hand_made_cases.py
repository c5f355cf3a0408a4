"""Hand-made cases that pod-by-pod greedy schedulers get wrong; each optimum is easy to verify by hand."""

from collections.abc import Sequence

from msgspec.structs import replace
from phalanx.model.names import NodeName, ShapeKey
from phalanx.rules.affinity import PodAntiAffinityRule
from phalanx.rules.anchors import Anchor
from phalanx.rules.budget import Budget
from phalanx.rules.levels import FewestDomains, SameDomain
from phalanx.rules.problem import NodeClass, PlacementProblem, RoleDemand, Rule
from phalanx.solver.answer import Answer, Placed, Unplaceable
from phalanx.solver.engine import place

from tests.solver.problems import node, role

GPU = ("nvidia.com/gpu",)


def problem(
    roles: Sequence[RoleDemand],
    classes: Sequence[NodeClass],
    *,
    resources: tuple[str, ...] = GPU,
    levels: tuple[str, ...] = (),
    rules: tuple[Rule, ...] = (),
    anchors: tuple[Anchor, ...] = (),
) -> PlacementProblem:
    return PlacementProblem(resources, levels, tuple(roles), tuple(classes), rules, anchors)


def where(answer: Answer) -> dict[tuple[int, str], int]:
    """Pods per (role, node) of an answer that is proven best."""
    assert isinstance(answer, Placed)
    assert answer.certificate.proven
    assert answer.errors == ()
    return {(one.role, one.node): one.count for one in answer.assignments}


def test_swap() -> None:
    """The small pod must not take the node that only the large pod needs."""
    nodes = [node("n1", (53,), roles=2), node("n2", (31,), roles=2)]
    answer = place(problem([role("small", (30,), 1), role("large", (50,), 1)], nodes))
    assert where(answer) == {(0, "n2"): 1, (1, "n1"): 1}


def test_ten_nodes_hold_ten_pods_not_sixteen() -> None:
    """Capacity is counted per node: 80 free GPUs on ten nodes are not sixteen times five."""
    ten = NodeClass((), (8,), (True, True), (0, 0), tuple(f"n{i}" for i in range(10)))
    alone = NodeClass((), (8,), (True,), (0,), ten.nodes)
    assert isinstance(place(problem([role("five", (5,), 10)], [alone])), Placed)
    assert place(problem([role("five", (5,), 11)], [alone])) == Unplaceable(proven=True, by="closed-form")
    mixed = [role("five", (5,), 10), role("three", (3,), 10)]
    assert sum(where(place(problem(mixed, [ten]))).values()) == 20
    too_many = place(problem([role("five", (5,), 10), role("four", (4,), 1)], [ten]))
    assert isinstance(too_many, Unplaceable)
    assert too_many.proven


def test_knavigator_tree() -> None:
    """Three whole-node pods on a tree with five busy nodes: only n5, n7, n8 share a spine."""
    busy = {1, 3, 6, 11, 12}
    nodes = [
        node(
            f"n{i}",
            (0 if i in busy else 8,),
            ("core", f"spine-{(i - 1) // 4}", f"leaf-{(i - 1) // 2}"),
        )
        for i in range(1, 13)
    ]
    rules = (SameDomain("required", "spine"), FewestDomains("preferred", "leaf"))
    for chosen in (rules, rules[1:]):
        answer = place(
            problem([role("worker", (8,), 3)], nodes, levels=("core", "spine", "leaf"), rules=chosen)
        )
        assert where(answer) == {(0, "n5"): 1, (0, "n7"): 1, (0, "n8"): 1}
        assert isinstance(answer, Placed)
        assert answer.certificate.objective == (1, 1, 2)


def test_a_role_leaves_the_only_domain_that_the_other_role_can_use() -> None:
    """The first role fits on both nodes and must not take the only node on which the second role fits."""
    nodes = [
        node("n1", (8,), ("r1",), eligible=(True, True)),
        node("n2", (8,), ("r2",), eligible=(True, False)),
    ]
    answer = place(problem([role("anywhere", (8,), 1), role("picky", (8,), 1)], nodes, levels=("rack",)))
    assert where(answer) == {(0, "n2"): 1, (1, "n1"): 1}


def test_domain_that_holds_the_sum_but_not_the_pods() -> None:
    """Rack r1 has more of everything in total, but its free CPU and its free GPUs are on different nodes."""
    nodes = [
        node("n1", (0, 200), ("r1",), roles=2),
        node("n2", (16, 4), ("r1",), roles=2),
        node("n3", (8, 100), ("r2",), roles=2),
        node("n4", (0, 64), ("r2",), roles=2),
    ]
    answer = place(
        problem(
            [role("gpu", (8, 64), 1), role("cpu", (0, 64), 1)],
            nodes,
            resources=("nvidia.com/gpu", "cpu"),
            levels=("rack",),
            rules=(SameDomain("required", "rack"),),
        )
    )
    assert where(answer) == {(0, "n3"): 1, (1, "n4"): 1}


def test_two_domains_of_ten_for_twelve_pods() -> None:
    """Two domains are needed and two are used, never three."""
    nodes = [node(f"n{rack}{i}", (1,), (f"r{rack}",)) for rack in range(3) for i in range(10)]
    answer = place(
        problem([role("w", (1,), 12)], nodes, levels=("rack",), rules=(FewestDomains("preferred", "rack"),))
    )
    assert len(where(answer)) == 12
    assert isinstance(answer, Placed)
    assert answer.certificate.objective == (2,)


def test_late_member_joins_the_running_gang() -> None:
    """With a required level the replacement joins the rack of the other members, although r2 is empty."""
    nodes = [node("n1", (8,), ("r1",)), node("n2", (64,), ("r2",))]
    late = problem(
        [role("w", (8,), 1)],
        nodes,
        levels=("rack",),
        rules=(SameDomain("required", "rack"),),
        anchors=(Anchor(("r1",)),),
    )
    assert where(place(late)) == {(0, "n1"): 1}


def test_domains_in_which_the_gang_runs_cost_nothing() -> None:
    """A preferred level counts the domains where the gang runs, so it grows there first."""
    nodes = [node("n1", (8,), ("r1",)), node("n2", (24,), ("r2",)), node("n3", (16,), ("r3",))]
    more = problem(
        [role("w", (8,), 3)],
        nodes,
        levels=("rack",),
        rules=(FewestDomains("preferred", "rack"),),
        anchors=(Anchor(("r1",)),),
    )
    assert where(place(more)) == {(0, "n1"): 1, (0, "n3"): 2}


def test_tightest_domain_and_node_are_filled_first() -> None:
    """Where the objective is equal, large free blocks are kept."""
    nodes = [
        node("n1", (8,), ("r1",)),
        node("n2", (8,), ("r1",)),
        node("n3", (4,), ("r2",)),
        node("n4", (1,), ("r2",)),
    ]
    small = problem(
        [role("w", (1,), 2)], nodes, levels=("rack",), rules=(FewestDomains("preferred", "rack"),)
    )
    assert where(place(small)) == {(0, "n4"): 1, (0, "n3"): 1}


def test_elastic_gang_takes_what_there_is() -> None:
    """The number of placed pods comes first in the objective, up to the maximum."""
    nodes = [node("n1", (8,), ("r1",)), node("n2", (8,), ("r2",)), node("n3", (8,), ("r2",))]
    elastic = [role("w", (8,), 1, 5)]
    spread = problem(elastic, nodes, levels=("rack",), rules=(FewestDomains("preferred", "rack"),))
    within = problem(elastic, nodes, levels=("rack",), rules=(SameDomain("required", "rack"),))
    assert sum(where(place(spread)).values()) == 3
    assert where(place(within)) == {(0, "n2"): 1, (0, "n3"): 1}


def test_budget_of_a_flavor_moves_pods_to_the_other() -> None:
    """The budget of the first flavor allows two pods; the third pod uses the more costly second flavor."""
    nodes = [
        node("a1", (24,), budgets=(0,)),
        node("b1", (24,), cost=(5,)),
    ]
    rules = (Budget("limit", {"nvidia.com/gpu": 16}, frozenset({"a1"})),)
    answer = place(problem([role("w", (8,), 3)], nodes, rules=rules))
    assert where(answer) == {(0, "a1"): 2, (0, "b1"): 1}


def test_budget_of_a_flavor_counts_all_its_nodes() -> None:
    """Two nodes of the first flavor share what remains for it; the closed form needs no other backend."""
    nodes = [
        node("a1", (8,), budgets=(0,)),
        node("a2", (8,), budgets=(0,)),
        node("b1", (24,), cost=(5,)),
    ]
    rules = (Budget("limit", {"nvidia.com/gpu": 8}, frozenset({"a1", "a2"})),)
    answer = place(problem([role("w", (8,), 3)], nodes, rules=rules))
    assert where(answer) == {(0, "a1"): 1, (0, "b1"): 2}
    assert isinstance(answer, Placed)
    assert answer.certificate.by == "closed-form"


def test_amounts_beyond_any_machine_do_not_overflow() -> None:
    """A request of a zettabyte fits nowhere; bytes of odd sizes are counted exactly."""
    nodes = [node("n1", (2**40 + 1,), roles=2), node("n2", (2**41,), roles=2)]
    assert isinstance(place(problem([role("a", (2**70,), 1), role("b", (1,), 1)], nodes)), Unplaceable)
    exact = [role("a", (2**40 + 1,), 2), role("b", (2**40 - 1,), 1)]
    assert where(place(problem(exact, nodes))) == {(0, "n1"): 1, (0, "n2"): 1, (1, "n2"): 1}


def test_the_capacity_of_a_rack_counts_once_when_nodes_are_solved_individually() -> None:
    """A leader and a worker use hosts of the rack that fits five pods, not of the one that fits six."""
    roles = tuple(replace(role(shape, (1,), 1), shape=shape) for shape in ("leader", "worker"))
    racks = [
        NodeClass(
            path=(rack,),
            free=(2,),
            eligible=(True, True),
            cost=(0, 0),
            nodes=tuple(NodeName(f"{rack}-{index}") for index in range(3)),
            domain_capacity=capacity,
        )
        for rack, capacity in (("r0", 5), ("r1", 6))
    ]
    apart = PodAntiAffinityRule("apart", "host", (ShapeKey("leader"),), (ShapeKey("worker"),))
    rules = (FewestDomains("preferred", "rack"), apart)
    for classes, capacity in ((racks, 5), (racks[:1], 5), (racks[1:], 6)):
        answer = place(PlacementProblem(("cpu",), ("rack",), roles, tuple(classes), rules))
        assert isinstance(answer, Placed)
        assert answer.certificate.objective == (1, capacity)
        assert answer.certificate.proven
        assert answer.errors == ()
