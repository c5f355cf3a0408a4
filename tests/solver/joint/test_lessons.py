"""What the master is taught must be true of every arrangement, or its bound would be wrong."""

from itertools import permutations

from hypothesis import given
from phalanx.solver.engine import GREEDY_ONLY
from phalanx.solver.joint.arrays import Field, field_of
from phalanx.solver.joint.benders import Rounds
from phalanx.solver.joint.plan import Lesson
from phalanx.solver.joint.problem import JointAssignment, JointProblem
from phalanx.solver.joint.sequence import one_by_one

from tests.solver.joint.small import crowded_divisions, crowded_spines, gang, posed, with_subgroups
from tests.solver.problems import bounded


def taught(field: Field) -> list[Lesson]:
    """What the master learns when the search starts from nothing."""
    rounds = Rounds(field, {}, effort=10.0)
    rounds.run()
    return [lesson for lesson in rounds.lessons if lesson.proven]


def is_kept(field: Field, lesson: Lesson, arrangement: JointAssignment) -> bool:
    """Whether the arrangement is one that the lesson allows."""
    names = set(field.regions[lesson.region].table.names)
    here: set[int] = set()
    loose = 0
    for piece, own in enumerate(field.pieces):
        parts = {part for strand in own.strands for part in strand}
        for one in arrangement.get(own.gang, ()):
            if one.role in parts and one.node in names:
                here.add(piece)
                if lesson.weights and not field.confined(piece):
                    loose += lesson.weights[field.problem.gangs[own.gang].parts[one.role].kind] * one.count
    if any(len(here.intersection(pieces)) < count for pieces, count in lesson.groups):
        return True
    return lesson.rest is not None and loose <= lesson.rest


def contradictions(problem: JointProblem) -> list[Lesson]:
    """Lessons that do not allow what some order of the gangs leads to."""
    field = field_of(problem)
    lessons = taught(field)
    orders = list(permutations(range(len(problem.gangs))))[:24] if lessons else []
    found = [one_by_one(field, order, limits=GREEDY_ONLY) for order in orders]
    return [lesson for lesson in lessons if not all(is_kept(field, lesson, each) for each in found)]


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
    lesson = taught(field_of(problem))[0]
    assert lesson.groups == (((0, 6), 1), ((0, 1, 2, 3, 5, 6), 4))
    assert lesson.rest is None
    assert contradictions(problem) == []


def test_a_region_teaches_what_fits_beside() -> None:
    """A pod of 5 and three of 3 on two nodes of 7: two of 3 fit."""
    gangs = (
        gang("confined", {1: 1}, required="spine", value=9),
        *(gang(f"loose-{index}", {0: 1}) for index in range(3)),
    )
    problem = posed(*gangs, nodes={"a": (7, ("s", "a")), "b": (7, ("s", "b"))}, kinds=(3, 5))
    (lesson,) = taught(field_of(problem))
    assert (lesson.groups, lesson.rest) == ((((0,), 1),), 2)


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
    lesson = taught(field_of(problem))[0]
    assert lesson.groups == (((0,), 1), ((1, 2), 1))
    assert contradictions(problem) == []
