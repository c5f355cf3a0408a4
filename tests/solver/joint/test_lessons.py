"""What the master is taught must be true of every arrangement, or its bound would be wrong."""

from itertools import permutations

from hypothesis import given
from phalanx.solver.engine import GREEDY_ONLY
from phalanx.solver.joint.arrays import BendersCut, JointArrays, joint_arrays
from phalanx.solver.joint.benders import BendersDecomposition
from phalanx.solver.joint.problem import JointAssignment, JointProblem
from phalanx.solver.joint.sequential import one_by_one

from tests.solver.joint.small import crowded_divisions, crowded_spines, gang, posed, with_subgroups
from tests.solver.problems import bounded


def taught(arrays: JointArrays) -> list[BendersCut]:
    """What the master learns when the search starts from nothing."""
    decomposition = BendersDecomposition(arrays, {}, effort=10.0)
    decomposition.run()
    return [cut for cut in decomposition.cuts if cut.proven]


def is_kept(arrays: JointArrays, cut: BendersCut, assignment: JointAssignment) -> bool:
    """Whether the arrangement is one that the lesson allows."""
    names = set(arrays.regions[cut.region].table.names)
    here: set[int] = set()
    loose = 0
    for component, own in enumerate(arrays.components):
        parts = {part for role_set in own.role_sets for part in role_set}
        for one in assignment.get(own.gang, ()):
            if one.role in parts and one.node in names:
                here.add(component)
                if cut.weights and not arrays.is_confined(component):
                    loose += cut.weights[arrays.problem.gangs[own.gang].roles[one.role].pod_class] * one.count
    if any(len(here.intersection(components)) < count for components, count in cut.groups):
        return True
    return cut.rest is not None and loose <= cut.rest


def contradictions(problem: JointProblem) -> list[BendersCut]:
    """Lessons that do not allow what some order of the gangs leads to."""
    arrays = joint_arrays(problem)
    cuts = taught(arrays)
    orders = list(permutations(range(len(problem.gangs))))[:24] if cuts else []
    found = [one_by_one(arrays, order, limits=GREEDY_ONLY) for order in orders]
    return [cut for cut in cuts if not all(is_kept(arrays, cut, each) for each in found)]


@given(crowded_spines() | crowded_divisions())
@bounded(60)
def test_lessons_are_true(problem: JointProblem) -> None:
    assert contradictions(problem) == []


def test_a_region_teaches_who_does_not_fit_together() -> None:
    """Gangs of 5, 3, 3 and 3 are 14, and so is what two racks of 7 hold; yet the last 3 fits into neither."""
    gangs = [
        gang(f"g{index}", {0: size}, required="rack", value=9) for index, size in enumerate((5, 3, 3, 3))
    ]
    others = (
        gang("spine", {0: 1}, required="spine"),
        *(gang(f"g-{n}", {0: n}, required="rack") for n in (4, 6)),
    )
    problem = posed(*gangs, *others, nodes={"a": (7, ("s", "a")), "b": (7, ("s", "b"))})
    cut = taught(joint_arrays(problem))[0]
    assert cut.groups == (((0, 6), 1), ((0, 1, 2, 3, 5, 6), 4))
    assert cut.rest is None
    assert contradictions(problem) == []


def test_a_region_teaches_what_fits_beside() -> None:
    """A pod of 5 and three of 3 on two nodes of 7: two of 3 fit."""
    gangs = (
        gang("confined", {1: 1}, required="spine", value=9),
        *(gang(f"loose-{index}", {0: 1}) for index in range(3)),
    )
    problem = posed(*gangs, nodes={"a": (7, ("s", "a")), "b": (7, ("s", "b"))}, pod_classes=(3, 5))
    (cut,) = taught(joint_arrays(problem))
    assert (cut.groups, cut.rest) == ((((0,), 1),), 2)


def test_a_region_teaches_which_subgroups_do_not_fit_together() -> None:
    """As subgroups of two gangs, 5, 3, 3 and 3 fit no better: the same is learned of gangs like them only."""
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
    problem = posed(*gangs, nodes={"a": (7, ("s", "a")), "b": (7, ("s", "b"))})
    cut = taught(joint_arrays(problem))[0]
    assert cut.groups == (((0,), 1), ((1, 2), 1))
    assert contradictions(problem) == []
