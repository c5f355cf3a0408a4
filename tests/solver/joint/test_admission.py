"""Joint admission against brute force, and its guarantees for gangs that sequential admission admits."""

import itertools
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from phalanx.model.names import NodeName
from phalanx.rules.affinity import PodPairs
from phalanx.rules.budget import Budget
from phalanx.rules.problem import Assignment, NodeClass, PlacementProblem, RoleDemand, Rule
from phalanx.rules.subgroups import SubgroupDomain
from phalanx.rules.traffic import Traffic
from phalanx.solver.engine import GREEDY_ONLY
from phalanx.solver.joint import sequential
from phalanx.solver.joint.arrays import joint_arrays
from phalanx.solver.joint.engine import admit
from phalanx.solver.joint.problem import (
    Admitted,
    Declined,
    GangDemand,
    JointAnswer,
    JointAssignment,
    JointLimits,
    JointProblem,
    check_joint_assignment,
    total_value,
)
from phalanx.solver.joint.sequential import reoptimized
from phalanx.solver.objective import Scorer

from bench.joint_start import admit_in_queue_order
from tests.hash_seeds import printed
from tests.solver.joint.problems import (
    best_value,
    gang,
    joint_problem,
    joint_problems,
    joint_subgroup_problems,
    nearly_full_spines,
    nearly_full_spines_with_subgroups,
    with_subgroups,
)
from tests.solver.oracle import optimum, placements_of
from tests.solver.problems import bounded


def assignment(answer: JointAnswer, start: JointAssignment) -> JointAssignment:
    """The assignments of the admitted gangs; those of the start when the answer has no improvement."""
    if answer.admitted is None:
        return start
    return {one.gang: one.placed.assignments for one in answer.admitted}


@given(joint_problems() | nearly_full_spines())
@bounded(55)
def test_proven_optima_equal_brute_force(problem: JointProblem) -> None:
    compare_with_brute_force(problem)


@given(joint_subgroup_problems() | nearly_full_spines_with_subgroups())
@bounded(35)
def test_proven_optima_with_subgroups_equal_brute_force(problem: JointProblem) -> None:
    compare_with_brute_force(problem)


def compare_with_brute_force(problem: JointProblem) -> None:
    """Compare with and without the constraint that gangs of sequential admission stay admitted."""
    start = admit_in_queue_order(problem)
    assert not isinstance(start, Declined)
    for kept in (True, False):
        gangs = tuple(
            structs.replace(each, must_admit=kept and index in start)
            for index, each in enumerate(problem.gangs)
        )
        question = structs.replace(problem, gangs=gangs)
        answer = admit(question, start)
        assert isinstance(answer, JointAnswer)
        assert answer.errors == ()
        found = assignment(answer, start)
        assert check_joint_assignment(question, found) == ()
        total, best = sum(each.value for each in gangs), best_value(question)
        value, bound = total - answer.certificate.objective[0], total - answer.certificate.bound[0]
        assert value == total_value(question, found) <= best <= bound
        assert answer.certificate.proven == (value == bound)
        assert not kept or start.keys() <= found.keys()


def alone(problem: JointProblem, found: JointAssignment, gang: int) -> PlacementProblem:
    """The problem of one gang beside all the others where they are in the end."""
    used: Counter[tuple[NodeName, int]] = Counter()
    spent: Counter[tuple[str, int]] = Counter()
    for other, assignments in found.items():
        rules = problem.gangs[other].rules if other != gang else ()
        for one in assignments if other != gang else ():
            request = problem.pod_classes[problem.gangs[other].roles[one.role].pod_class].request
            for index, need in enumerate(request):
                used[one.node, index] += need * one.count
                for rule in rules:
                    spent[rule.name, index] += need * one.count
    demand = problem.gangs[gang]
    return PlacementProblem(
        resources=problem.resources,
        levels=problem.levels,
        roles=tuple(
            RoleDemand(f"role-{index}", problem.pod_classes[part.pod_class].request, part.count, part.count,
                       part.subgroups)
            for index, part in enumerate(demand.roles)
        ),
        classes=tuple(
            NodeClass(
                path=group.path,
                free=tuple(have - used[node, index] for index, have in enumerate(group.free)),
                eligible=tuple(group.eligible[part.pod_class] for part in demand.roles),
                cost=tuple(group.cost[part.pod_class] for part in demand.roles),
                nodes=(node,),
            )
            for group in problem.classes
            for node in group.nodes
        ),
        rules=tuple(
            structs.replace(rule, remaining={
                name: amount - spent[rule.name, problem.resources.index(name)]
                for name, amount in rule.remaining.items()
            }) if isinstance(rule, Budget) else rule
            for rule in demand.rules
        ),
    )  # fmt: skip


@given(joint_problems() | joint_subgroup_problems() | nearly_full_spines_with_subgroups())
@bounded(35)
def test_certificates_of_gangs_hold_beside_the_others(problem: JointProblem) -> None:
    answer = admit(problem, {})
    assert isinstance(answer, JointAnswer)
    check_certificates(problem, answer.admitted or ())


def check_certificates(problem: JointProblem, admitted: tuple[Admitted, ...]) -> None:
    """Compare each certificate with all placements of the gang while the others stay where they are."""
    found = {one.gang: one.placed.assignments for one in admitted}
    for one in admitted:
        certificate, best = one.placed.certificate, optimum(alone(problem, found, one.gang))
        assert best is not None
        best = best[
            : len(certificate.terms)
        ]  # costs are the last term, and none where only unused nodes cost
        assert certificate.bound <= best <= certificate.objective
        assert certificate.proven == (certificate.bound == certificate.objective)


@given(problem=joint_problems() | joint_subgroup_problems(), data=st.data())
@bounded(35)
def test_certificates_hold_after_other_gangs_have_moved(problem: JointProblem, data: st.DataObject) -> None:
    """Any placements of the gangs, one after the other, are improved one after the other."""
    start: dict[int, tuple[Assignment, ...]] = {}
    for number in range(len(problem.gangs)):
        given_others = alone(problem, start, number)
        possible = list(itertools.islice(placements_of(given_others), 200))
        if possible:
            rows = data.draw(st.sampled_from(possible))
            start[number] = tuple(
                Assignment(role, group.nodes[0], count)
                for role, row in enumerate(rows)
                for group, count in zip(given_others.classes, row, strict=True)
                if count
            )
    before = {one: Scorer(alone(problem, start, one)).score(start[one]) for one in start}
    admitted = reoptimized(joint_arrays(problem), start, limits=GREEDY_ONLY)
    check_certificates(problem, admitted)
    assert all(one.placed.certificate.objective <= before[one.gang] for one in admitted)


def two_gangs_in_two_racks() -> tuple[JointProblem, JointAssignment]:
    """The small gang leaves racks a and b for rack c, if it is tried; then the large one fits one rack."""
    nodes = {
        f"{rack}{index}": (free, ("s", rack))
        for rack, free in (("a", 2), ("b", 2), ("c", 1))
        for index in range(2)
    }
    gangs = (gang("large", {1: 2}, preferred="rack"), gang("small", {0: 2}, preferred="rack"))
    places = (("a0", "b0"), ("a1", "b1"))
    start = {
        index: tuple(Assignment(0, NodeName(node), 1) for node in where) for index, where in enumerate(places)
    }
    return joint_problem(*gangs, nodes=nodes, pod_classes=(1, 2)), start


def test_a_gang_moves_again_when_another_one_has_moved() -> None:
    problem, start = two_gangs_in_two_racks()
    admitted = reoptimized(joint_arrays(problem), start, limits=GREEDY_ONLY)
    check_certificates(problem, admitted)
    assert [one.placed.certificate.objective for one in admitted] == [(1, 1), (1, 1)]
    assert all(one.placed.certificate.proven for one in admitted)


def test_certificates_hold_when_gangs_may_move_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequential, "REOPTIMIZED_ROUNDS_MAX", 1)
    problem, start = two_gangs_in_two_racks()
    admitted = reoptimized(joint_arrays(problem), start, limits=GREEDY_ONLY)
    check_certificates(problem, admitted)
    assert [one.placed.certificate.proven for one in admitted] == [False, True]


def answered(problem: JointProblem) -> JointAnswer:
    """The answer that starts from sequential admission."""
    start = admit_in_queue_order(problem)
    assert not isinstance(start, Declined)
    answer = admit(problem, start)
    assert isinstance(answer, JointAnswer)
    return answer


def test_gangs_whose_sum_fits_may_not_fit_together() -> None:
    """Gangs of 5, 3, 3 and 3 sum to 14, the capacity of two racks of 7, but the last 3 fits into neither."""
    sizes = (5, 3, 3, 3)
    gangs = [gang(f"g{size}-{index}", {0: size}, required="rack") for index, size in enumerate(sizes)]
    spine = gang("spine", {0: 1}, required="spine")
    answer = answered(joint_problem(*gangs, spine, nodes={"a": (7, ("s", "a")), "b": (7, ("s", "b"))}))
    assert answer.certificate.objective == answer.certificate.bound == (1,)


def pair(name: str, sizes: tuple[int, int], *levels: str, value: int = 1) -> GangDemand:
    """A gang of two subgroups a and b in one spine; each requires a rack unless `levels` says otherwise."""
    rules = dict(zip("ab", levels or ("rack", "rack"), strict=True))
    demand = gang(name, {}, required="spine", value=value)
    return with_subgroups(demand, ("a", 0, sizes[0]), ("b", 0, sizes[1]), **rules)


def test_subgroups_whose_sum_fits_may_not_fit_together() -> None:
    gangs = (pair("first", (5, 3), value=9), pair("second", (3, 3), value=8))
    answer = answered(joint_problem(*gangs, nodes={"a": (7, ("s", "a")), "b": (7, ("s", "b"))}))
    assert answer.certificate.objective == answer.certificate.bound == (8,)


def test_subgroups_of_a_gang_without_a_required_level_get_separate_domains() -> None:
    """Rack a takes subgroup `a`, racks b and c take the segments, and the other pod uses any node."""
    rules = {"a": "rack", "b": "rack:2"}
    parts = (("", 0, 1), ("a", 0, 3), ("b", 0, 4))
    demand = with_subgroups(gang("all", {}, value=2), *parts, **rules)
    nodes = {"a": (3, ("s", "a")), "b": (2, ("t", "b")), "c": (2, ("t", "c")), "d": (1, ("t",))}
    found = assignment(answered(joint_problem(gang("one", {0: 1}), demand, nodes=nodes)), {})
    assert {(one.role, one.node): one.count for one in found[1]} == {
        (0, "d"): 1,
        (1, "a"): 3,
        (2, "b"): 2,
        (2, "c"): 2,
    }


@pytest.mark.parametrize(
    ("levels", "sizes", "fits"),
    [
        (("rack", "rack"), (4, 4), True),
        (("rack", "rack"), (5, 3), False),
        (("rack:2", "rack"), (6, 2), True),
        (("rack:3", "rack"), (6, 2), False),
        (("rack:4", "rack:4"), (4, 4), True),
        (("rack:3", "rack"), (4, 4), False),
        (("spine:2", "rack"), (5, 3), False),
        (("spine:2", "rack"), (4, 4), True),
        (("spine", "rack"), (5, 3), True),
    ],
)
def test_what_fits_into_two_racks_of_four(
    levels: tuple[str, str], sizes: tuple[int, int], *, fits: bool
) -> None:
    demand = pair("pair", sizes, *levels)
    answer = admit(joint_problem(demand, nodes={"a": (4, ("s", "a")), "b": (4, ("s", "b"))}), {})
    assert isinstance(answer, JointAnswer)
    assert answer.certificate.proven
    assert (answer.admitted is not None) == fits


def test_a_node_without_a_rack_holds_no_rack_segments() -> None:
    demand = with_subgroups(gang("g", {}, required="spine"), ("a", 0, 1), ("a", 1, 1), a="rack:2")
    for path, left_out in ((("s", "b"), 0), (("s",), 1)):
        answer = admit(joint_problem(demand, nodes={"b": (3, path)}, pod_classes=(1, 2)), {})
        assert isinstance(answer, JointAnswer)
        assert answer.errors == ()
        assert answer.certificate.objective == answer.certificate.bound == (left_out,)


def test_pods_of_nested_subgroups_are_counted_once() -> None:
    demand = with_subgroups(gang("g", {}, required="spine"), ("a", 0, 2), ("b/a", 0, 2), a="rack", b="rack")
    answer = admit(joint_problem(demand, nodes={"a": (4, ("s", "a")), "b": (1, ("s", "b"))}), {})
    assert isinstance(answer, JointAnswer)
    assert answer.certificate.objective == (0,)


def test_gangs_of_one_spine_leave_nodes_to_pods_that_may_be_anywhere() -> None:
    """A pod of 5 and three of 3 on two nodes of 7: the pods of 3 may use any node, but only two fit."""
    gangs = (
        gang("confined", {1: 1}, required="spine", value=9),
        *(gang(f"unconfined-{index}", {0: 1}) for index in range(3)),
    )
    answer = answered(
        joint_problem(*gangs, nodes={"a": (7, ("s", "a")), "b": (7, ("s", "b"))}, pod_classes=(3, 5))
    )
    assert answer.certificate.objective == answer.certificate.bound == (1,)


def test_one_gang_moves_so_that_two_more_start() -> None:
    racks = {
        f"{rack}{index}": (1, ("s", rack))
        for rack, size in (("a", 3), ("b", 3), ("c", 2))
        for index in range(size)
    }
    gangs = (
        gang("first", {0: 2}, must_admit=True),
        *(gang(name, {0: 3}, required="rack") for name in ("left", "right")),
    )
    problem = joint_problem(*gangs, nodes=racks)
    start = {0: (Assignment(0, NodeName("a0"), 1), Assignment(0, NodeName("b0"), 1))}
    answer = admit(problem, start)
    assert isinstance(answer, JointAnswer)
    assert {one.node for one in assignment(answer, start)[0]} == {"c0", "c1"}
    assert answer.certificate.proven


def test_a_gang_that_must_be_admitted_is_not_displaced_by_more_value() -> None:
    gangs = (gang("small", {0: 1}), gang("large", {0: 3}, value=100))
    nodes = {"a": (3, ("s", "a"))}
    assert assignment(answered(joint_problem(*gangs, nodes=nodes)), {}).keys() == {1}
    kept = joint_problem(structs.replace(gangs[0], must_admit=True), gangs[1], nodes=nodes)
    assert answered(kept).admitted is None


def test_without_effort_the_start_is_kept_and_not_proven_optimal() -> None:
    problem = joint_problem(
        gang("small", {0: 1}), gang("large", {0: 3}, value=100), nodes={"a": (3, ("s", "a"))}
    )
    start = admit_in_queue_order(problem)
    assert not isinstance(start, Declined)
    answer = admit(problem, start, limits=JointLimits(deterministic=0.0))
    assert isinstance(answer, JointAnswer)
    assert answer.admitted is None
    assert (answer.certificate.objective, answer.certificate.bound) == ((100,), (0,))
    assert not answer.certificate.proven


def test_earlier_gangs_are_admitted_among_equal_ones() -> None:
    gangs = (
        gang("any", {0: 3}),
        *(gang(f"rack-{index}", {0: 2}, required="rack", value=9) for index in range(5)),
    )
    nodes = {f"{rack}{index}": (1, ("s", rack)) for rack in "ab" for index in range(3)}
    assert assignment(answered(joint_problem(*gangs, nodes=nodes)), {}).keys() == {1, 2}


def test_problems_with_unsupported_rules_are_declined() -> None:
    problem = joint_problem(gang("a", {0: 1}), nodes={"a": (1, ()), "b": (1, ())})

    def declined(*rules: Rule, start: JointAssignment | None = None) -> str:
        gangs = tuple(structs.replace(each, rules=rules) for each in problem.gangs)
        answer = admit(structs.replace(problem, gangs=gangs), start or {})
        assert isinstance(answer, Declined)
        return answer.reason

    assert "PodPairs" in declined(PodPairs("near", "row", ()))
    assert "Traffic" in declined(Traffic("traffic", ()))
    assert "no level row" in declined(SubgroupDomain("in a row", "a", "row"))
    assert "only some of the nodes" in declined(Budget("flavor", {}, frozenset({NodeName("a")})))
    assert "2 pods of role 1-gpu" in declined(start={0: (Assignment(0, NodeName("a"), 2),)})


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ({1: (("a", 1),)}, "must is not admitted"),
        ({0: (("a", 1),), 1: (("a", 1),)}, "2 nvidia.com/gpu on a"),
        ({0: (("a", 1),), 1: (("b", 1),), 2: (("c", 1),)}, "limit: 3 nvidia.com/gpu"),
        ({0: (("a", 2),)}, "must: 2 pods"),
        ({0: (("nowhere", 1),)}, "must: a node or role that does not exist"),
    ],
)
def test_the_checker_reports_invalid_assignments(
    found: dict[int, tuple[tuple[str, int], ...]], complaint: str
) -> None:
    limit = (Budget("limit", {"nvidia.com/gpu": 2}),)
    gangs = [gang(name, {0: 1}, must_admit=name == "must", budgets=limit) for name in ("must", "b", "c")]
    problem = joint_problem(*gangs, nodes={name: (1, ("s", name)) for name in "abc"})
    given = {
        index: tuple(Assignment(0, NodeName(where), count) for where, count in places)
        for index, places in found.items()
    }
    assert complaint in " ".join(check_joint_assignment(problem, given))


PROGRAM = """
import sys
from tests.solver.joint.test_admission import example
sys.stdout.buffer.write(example())
"""


def example() -> bytes:
    """An answer with several domains, roles, subgroups and a budget, as bytes."""
    limit = (Budget("limit", {"nvidia.com/gpu": 30}),)
    levels = ("rack", "spine", None)
    gangs = tuple(
        gang(
            f"g{index}",
            {0: 1 + index % 4, 1: 1 + index % 3},
            required=levels[index % 3],
            value=1 + index % 5,
            budgets=limit,
        )
        for index in range(9)
    )
    parts = (("a", 0, 2), ("b", 1, 2), ("", 0, 1))
    divided = [
        with_subgroups(structs.replace(each, name=f"{each.name}-divided"), *parts, a="rack", b="rack:2")
        for each in gangs[:6]
    ]
    gangs = (*gangs, *divided)
    nodes = {f"n{index}": (3 + index % 4, (f"s{index % 2}", f"r{index % 6}")) for index in range(12)}
    return msgspec.json.encode(answered(joint_problem(*gangs, nodes=nodes, pod_classes=(1, 2))))


@pytest.mark.slow
def test_the_joint_answer_does_not_depend_on_the_hash_seed() -> None:
    first, second = (printed("-c", PROGRAM, hash_seed=seed) for seed in ("1", "2"))
    assert first == second == example()
    assert b'"admitted":[' in first
