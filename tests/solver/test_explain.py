"""Explanations: what is said must be true, and the first advice must work."""

from collections.abc import Sequence

from hypothesis import assume, given
from msgspec import structs

from phalanx.model.rules import Budget, SameDomain
from phalanx.solver.engine import place
from phalanx.solver.explain import Explanation, explain, only
from phalanx.solver.feasibility import bare
from phalanx.solver.problem import NodeClass, Placed, Problem
from phalanx.solver.relaxations import RelaxationKind, relaxed
from tests.solver.oracle import optimum
from tests.solver.problems import bounded, node, problems, role

GPU = ("nvidia.com/gpu",)


def kinds(explanation: Explanation) -> list[RelaxationKind]:
    return [change.kind for change in explanation.relaxations]


def racks(*free: tuple[str, str, int]) -> tuple[NodeClass, ...]:
    """Nodes as (name, rack, free GPUs), all of one spine."""
    return tuple(node(name, (gpus,), ("s1", rack)) for name, rack, gpus in free)


def test_required_rack_that_no_rack_holds() -> None:
    problem = Problem(
        resources=GPU,
        levels=("spine", "rack"),
        roles=(role("worker", (8,), 3),),
        classes=racks(("n1", "r1", 8), ("n2", "r1", 8), ("n3", "r2", 8), ("n4", "r1", 0)),
        rules=(SameDomain("required", "rack"),),
    )
    empty = structs.replace(problem, classes=tuple(structs.replace(c, free=(8,)) for c in problem.classes))
    found = explain(problem, empty=empty)
    assert found.possible_when_empty
    assert found.most == (2,)
    assert found.most_proven
    assert set(found.conflict) == {"required", "capacity"}
    assert found.irreducible
    assert kinds(found) == [
        RelaxationKind.WIDEN_LEVEL,
        RelaxationKind.LOWER_MINIMUM,
        RelaxationKind.ADD_ROOM,
    ]
    assert found.relaxations[0].level == "spine"
    assert found.relaxations[1].minimums == (2,)
    room = found.relaxations[2]
    assert (room.domain, room.level, dict(room.amounts)) == (("s1", "r1"), "rack", {"nvidia.com/gpu": 8})
    assert [one.node for one in room.room] == ["n4"]


def test_room_is_missing_on_a_node_that_is_not_there() -> None:
    problem = Problem(
        resources=GPU,
        levels=("spine", "rack"),
        roles=(role("worker", (8,), 3),),
        classes=racks(("n1", "r1", 8), ("n2", "r1", 8)),
    )
    found = explain(problem, empty=problem)
    assert found.possible_when_empty is False
    assert found.conflict == ("capacity",)
    assert kinds(found) == [RelaxationKind.LOWER_MINIMUM, RelaxationKind.ADD_ROOM]
    assert dict(found.relaxations[1].amounts) == {"nvidia.com/gpu": 8}
    assert [one.node for one in found.relaxations[1].room] == [""]


def test_budget_is_named_with_what_it_lacks() -> None:
    problem = Problem(
        resources=GPU,
        levels=("spine", "rack"),
        roles=(role("worker", (8,), 3),),
        classes=racks(("n1", "r1", 8), ("n2", "r1", 8), ("n3", "r2", 8)),
        rules=(Budget("limit of team-a", {"nvidia.com/gpu": 16}),),
    )
    found = explain(problem)
    assert found.conflict == ("limit of team-a",)
    assert found.relaxations[0].kind == RelaxationKind.RAISE_BUDGET
    assert dict(found.relaxations[0].amounts) == {"nvidia.com/gpu": 8}


def test_roles_are_scaled_down_together() -> None:
    problem = Problem(
        resources=GPU,
        levels=("spine", "rack"),
        roles=(role("leader", (0,), 1), role("worker", (8,), 6)),
        classes=tuple(
            structs.replace(c, eligible=(True, True), price=(0, 0))
            for c in racks(("n1", "r1", 8), ("n2", "r1", 8), ("n3", "r2", 8))
        ),
    )
    found = explain(problem)
    assert found.most == (1, 3)
    assert found.most_proven


def test_nothing_to_place_on() -> None:
    problem = Problem(resources=GPU, levels=(), roles=(role("worker", (1,), 1),), classes=())
    found = explain(problem)
    assert found.conflict == ()
    assert found.most == (0,)


@bounded(200)
@given(problems())
def test_conflict_is_irreducible_and_advice_works(problem: Problem) -> None:
    """What is in conflict has no placement; without any one of it there is one; every change makes it fit."""
    assume(optimum(problem) is None)
    found = explain(problem)
    core = bare(problem)
    assert optimum(only(core, found.conflict)) is None
    for name in found.conflict:
        assert optimum(only(core, [one for one in found.conflict if one != name])) is not None
    for change in found.relaxations:
        assert isinstance(place(relaxed(problem, change)), Placed)


@bounded(100)
@given(problems(roles=2))
def test_most_is_what_the_oracle_finds(problem: Problem) -> None:
    """One more pod of the largest role, the others scaled alike, does not fit."""
    assume(optimum(problem) is None)
    found = explain(problem)
    core = bare(problem)
    assert found.most_proven
    assert optimum(with_counts(core, found.most)) is not None
    largest = max(one.minimum for one in core.roles)
    size = found.most[[one.minimum for one in core.roles].index(largest)] + 1
    assert optimum(with_counts(core, [-(-one.minimum * size // largest) for one in core.roles])) is None


def with_counts(core: Problem, counts: Sequence[int]) -> Problem:
    """Exactly so many pods per role."""
    roles = zip(core.roles, counts, strict=True)
    return structs.replace(core, roles=tuple(structs.replace(one, minimum=n, maximum=n) for one, n in roles))
