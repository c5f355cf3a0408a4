"""What the documents of the input say together, and the lines that the user gets about them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from phalanx.cli.manifests.documents import Document
from phalanx.model.api.core import PriorityClass
from phalanx.model.api.kai import KaiTopology
from phalanx.model.api.queues import Topology
from phalanx.model.api.volcano import HyperNode
from phalanx.model.conversion.pod_groups import PodGroup
from phalanx.model.dialects.known import named_groups
from phalanx.model.names import API_VERSION

from phalanx_dialects.conversion.templates import mapping_of, pods_of
from phalanx_dialects.conversion.topologies import MadeTopologies, made_topologies, tier_level

Object = dict[str, Any]

_CLASSES_OF_KAI: Final = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
"""PriorityClasses that KAI installs."""


class Report(Struct):
    """Lines for the user."""

    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Inputs(Struct, frozen=True):
    """What objects mean that others name."""

    topologies: tuple[Topology, ...]
    """Those of Phalanx, and those that are made; the default one goes first."""

    made: MadeTopologies
    """Those of the topologies that other projects describe."""

    tier_names: Mapping[int, frozenset[str]]
    """By tier of HyperNodes, the levels that may stand for it: of its names, or of one that is made."""

    classes: Mapping[str, int]
    """The values of PriorityClasses."""

    tasks: Mapping[tuple[str, str, str], frozenset[str]]
    """By dialect, namespace and PodGroup: the roles that its pods name, empty for none."""

    formed: Mapping[tuple[str, str], PodGroup]
    """By namespace and name: PodGroups of Volcano with the subgroups that their pods form."""

    @property
    def levels(self) -> dict[str, tuple[str, str]]:
        """Topology and level of each node label."""
        found = reversed(self.topologies)
        return {
            level.node_label: (topology.metadata.name, level.name)
            for topology in found
            for level in topology.spec.levels
        }


def read_inputs(documents: Sequence[Document], formed: Mapping[tuple[str, str], PodGroup]) -> Inputs:
    """Read what is needed to convert others. Raises a ValidationError."""
    known = _all(documents, API_VERSION, "Topology", Topology)
    hyper_nodes = _all(documents, "topology.volcano.sh/v1alpha1", "HyperNode", HyperNode)
    theirs = _all(documents, "kai.scheduler/v1alpha1", "Topology", KaiTopology)
    made = made_topologies(documents, known, hyper_nodes, theirs)
    tiers: dict[int, set[str]] = {}
    for hyper_node in hyper_nodes:
        names = {
            hyper_node.spec.tier_name,
            tier_level(hyper_node.spec.tier) if made.node_labels is not None else "",
        }
        tiers.setdefault(hyper_node.spec.tier, set()).update(names - {""})
    classes = _all(documents, "scheduling.k8s.io/v1", "PriorityClass", PriorityClass)
    return Inputs(
        topologies=tuple(sorted((*known, *made.topologies), key=_rank)),
        made=made,
        tier_names={tier: frozenset(names) for tier, names in tiers.items()},
        classes={**_CLASSES_OF_KAI, **{each.metadata.name: each.value for each in classes}},
        tasks=_tasks(documents),
        formed=formed,
    )


def _all(documents: Iterable[Document], api_version: str, kind: str, struct: type[Any]) -> list[Any]:
    return [
        msgspec.convert(document.value, struct)
        for document in documents
        if (document.api_version, document.kind) == (api_version, kind)
    ]


def _rank(topology: Topology) -> tuple[bool, str]:
    return topology.metadata.name != "default", topology.metadata.name


def _tasks(documents: Iterable[Document]) -> dict[tuple[str, str, str], frozenset[str]]:
    found: dict[tuple[str, str, str], set[str]] = {}
    for key, role in _roles(documents):
        found.setdefault(key, set()).add(role)
    return {key: frozenset(roles) for key, roles in found.items()}


def _roles(documents: Iterable[Document]) -> Iterator[tuple[tuple[str, str, str], str]]:
    for document, pod in pods_of(documents):
        for dialect, name in named_groups(pod):
            key = (dialect.name, namespace_of(document.value), name)
            yield key, dialect.role_of(pod) if dialect.role_of is not None else ""


def namespace_of(value: Object) -> str:
    return str(mapping_of(value.get("metadata")).get("namespace") or "default")
