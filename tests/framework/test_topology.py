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
