"""Topologies of other projects as those of Phalanx, where the input has none of Phalanx for them.

HyperNodes of Volcano contain nodes by name, so the nodes of the input get a label for each tier.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from phalanx.cli.manifests.documents import Document
from phalanx.model.api.kai import KaiTopology
from phalanx.model.api.meta import ObjectMeta
from phalanx.model.api.queues import LevelSpec, Topology, TopologySpec
from phalanx.model.api.volcano import HyperNode
from phalanx.model.conversion.hyper_nodes import HyperNodeTree, read_hyper_node
from phalanx.model.names import API_VERSION

NAME: Final = "hypernodes"
"""Of the Topology that HyperNodes become."""


class MadeTopologies(Struct, frozen=True):
    """What is added to the output."""

    topologies: tuple[Topology, ...] = ()
    node_labels: Mapping[str, Mapping[str, str]] | None = None
    """By node of the input, the labels of tiers; None without a Topology of HyperNodes."""

    notes: tuple[str, ...] = ()

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [
            {
                "apiVersion": API_VERSION,
                "kind": "Topology",
                "metadata": {"name": each.metadata.name},
                "spec": msgspec.to_builtins(each.spec),
            }
            for each in self.topologies
        ]


def tier_level(tier: int) -> str:
    """The name of the level of a tier."""
    return f"tier-{tier}"


def made_topologies(
    documents: Sequence[Document],
    known: Iterable[Topology],
    hyper_nodes: Sequence[HyperNode],
    theirs: Iterable[KaiTopology],
) -> MadeTopologies:
    """What HyperNodes, and Topologies of KAI, become beside these Topologies of Phalanx."""
    known = tuple(known)
    names = {topology.metadata.name for topology in known}
    labels = {level.node_label for topology in known for level in topology.spec.levels}
    levels = {level.name for topology in known for level in topology.spec.levels}
    found = [
        made
        for each in theirs
        if each.metadata.name not in names
        and not labels.intersection(level.node_label for level in each.spec.levels)
        and (made := _of_kai(each)).spec.levels
    ]
    tree = HyperNodeTree(map(read_hyper_node, hyper_nodes))
    if (
        tree.topology is None
        or NAME in names
        or levels.intersection(each.spec.tier_name for each in hyper_nodes)
    ):
        return MadeTopologies(tuple(found))
    tiers = dict.fromkeys(level.node_label for level in tree.topology.levels)
    tier_levels = [
        LevelSpec(name=tier_level(int(label.rpartition("-")[2])), node_label=label) for label in tiers
    ]
    nodes = {
        name: tree.labels_of(name, written.get("labels") or {})
        for document in documents
        if (document.api_version, document.kind) == ("v1", "Node")
        and (name := str((written := document.value.get("metadata") or {}).get("name")))
    }
    note = (
        f"Topology {NAME}: is made of the HyperNodes; {len(nodes)} nodes of the input got the labels of its"
        f" tiers, label the others: {', '.join(tiers)}"
    )
    topology = Topology(metadata=ObjectMeta(name=NAME), spec=TopologySpec(levels=tuple(tier_levels)))
    return MadeTopologies((*found, topology), nodes, (note,))


def _of_kai(written: KaiTopology) -> Topology:
    """Its levels are named after their node labels, without the domain."""
    levels: dict[str, str] = {}
    for each in written.spec.levels:
        name = re.sub("[^a-z0-9.-]", "-", each.node_label.rpartition("/")[2].lower()).strip("-.")
        while name in levels:
            name = f"{name}-x"
        levels[name] = each.node_label
    made = tuple(LevelSpec(name=name, node_label=label) for name, label in levels.items())
    return Topology(metadata=ObjectMeta(name=written.metadata.name), spec=TopologySpec(levels=made))
