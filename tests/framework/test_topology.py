"""Domains of nodes, and the topology of a gang."""

import pytest
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.nodes.topology import domain_path
from phalanx.framework.session import Session
from phalanx.model.api.pod_groups import TopologyRequest
from phalanx.model.names import GangId, NodeName
from phalanx.model.nodes import Node
from phalanx.model.snapshot import Level, Topology

from tests.builders import Scenario

TREE = Topology("tree", (Level("zone", "z"), Level("spine", "s"), Level("rack", "r")))


@pytest.mark.parametrize(
    ("labels", "path"),
    [
        ({"z": "a", "s": "b", "r": "c"}, ("a", "b", "c")),
        ({"z": "a", "s": "b"}, ("a", "b")),
        ({"z": "a", "r": "c"}, ("a",)),
        ({"s": "b", "r": "c"}, ()),
        ({"z": "a", "s": "", "r": "c"}, ("a", "", "c")),
        ({"z": "", "s": "", "r": ""}, ("", "", "")),
    ],
)
def test_a_domain_path_ends_at_the_first_missing_label(labels: dict[str, str], path: tuple[str, ...]) -> None:
    assert domain_path(Node(name=NodeName("n"), uid="", labels=labels), TREE) == path


@pytest.mark.parametrize(
    ("named", "configured", "expected"),
    [("", None, ""), ("tree", None, "tree"), ("", "tree", "tree"), ("other", "tree", None), ("", "x", None)],
)
def test_a_gang_uses_its_named_topology_or_the_configured_default(
    named: str, configured: str | None, expected: str | None
) -> None:
    scenario = Scenario("zone").gang("g", 1, topology=TopologyRequest(name=named))
    scenario.topologies["tree"] = TREE
    session = Session(scenario.snapshot(), SchedulerConfig(default_topology=configured))
    found = session.topologies.of(session.gangs[GangId("gang-g")])
    assert (found.name if found else None) == expected


def levels_of(required: str, *, named: str | None = None, **labels: str) -> list[tuple[str, str]] | None:
    """Levels of the topology for a gang that requires this level, of which the default has zone and rack."""
    request = TopologyRequest(name=named, required=required)
    scenario = Scenario().nodes("n", labels=labels).gang("g", 1, topology=request)
    flat = Topology("flat", (Level("zone", "z"), Level("rack", "r")))
    scenario.topologies |= {"tree": TREE, "flat": flat}
    session = Session(scenario.snapshot(), SchedulerConfig(default_topology="flat"))
    found = session.topologies.of(session.gangs[GangId("gang-g")])
    return None if found is None else [(level.name, level.node_label) for level in found.levels]


def test_a_required_level_may_be_named_by_its_node_label() -> None:
    zone = ("zone", "z")
    assert levels_of("rack") == [zone, ("rack", "r")]
    assert levels_of("r") == [zone, ("r", "r")]
    assert levels_of("s") == [zone, ("s", "s"), ("rack", "r")]  # only another Topology has this label
    assert levels_of("z", named="tree") == [("z", "z"), ("spine", "s"), ("rack", "r")]


def test_a_label_that_no_topology_has_is_a_topology_of_its_own_if_a_node_has_it() -> None:
    assert levels_of("island", island="a") == [("island", "island")]
    assert levels_of("island") == levels_of("rack")
    assert levels_of("r", named="other") is None


def test_only_levels_of_the_named_topology_count_if_there_is_a_name() -> None:
    """So a Topology that does not exist is reported, also if nodes have the label."""
    assert levels_of("r", named="other", r="a") is None
    assert levels_of("island", named="flat", island="a") == levels_of("rack")
