"""Moves of gangs with ports and anti-affinity on small random clusters, compared with all placements."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from phalanx.model.gangs import GangKind
from phalanx.model.supplies.ports import ALL_ADDRESSES

from tests.actions.all_placements import Places, fewest_pods, placements, planned_moves
from tests.actions.test_consolidate import config, recreated, rested
from tests.builders import Scenario, term
from tests.examples import holds

ON = config()
SIZE = 4
"""GPUs of a node."""
NODES = ("a-0", "a-1", "a-2")
LABELLED, AVOIDING = ("apart", "selected"), ("apart", "avoids")


class Group(Struct, frozen=True):
    """A gang; without nodes it waits."""

    name: str
    count: int
    gpu: int
    rule: str

    def fields(self) -> dict[str, Any]:
        """The fields of its pods."""
        found: dict[str, Any] = {"labels": {"app": "x" if self.rule in LABELLED else self.name}}
        match self.rule:
            case "port":
                found["ports"] = [("TCP", 80, ALL_ADDRESSES)]
            case "apart" | "avoids":
                found["apart"] = [term(app="x")]
            case "apart from itself":
                found["apart"] = [term(app=self.name)]
        return found


def is_right(groups: Sequence[Group], places: Places) -> bool:
    """Whether all rules hold with the pods there: capacity, ports, and anti-affinity of all pods."""
    pods = [(group, node) for group in groups for node in places.get(group.name, ())]
    for node in NODES:
        here = [group for group, there in pods if there == node]
        rules = [group.rule for group in here]
        if sum(group.gpu for group in here) > SIZE or rules.count("port") > 1:
            return False
        if any(here.count(group) > 1 for group in here if group.rule == "apart from itself"):
            return False
        labelled = sum(rule in LABELLED for rule in rules)
        if any(labelled > (rule in LABELLED) for rule in rules if rule in AVOIDING):
            return False
    return True


def fewest_moved(groups: Sequence[Group], places: Places) -> int | None:
    """The fewest pods of running gangs to move so that all gangs fit; None if it is impossible."""
    return fewest_pods(
        list(places), places, lambda rest, _moved: any(placements(groups, rest, NODES, is_right))
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Group], Places]:
    """Up to four running gangs of one or two pods, and one of up to two pods that waits."""
    rules = st.sampled_from(("", "", "port", "apart", "selected", "avoids", "apart from itself"))
    groups: list[Group] = []
    places: Places = {}
    for index in range(draw(st.integers(2, 4))):
        nodes = tuple(draw(st.lists(st.sampled_from(NODES), min_size=1, max_size=2)))
        group = Group(f"g{index}", len(nodes), draw(st.sampled_from((1, 2, 2))), draw(rules))
        if is_right([*groups, group], {**places, group.name: nodes}):
            groups.append(group)
            places[group.name] = nodes
    groups.append(
        Group("large", draw(st.sampled_from((1, 1, 2))), draw(st.sampled_from((3, 4, 4))), draw(rules))
    )
    return groups, places


def scenario_of(groups: Sequence[Group], places: Places) -> Scenario:
    scenario = Scenario().nodes("a", len(NODES), gpu=SIZE)
    for group in groups:
        on = list(places.get(group.name, ()))
        kind, own = GangKind.POD_GROUP, group.fields()
        scenario.gang(group.name, group.count, gpu=group.gpu, on=on, kind=kind, **own)
    return rested(scenario)


@given(cases())
@holds(25)
def test_all_rules_hold_when_the_moves_are_done(case: tuple[list[Group], Places]) -> None:
    """Every moved gang runs again as a whole, the waiting one runs, and few enough pods have moved."""
    groups, places = case
    scenario, fewest = scenario_of(groups, places), fewest_moved(groups, places)
    decided = scenario.decide(ON)
    moved = planned_moves(decided, places, fewest)
    if not moved:
        return
    scenario.terminate(decided).take(scenario.decide(ON))
    last = recreated(scenario).decide(ON)
    assert {*last.placed()} == {"large", *moved}
    after = {**places, **{name: tuple(last.nodes(name)) for name in ("large", *moved)}}
    assert all(len(after[group.name]) == group.count for group in groups)
    assert is_right(groups, after)
