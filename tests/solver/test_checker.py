"""The checker reports each kind of invalid answer."""

import pytest
from msgspec import structs
from phalanx.rules.anchors import Anchor
from phalanx.rules.budget import Budget
from phalanx.rules.levels import FewestDomains, SameDomain
from phalanx.rules.problem import Assignment, PlacementProblem
from phalanx.solver import engine
from phalanx.solver.answer import Answer, Placed
from phalanx.solver.checker import check
from phalanx.solver.engine import place
from phalanx.solver.objective import Scorer, certify

from tests.solver.problems import node, role

PROBLEM = PlacementProblem(
    resources=("nvidia.com/gpu",),
    levels=("rack",),
    roles=(role("a", (4,), 1, 3), role("b", (1,), 0, 1)),
    classes=(
        node("n1", (8,), ("r1",), eligible=(True, False), budgets=(0,)),
        node("n2", (8,), ("r1",), roles=2, budgets=(0,)),
        node("n3", (8,), ("r2",), roles=2),
        node("n4", (8,), (), roles=2),
    ),
    rules=(
        SameDomain("same rack", "rack"),
        FewestDomains("few racks", "rack"),
        Budget("limit", {"nvidia.com/gpu": 9}, frozenset({"n1", "n2"})),
    ),
)


def answer(*assignments: tuple[int, str, int]) -> Placed:
    chosen = [Assignment(*one) for one in assignments]
    return certify(Scorer(PROBLEM), chosen, bound=None, by="test")


def test_valid_answers_pass() -> None:
    assert check(PROBLEM, answer((0, "n1", 1))) == ()
    assert check(PROBLEM, answer((0, "n1", 1), (0, "n2", 1), (1, "n2", 1))) == ()
    found = place(PROBLEM)
    assert isinstance(found, Placed)
    assert check(PROBLEM, found) == ()


@pytest.mark.parametrize(
    ("invalid", "message"),
    [
        (answer((0, "n1", 1), (1, "n1", 1)), "role b may not use n1"),
        (answer((1, "n2", 1)), "0 pods of role a, not 1 to 3"),
        (answer((0, "n2", 1), (1, "n2", 2)), "2 pods of role b, not 0 to 1"),
        (answer((0, "n3", 3)), "12 nvidia.com/gpu on n3, where 8 is free"),
        (answer((0, "n3", 2), (1, "n3", 1)), "9 nvidia.com/gpu on n3, where 8 is free"),
        (answer((0, "n1", 1), (0, "n3", 1)), "same rack: pods in 2 domains of level rack"),
        (answer((0, "n4", 1)), "same rack: a pod on a node in no rack"),
        (answer((0, "n1", 2), (0, "n2", 1)), "limit: 12 nvidia.com/gpu, where 9 remains"),
        (answer((0, "n1", 1), (0, "n1", 1)), "role 0 is assigned to n1 twice"),
        (answer((0, "n1", 0)), "0 pods on n1"),
    ],
)
def test_invalid_placements_are_reported(invalid: Placed, message: str) -> None:
    assert message in check(PROBLEM, invalid)


def test_unknown_nodes_and_roles_are_reported() -> None:
    valid = answer((0, "n1", 1))
    assert check(PROBLEM, structs.replace(valid, assignments=(Assignment(0, "n9", 1),))) == (
        "there is no node n9",
    )
    assert check(PROBLEM, structs.replace(valid, assignments=(Assignment(7, "n1", 1),))) == (
        "there is no role 7",
    )


@pytest.mark.parametrize(
    "claim",
    [
        {"objective": (0, 1)},
        {"bound": (9, 9)},
        {"bound": (0, 0)},
        {"proven": False},
        {"terms": ("unplaced",)},
    ],
)
def test_invalid_certificates_are_reported(claim: dict[str, object]) -> None:
    valid = answer((0, "n1", 1))
    invalid = structs.replace(valid, certificate=structs.replace(valid.certificate, **claim))
    assert len(check(PROBLEM, invalid)) == 1


def test_running_members_count_for_the_required_level() -> None:
    joined = structs.replace(PROBLEM, anchors=(Anchor(("r2",)),))
    separate = certify(Scorer(joined), [Assignment(0, "n1", 1)], bound=(3, 2), by="test")
    assert check(joined, separate) == ("same rack: pods in 2 domains of level rack",)


def test_an_invalid_answer_is_dropped_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a backend returns an invalid answer, an error is reported and the next backend answers."""

    def broken(problem: PlacementProblem) -> Answer:
        return certify(Scorer(problem), [Assignment(0, "n3", 3)], bound=(0, 0), by="broken")

    monkeypatch.setattr(engine, "place_on_tree", broken)
    found = place(PROBLEM)
    assert isinstance(found, Placed)
    assert check(PROBLEM, found) == ()
    assert found.certificate.proven
    assert len(found.errors) == 1
    assert found.errors[0].startswith("broken: 12 nvidia.com/gpu on n3")


def test_an_exception_in_a_backend_is_reported_and_the_next_backend_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(problem: PlacementProblem) -> Answer:
        raise ZeroDivisionError(len(problem.roles))

    monkeypatch.setattr(engine, "place_closed", broken)
    found = place(PROBLEM)
    assert isinstance(found, Placed)
    assert found.errors == ("broken: ZeroDivisionError(2)",)
