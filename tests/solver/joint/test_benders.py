"""Benders cuts must hold for every feasible assignment; otherwise the bound of the master would be wrong."""

from itertools import permutations

from hypothesis import given
from phalanx.solver.engine import GREEDY_ONLY
from phalanx.solver.joint.arrays import BendersCut, JointArrays, joint_arrays
from phalanx.solver.joint.benders import BendersDecomposition
from phalanx.solver.joint.problem import JointAssignment, JointProblem
from phalanx.solver.joint.sequential import one_by_one

from tests.solver.joint.problems import (
    gang,
    joint_problem,
    nearly_full_spines,
    nearly_full_spines_with_subgroups,
    with_subgroups,
)
from tests.solver.problems import bounded


def proven_cuts(arrays: JointArrays) -> list[BendersCut]:
    """The proven cuts of a search that starts without an assignment."""
    decomposition = BendersDecomposition(arrays, {}, effort=10.0)
    decomposition.run()
    return [cut for cut in decomposition.cuts if cut.proven]


def satisfies(arrays: JointArrays, cut: BendersCut, assignment: JointAssignment) -> bool:
    """Whether the assignment satisfies the cut."""
    names = set(arrays.regions[cut.region].table.names)
    here: set[int] = set()
    unconfined = 0
    for component, own in enumerate(arrays.components):
        parts = {part for role_set in own.role_sets for part in role_set}
        for one in assignment.get(own.gang, ()):
            if one.role in parts and one.node in names:
                here.add(component)
                if cut.weights and not arrays.is_confined(component):
                    unconfined += (
                        cut.weights[arrays.problem.gangs[own.gang].roles[one.role].pod_class] * one.count
                    )
    if any(len(here.intersection(components)) < count for components, count in cut.groups):
        return True
    return cut.rest is not None and unconfined <= cut.rest


def invalid_cuts(problem: JointProblem) -> list[BendersCut]:
    """Cuts that are violated by sequential admission in some order."""
    arrays = joint_arrays(problem)
    cuts = proven_cuts(arrays)
    orders = list(permutations(range(len(problem.gangs))))[:24] if cuts else []
    found = [one_by_one(arrays, order, limits=GREEDY_ONLY) for order in orders]
    return [cut for cut in cuts if not all(satisfies(arrays, cut, each) for each in found)]


@given(nearly_full_spines() | nearly_full_spines_with_subgroups())
@bounded(60)
def test_cuts_are_valid(problem: JointProblem) -> None:
    assert invalid_cuts(problem) == []


def test_a_cut_excludes_gangs_that_do_not_fit_together() -> None:
    """Gangs of 5, 3, 3 and 3 sum to 14, the capacity of two racks of 7, but the last 3 fits into neither."""
    gangs = [
        gang(f"g{index}", {0: size}, required="rack", value=9) for index, size in enumerate((5, 3, 3, 3))
    ]
    others = (
        gang("spine", {0: 1}, required="spine"),
        *(gang(f"g-{n}", {0: n}, required="rack") for n in (4, 6)),
    )
    problem = joint_problem(*gangs, *others, nodes={"a": (7, ("s", "a")), "b": (7, ("s", "b"))})
    cut = proven_cuts(joint_arrays(problem))[0]
    assert cut.groups == (((0, 6), 1), ((0, 1, 2, 3, 5, 6), 4))
    assert cut.rest is None
    assert invalid_cuts(problem) == []


def test_a_cut_limits_the_unconfined_pods_of_a_region() -> None:
    """A pod of 5 and three of 3 on two nodes of 7: only two of 3 fit."""
    gangs = (
        gang("confined", {1: 1}, required="spine", value=9),
        *(gang(f"unconfined-{index}", {0: 1}) for index in range(3)),
    )
    problem = joint_problem(*gangs, nodes={"a": (7, ("s", "a")), "b": (7, ("s", "b"))}, pod_classes=(3, 5))
    (cut,) = proven_cuts(joint_arrays(problem))
    assert (cut.groups, cut.rest) == ((((0,), 1),), 2)


def test_a_cut_excludes_subgroups_that_do_not_fit_together() -> None:
    """Subgroups of 5, 3, 3 and 3 do not fit either; the cut is lifted to equivalent gangs only."""
    sizes = ((5, 3), (3, 3), (3, 3), (4, 4))
    gangs = [
        with_subgroups(
            gang(f"g{index}", {}, required="spine", value=9 if index < 2 else 1),
            *((name, 0, size) for name, size in zip("ab", pair, strict=True)),
            a="rack",
            b="rack",
        )
        for index, pair in enumerate(sizes)
    ]
    problem = joint_problem(*gangs, nodes={"a": (7, ("s", "a")), "b": (7, ("s", "b"))})
    cut = proven_cuts(joint_arrays(problem))[0]
    assert cut.groups == (((0,), 1), ((1, 2), 1))
    assert invalid_cuts(problem) == []
