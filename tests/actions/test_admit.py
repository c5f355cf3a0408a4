"""Starts that found no room get some where those placed before them can be moved, and only there."""

from tests.builders import Scenario


def two_racks() -> Scenario:
    """Two racks of four nodes and one of two; in the large ones, one node is fuller than the others."""
    scenario = Scenario("spine", "rack")
    for rack in ("a", "b"):
        scenario.nodes(f"{rack}-full", 1, gpu=8, cpu=32, within=f"s/{rack}")
        scenario.nodes(rack, 3, gpu=8, within=f"s/{rack}")
    return scenario.nodes("c", 2, gpu=8, within="s/c")


def test_what_blocks_two_racks_is_moved_out_of_the_way() -> None:
    scenario = two_racks().gang("first", 2, gpu=8)
    for name in ("left", "right"):
        scenario.gang(name, 4, gpu=8, required="rack")
    result = scenario.decide()
    print(result.where("first"), result.where("left"), result.where("right"))
    assert sorted(result.placed()) == ["first", "left", "right"]
    assert result.where("first") == {"c": 2}
