"""Joint admission of gangs with rules that its model does not state: affinity, spread, volumes, claims."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from phalanx.actions import joint_admission as admit
from phalanx.model.resources import GPU
from phalanx.model.supplies.ports import ALL_ADDRESSES

from tests.actions.rule_cases import FIELDS, RuleWorld
from tests.builders import Decided, numa, term
from tests.examples import holds
from tests.plugins.test_topology_spread import spread

KINDS = sorted(FIELDS)


def one_rack_for_two(first: str, left: str) -> RuleWorld:
    """`first` uses the fuller node of rack a, which `left` needs whole; rack c is free for `first`."""
    world = RuleWorld("rack")
    world.nodes("a-full", gpu=8, cpu=32, within="a").nodes("a", gpu=8, within="a")
    world.nodes("c", gpu=8, within="c")
    world.prepare()
    world.add("first", 1, first, gpu=8)
    assert "c" not in world.decide().where("first")
    return world.add("left", 2, left, gpu=8, required="rack")


@pytest.mark.parametrize("kind", KINDS)
def test_gangs_of_each_kind_move_and_are_helped(kind: str) -> None:
    for first, left in ((kind, "plain"), ("plain", kind), (kind, kind)):
        decided = one_rack_for_two(first, left).decide()
        assert decided.where("first") == {"c": 1}
        assert decided.where("left") == {"a": 1, "a-full": 1}
        assert not decided.result.stats.errors


def test_certificates_are_about_the_final_placements() -> None:
    decided = one_rack_for_two("apart", "spread").decide()
    assert all(each.certificate.proven for each in decided.result.placements)


def test_gangs_with_aligned_pods_move_and_are_helped() -> None:
    world, half = RuleWorld("rack"), {GPU: 4}
    for name, rack in (("a-full", "a"), ("a", "a"), ("c", "c")):
        world.nodes(name, gpu=8, cpu=32 if "-" in name else 64, within=rack, numa=numa(half, half))
    world.gang("first", 2, gpu=4, containers=[half])
    assert world.decide().where("first") == {"a-full": 2}
    decided = world.gang("left", 8, gpu=2, required="rack", containers=[{GPU: 2}]).decide()
    assert decided.where("first") == {"c": 2}
    assert decided.where("left") == {"a": 4, "a-full": 4}


def needing(minimum: int) -> RuleWorld:
    """Another start, of one or two pods, needs `first` in its rack. `left` needs that rack."""
    world = one_rack_for_two("plain", "plain").remove("left").remove("first")
    world.gang("first", 1, gpu=8, labels={"app": "data"})
    world.gang("later", 2, min=minimum, gpu=0, near=[term("test/rack", app="data")])
    return world.gang("left", 2, gpu=8, required="rack")


def test_a_gang_that_another_start_requires_near_it_stays() -> None:
    """A gang with surplus members is not moved, so neither is the one that it needs."""
    decided = needing(1).decide()
    assert sorted(set(decided.placed())) == ["first", "later"]
    assert {node[0] for name in ("first", "later") for node in decided.nodes(name)} == {"a"}


def test_gangs_that_need_each_other_move_together() -> None:
    decided = needing(2).decide()
    assert sorted(decided.placed()) == ["first", "later", "left"]
    assert decided.where("first").keys() == decided.where("later").keys() == {"c"}


# --- brute force --------------------------------------------------------------------------------------------

NODES = ("a-0", "a-1", "b-0", "b-1")
WEB = ("TCP", 80, ALL_ADDRESSES)


class Small(Struct, frozen=True):
    """A gang of a random case."""

    count: int
    gpu: int
    rule: str
    in_rack: bool

    def fields(self, name: str) -> dict[str, Any]:
        own = {"gpu": self.gpu, "required": "rack" if self.in_rack else None}
        match self.rule:
            case "port":
                return {**own, "ports": [WEB]}
            case "apart":
                return {**own, "labels": {"app": "x"}, "apart": [term(app="x")]}
            case "selected":
                return {**own, "labels": {"app": "x"}}
            case "near":
                return {**own, "near": [term("test/rack", app="data")]}
            case "spread":
                return {**own, "labels": {"app": name}, "spread": [spread("test/rack", 1, app=name)]}
            case _:
                return own


Places = tuple[str, ...]
"""The node of each pod of a gang."""


def alone_is_right(gang: Small, nodes: Places) -> bool:
    racks = Counter(node[0] for node in nodes)
    if gang.in_rack and len(racks) > 1:
        return False
    if gang.rule == "near" and set(racks) - {"b"}:
        return False
    if gang.rule == "port" and len(set(nodes)) < len(nodes):
        return False
    return gang.rule != "spread" or abs(racks["a"] - racks["b"]) <= 1


def together_are_right(chosen: Sequence[tuple[Small, Places]]) -> bool:
    used, ports, avoiding, avoided = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for gang, nodes in chosen:
        used.update({node: gang.gpu * count for node, count in Counter(nodes).items()})
        ports.update(nodes if gang.rule == "port" else ())
        avoiding.update(nodes if gang.rule == "apart" else ())
        avoided.update(nodes if gang.rule in ("apart", "selected") else ())
    if any(amount > 4 for amount in used.values()) or any(count > 1 for count in ports.values()):
        return False
    return not any(avoided[node] > 1 for node in avoiding)


def placements(gangs: Sequence[Small]) -> Iterator[list[tuple[Small, Places]]]:
    """All placements of all gangs."""
    if not gangs:
        yield []
        return
    for nodes in combinations_with_replacement(NODES, gangs[0].count):
        if alone_is_right(gangs[0], nodes):
            for rest in placements(gangs[1:]):
                found = [(gangs[0], nodes), *rest]
                if together_are_right(found):
                    yield found


def world_of(gangs: Sequence[Small]) -> RuleWorld:
    world = RuleWorld("rack")
    world.nodes("a", 2, gpu=4, within="a").nodes("b", 2, gpu=4, within="b")
    world.foreign_pod("data", "b-0", labels={"app": "data"})
    for index, gang in enumerate(gangs):
        world.gang(f"g{index}", gang.count, **gang.fields(f"g{index}"))
    return world


smalls = st.builds(
    Small,
    st.integers(1, 3),
    st.integers(0, 4),
    st.sampled_from(["", "port", "apart", "selected", "near", "spread"]),
    st.booleans(),
)


@given(st.lists(smalls, min_size=2, max_size=3))
@holds(40)
def test_all_gangs_start_if_brute_force_finds_a_placement_for_all(gangs: list[Small]) -> None:
    together = world_of(gangs).decide()
    where = {name: together.nodes(name) for name in together.placed()}
    chosen = [(gangs[int(name[1:])], tuple(nodes)) for name, nodes in where.items()]
    assert all(alone_is_right(*each) for each in chosen)
    assert together_are_right(chosen)
    assert set(_alone(gangs).placed()) <= set(where)
    assert not together.result.stats.errors
    assert len(where) == len(gangs) or next(placements(gangs), None) is None


def _alone(gangs: Sequence[Small]) -> Decided:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admit, "improve", lambda _: False)
        return world_of(gangs).decide()
