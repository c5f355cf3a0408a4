"""Every node that runs gangs has the labels of every level of every topology."""

from collections.abc import Iterator

from phalanx.cli.doctor.finding import Finding, Severity, names
from phalanx.cli.doctor.installation import Installation, work_nodes
from phalanx.cli.formatting import count
from phalanx.model.conversion.cluster_objects import implied_topology, read_topology
from phalanx.model.snapshot import Topology

_LEVELS_OF_ONE_NODE = ("kubernetes.io/hostname",)


def check(seen: Installation) -> Iterator[Finding]:
    """Look at the Topology objects; without any, at the well-known labels that some node has."""
    nodes = work_nodes(seen.nodes)
    topologies = [read_topology(each) for each in seen.topologies]
    if not topologies:
        topologies = [implied_topology({label for node in nodes for label in node.metadata.labels})]
        if not _useful_levels(topologies[0]):
            yield Finding(
                Severity.NOTE,
                "Topology",
                "There is no Topology, and no node has a well-known label of a rack, block or zone.",
                "Gangs cannot ask for nodes near each other until nodes have labels: docs/topology.md.",
            )
    for topology in topologies:
        for level in topology.levels:
            without = [each.metadata.name for each in nodes if level.node_label not in each.metadata.labels]
            if without:
                yield Finding(
                    Severity.WARNING,
                    f"Topology {topology.name}" if topology.name else "well-known topology labels",
                    f"{count(len(without), 'node')} of {len(nodes)} without the label {level.node_label} of"
                    f" the level {level.name}: {names(without)}.",
                    "Gangs that require this level do not start there. Label the nodes, or correct the"
                    " Topology.",
                )


def _useful_levels(topology: Topology) -> list[str]:
    return [level.name for level in topology.levels if level.node_label not in _LEVELS_OF_ONE_NODE]
