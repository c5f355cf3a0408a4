"""Spread constraints whose limit per domain is known before the search."""

from phalanx.model.names import NodeName, ShapeKey
from phalanx.rules.problem import NodeClass, PlacementProblem, RoleDemand, Rule
from phalanx.rules.topology_spread import TopologySpreadRule
from phalanx.solver.answer import Placed
from phalanx.solver.engine import place
from phalanx.solver.single.fixed_spread import reformulate_spread

SHAPE = ShapeKey("x")


def problem(pods: int, *rules: Rule, values: str = "abc", nodes: int = 1) -> PlacementProblem:
    """A domain for each value; `nodes` in each."""
    classes = tuple(
        NodeClass(
            path=(),
            free=(3,),
            eligible=(True,),
            cost=(0,),
            nodes=tuple(NodeName(f"{value}{index}") for index in range(nodes)),
            label_values=(value,),
        )
        for value in values
    )
    role = RoleDemand("r", (1,), pods, pods, (), SHAPE)
    return PlacementProblem(("cpu",), (), (role,), classes, tuple(rules), keys=("zone",))


def spread(
    counts: dict[str, int], *, others: bool = True, least: int = 1, skew: int = 1
) -> TopologySpreadRule:
    counted = (SHAPE,) if others else ()
    return TopologySpreadRule("s", "zone", (SHAPE,), counted, tuple(counts.items()), skew, least)


def eligible(found: PlacementProblem) -> list[bool]:
    return [group.eligible[0] for group in found.classes]


def test_a_single_pod_needs_no_rule() -> None:
    found = reformulate_spread(problem(1, spread({"a": 1, "b": 0, "c": 1})))
    assert not found.rules
    assert eligible(found) == [False, True, False]
    assert isinstance(place(problem(1, spread({"a": 1, "b": 0, "c": 1}))), Placed)


def test_pods_that_are_not_counted_need_a_domain_within_the_limit() -> None:
    found = reformulate_spread(problem(5, spread({"a": 2, "b": 0, "c": 1}, others=False)))
    assert not found.rules
    assert eligible(found) == [False, True, True]


def test_domains_of_one_node_get_amounts() -> None:
    found = reformulate_spread(problem(2, spread({"a": 1, "b": 0, "c": 0}, skew=2)))
    assert not found.rules
    assert [group.free for group in found.classes] == [(3, 1), (3, 2), (3, 2)]
    assert found.roles[0].request == (1, 1)


def test_the_rule_stays_if_the_pods_may_fill_the_emptiest_domain() -> None:
    kept = problem(3, spread({"a": 1, "b": 0, "c": 0}))
    assert reformulate_spread(kept) == kept
    several = problem(2, spread({"a": 1, "b": 0, "c": 0}), nodes=2)
    assert reformulate_spread(several) == several


def test_with_fewer_domains_than_the_minimum_the_limit_is_fixed() -> None:
    found = reformulate_spread(problem(3, spread({"a": 1, "b": 0, "c": 0}, least=4, skew=2)))
    assert not found.rules
    assert [group.free[-1] for group in found.classes] == [1, 2, 2]


def test_domains_that_another_constraint_excludes_still_count() -> None:
    """Domain c is listed by neither constraint, and the first one excludes nothing but a."""
    rules = (spread({"a": 5, "b": 0}), spread({"b": 1}))
    found = reformulate_spread(problem(1, *rules))
    assert eligible(found) == [False, False, True]
