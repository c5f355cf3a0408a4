"""Moves of gangs with required pod affinity and topology spread constraints.

The property compares them with all placements, by what the Kubernetes documentation says of both rules.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from phalanx.cycle import Engine
from phalanx.model.gangs import GangKind

from tests.actions.all_placements import Places, fewest_pods, placements, planned_moves
from tests.actions.test_consolidate import config, recreated, rested
from tests.builders import Scenario, term
from tests.examples import holds
from tests.plugins.test_topology_spread import spread

ON = config()
SIZE = 4
"""GPUs of a node."""
ZONES = {"a-0": "a", "a-1": "a", "b-0": "b", "b-1": "b"}
RULES = ("", "", "data", "near data", "near data", "near itself", "spread", "spread", "counted")


class Group(Struct, frozen=True):
    """A gang; without nodes it waits."""

    name: str
    count: int
    gpu: int
    rule: str

    @property
    def app(self) -> str:
        """The label of its pods."""
        return {"data": "data", "spread": "web", "counted": "web"}.get(self.rule, self.name)

    @property
    def near(self) -> str:
        """The label of pods of which one must be in the zone of each of its pods; empty for none."""
        return {"near data": "data", "near itself": self.name}.get(self.rule, "")

    def fields(self) -> dict[str, Any]:
        """The fields of its pods."""
        found: dict[str, Any] = {"labels": {"app": self.app}}
        if self.near:
            found["near"] = [term("zone", app=self.near)]
        if self.rule == "spread":
            found["spread"] = [spread("zone", app="web")]
        return found


def is_right(groups: Sequence[Group], places: Places, placed: Sequence[str]) -> bool:
    """Whether nodes have capacity, and the rules of these placed gangs hold.

    The required affinity of pods that run holds too: no gang is moved away from others that require it.
    """
    pods = [(group, node) for group in groups for node in places.get(group.name, ())]
    web = Counter(dict.fromkeys(ZONES.values(), 0))
    web.update(ZONES[node] for group, node in pods if group.app == "web")
    for group, node in pods:
        if group.near:
            matching = Counter(ZONES[there] for other, there in pods if other.app == group.near)
            matching[ZONES[node]] -= group.app == group.near
            is_first = group.app == group.near and not +matching
            if not matching[ZONES[node]] and not is_first:
                return False
        if group.rule == "spread" and group.name in placed and web[ZONES[node]] - min(web.values()) > 1:
            return False
    return _has_capacity(groups, places)


def _has_capacity(groups: Sequence[Group], places: Places) -> bool:
    used: Counter[str] = Counter()
    for group in groups:
        for node in places.get(group.name, ()):
            used[node] += group.gpu
    return all(amount <= SIZE for amount in used.values())


def may_move(group: Group, groups: Sequence[Group]) -> bool:
    """Not if others require it, nor if it requires pods like those of the gang that waits."""
    waits = groups[-1]
    return not any(other.near == group.app for other in groups if other != group) and group.near != waits.app


def fewest_moved(groups: Sequence[Group], places: Places) -> int | None:
    """The fewest pods of running gangs to move so that all gangs fit; None if it is impossible."""
    names = [group.name for group in groups if group.name in places and may_move(group, groups)]

    def fits(rest: Places, moved: tuple[str, ...]) -> bool:
        found = placements(groups, rest, list(ZONES), _has_capacity)
        return any(is_right(groups, each, (*moved, groups[-1].name)) for each in found)

    return fewest_pods(names, places, fits)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Group], Places]:
    """Data, up to six running gangs of one or two pods, and one of up to two pods that waits."""
    groups: list[Group] = [Group("data", 1, 0, "data")]
    places: Places = {"data": (draw(st.sampled_from(sorted(ZONES))),)}
    for index in range(draw(st.integers(4, 6))):
        nodes = tuple(draw(st.lists(st.sampled_from(sorted(ZONES)), min_size=1, max_size=2)))
        group = Group(f"g{index}", len(nodes), draw(st.sampled_from((2, 1, 2))), draw(st.sampled_from(RULES)))
        if is_right([*groups, group], {**places, group.name: nodes}, (group.name,)):
            groups.append(group)
            places[group.name] = nodes
    size, rule = draw(st.sampled_from((4, 3))), draw(st.sampled_from(RULES))
    return [*groups, Group("large", draw(st.integers(1, 2)), size, rule)], places


def scenario_of(groups: Sequence[Group], places: Places) -> Scenario:
    scenario = Scenario()
    for zone in ("a", "b"):
        scenario.nodes(zone, 2, gpu=SIZE, labels={"zone": zone})
    for group in groups:
        on = list(places.get(group.name, ()))
        scenario.gang(
            group.name, group.count, gpu=group.gpu, on=on, kind=GangKind.POD_GROUP, **group.fields()
        )
    return rested(scenario)


@given(cases())
@holds(10)
def test_all_rules_hold_when_the_moves_are_done(case: tuple[list[Group], Places]) -> None:
    """Every moved gang runs again as a whole, the waiting one runs, and few enough pods have moved.

    It runs at once where only the constraint that counts moved pods kept it waiting: it counts no pods that
    terminate. It runs after the moved gangs where its constraint counts them on their new nodes.
    """
    check_moves(*case)


def check_moves(groups: list[Group], places: Places) -> list[str]:
    """The gangs that are moved for the gang that waits."""
    scenario, fewest = scenario_of(groups, places), fewest_moved(groups, places)
    decided = scenario.decide(ON)
    moved = planned_moves(decided, places, fewest)
    if not moved:
        return []
    cycles = [scenario.terminate(decided).decide(ON)]
    recreated(scenario.take(cycles[0]))
    for _ in range(2):
        cycles.append(scenario.decide(ON))
        scenario.take(cycles[-1])
    assert sorted(name for each in cycles for name in each.placed()) == sorted(["large", *moved])
    after = {
        **places,
        **{name: tuple(node for each in cycles for node in each.nodes(name)) for name in ("large", *moved)},
    }
    assert all(len(after[group.name]) == group.count for group in groups)
    assert is_right(groups, after, ("large", *moved))
    return moved


def test_moved_gangs_are_placed_first_where_the_waiting_one_can_adapt() -> None:
    """Both pods that wait are spread over zones, of which the moved gang is counted in one."""
    groups = [
        Group("data", 1, 0, "data"),
        Group("near", 1, 2, "near data"),
        Group("plain", 1, 2, ""),
        Group("web", 1, 1, "spread"),
        Group("pair", 2, 1, ""),
        Group("large", 2, 4, "spread"),
    ]
    on = [("a-0",), ("a-0",), ("a-0",), ("b-1",), ("a-1", "a-1")]
    places = {group.name: nodes for group, nodes in zip(groups, on, strict=False)}
    assert check_moves(groups, places)


DATA, NEAR_DATA = {"labels": {"app": "data"}}, {"near": [term("zone", app="data")]}
WEB = {"labels": {"app": "web"}, "spread": [spread("zone", app="web")]}


def two_zones(first: int, second: int) -> Scenario:
    """Zones a and b with so many nodes of four GPUs."""
    scenario = Scenario()
    for zone, count in (("a", first), ("b", second)):
        scenario.nodes(zone, count, gpu=SIZE, labels={"zone": zone})
    return scenario


def moved_to(scenario: Scenario) -> dict[str, dict[str, int]]:
    """The nodes of each moved gang, after a cycle."""
    decided = rested(scenario).decide(ON)
    assert not decided.result.stats.errors
    moves = [move for plan in decided.result.plans for move in plan.moves]
    return {move.group.removeprefix("team/"): {str(k): v for k, v in move.nodes.items()} for move in moves}


def near_data(*, used: int) -> Scenario:
    """A gang near data on a-0, which another gang needs; so much of a-1 is in use, and a quarter of b-0."""
    scenario = two_zones(2, 1).gang("data", 1, on=["a-1"], **DATA)
    scenario.gang("user", 1, gpu=2, on=["a-0"], **NEAR_DATA)
    scenario.gang("pinned", 1, gpu=used, on=["a-1"], priority=9)
    scenario.gang("other", 1, gpu=1, on=["b-0"], priority=9)
    return scenario.gang("large", 1, gpu=4)


def test_a_moved_gang_stays_near_the_pods_that_it_requires() -> None:
    assert moved_to(near_data(used=2)) == {"user": {"a-1": 1}}


def test_a_gang_is_not_moved_away_from_the_pods_that_it_requires() -> None:
    """b-0 has free capacity, but no data."""
    assert moved_to(near_data(used=3)) == {}


def test_a_gang_is_not_moved_near_pods_that_terminate() -> None:
    """They still count for required affinity, but not for long."""
    scenario = near_data(used=2)
    (pod,) = scenario.members("data")
    scenario.change("data", members=(replace(pod, deleting=True),))
    assert moved_to(scenario) == {}
    scenario.gang("more-data", 1, on=["a-1"], **DATA)
    assert moved_to(scenario) == {"user": {"a-1": 1}}


def test_a_gang_that_requires_its_own_pods_near_it_moves_to_one_other_zone() -> None:
    """Zone a has free capacity for one of the pods, only zone b for both."""
    scenario = two_zones(2, 2)
    near = {"labels": {"app": "pair"}, "near": [term("zone", app="pair")]}
    scenario.gang("pair", 2, gpu=2, on=["a-0", "a-0"], kind=GangKind.POD_GROUP, **near)
    scenario.gang("first", 1, gpu=2, on=["a-1"], priority=9)
    for index in range(2):
        scenario.gang(f"second-{index}", 1, gpu=2, on=[f"b-{index}"], priority=9)
    assert moved_to(scenario.gang("large", 1, gpu=4)) == {"pair": {"b-0": 1, "b-1": 1}}


def test_a_gang_is_moved_from_the_zone_that_can_hold_all_pods_which_require_each_other() -> None:
    """A node is free in zone a and one in zone b; a cheaper gang runs in zone c."""
    scenario = two_zones(2, 2).nodes("c", 1, gpu=SIZE, labels={"zone": "c"})
    scenario.gang("pinned", 1, gpu=4, on=["a-1"], priority=9)
    scenario.gang("in-b", 1, gpu=2, cpu=9, on=["b-1"]).gang("in-c", 1, gpu=2, on=["c-0"])
    near = {"labels": {"app": "pair"}, "near": [term("zone", app="pair")]}
    scenario.gang("large", 2, gpu=4, kind=GangKind.POD_GROUP, **near)
    assert moved_to(scenario).keys() == {"in-b"}


def spread_over_zones(*, in_zone: int, elsewhere: int, **fields: Any) -> Scenario:
    """One pod in each zone; another gang needs a node. So much of a-1 and of b-1 is in use."""
    scenario = two_zones(2, 2).gang("web-0", 1, gpu=2, on=["a-0"], **WEB)
    scenario.gang("web-1", 1, gpu=2, on=["b-0"], priority=9, **WEB)
    scenario.gang("first", 1, gpu=in_zone, on=["a-1"], priority=9)
    scenario.gang("second", 1, gpu=elsewhere, on=["b-1"], priority=9)
    return scenario.gang("large", 1, gpu=4, **fields)


def test_a_moved_pod_is_spread_as_its_constraint_says() -> None:
    scenario = spread_over_zones(in_zone=2, elsewhere=0, selector={"group": "a"})
    assert moved_to(scenario) == {"web-0": {"a-1": 1}}


def test_a_pod_is_not_moved_where_its_constraint_would_not_hold() -> None:
    assert moved_to(spread_over_zones(in_zone=3, elsewhere=0, selector={"group": "a"})) == {}


def test_another_pod_is_moved_if_the_first_plan_would_not_be_spread() -> None:
    """Each of two gangs may be moved to b-1, the cheaper one only by capacity."""
    scenario = spread_over_zones(in_zone=3, elsewhere=1)
    scenario.nodes("c", 1, gpu=4, labels={"zone": "a"}).gang("plain", 1, gpu=3, cpu=9, on=["c-0"])
    assert moved_to(scenario) == {"plain": {"b-1": 1}}


def test_the_constraint_of_the_gang_that_waits_counts_moved_pods_where_they_go() -> None:
    """The waiting pod needs a-0. The moved one, which its constraint counts, can go to one zone only."""
    for zone in ("a", "b"):
        scenario = two_zones(2, 2).gang("web", 1, gpu=2, on=["a-0"], labels={"app": "web"})
        for node, used in (("a-1", 2 if zone == "a" else 4), ("b-0", 4), ("b-1", 2 if zone == "b" else 4)):
            scenario.gang(f"on-{node}", 1, gpu=used, on=[node], priority=9)
        scenario.gang("large", 1, gpu=4, **WEB)
        assert moved_to(scenario) == ({"web": {"b-1": 1}} if zone == "b" else {})


def test_gangs_whose_rules_the_cache_did_not_keep_are_not_moved() -> None:
    """A configuration that is changed while the scheduler runs does not change the cache."""
    for scenario in (near_data(used=2), spread_over_zones(in_zone=2, elsewhere=4)):
        assert not Engine(ON).decide(rested(scenario).snapshot()).evictions
        scenario.gangs_move = True
        assert Engine(ON).decide(scenario.snapshot()).evictions
