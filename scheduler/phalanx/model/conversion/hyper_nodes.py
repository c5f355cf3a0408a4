"""HyperNodes of Volcano as a Topology: each tier is a level, and each node has a label for each tier.

The label of a tier holds the widest HyperNode of this tier, or of a lower one, that contains the node. So the
pods of a gang are in one domain of a level if they are in one HyperNode whose tier is not higher. No object
has these labels: they are computed from the HyperNodes. A tier with a name has a second level of this name.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from phalanx.model.api import volcano
from phalanx.model.conversion.selectors import read_label_selector
from phalanx.model.names import HYPER_NODES, tier_label, tier_name_label
from phalanx.model.pods import Term
from phalanx.model.selectors import labels_match
from phalanx.model.snapshot import Level, Topology

HYPER_NODE_TIERS_MAX: Final = 16
"""Tiers of Volcano's HyperNodes that count. Each is a level of the topology, and a label of every node."""

_NODE: Final = "Node"
_HYPER_NODE: Final = "HyperNode"
_LOWEST: Final = 1
"""The tier at which trees of HyperNodes begin."""


class HyperNode(Struct, frozen=True, gc=False):
    """One HyperNode: its members of both types."""

    name: str
    tier: int
    tier_name: str
    inside: tuple[str, ...]
    """Names of HyperNodes."""

    nodes: tuple[str, ...]
    patterns: tuple[str, ...]
    selectors: tuple[Term, ...]


def read_hyper_node(written: volcano.HyperNode) -> HyperNode:
    """Convert one HyperNode. Selectors that are invalid select nothing."""
    spec = written.spec
    nodes = [member.selector for member in spec.members if member.type == _NODE]
    inside = [member.selector.exact_match for member in spec.members if member.type == _HYPER_NODE]
    return HyperNode(
        name=written.metadata.name,
        tier=spec.tier,
        tier_name=spec.tier_name,
        inside=tuple(match.name for match in inside if match is not None),
        nodes=tuple(each.exact_match.name for each in nodes if each.exact_match is not None),
        patterns=tuple(each.regex_match.pattern for each in nodes if each.regex_match is not None),
        selectors=tuple(_selectors(nodes)),
    )


def _selectors(members: Iterable[volcano.MemberSelector]) -> Iterator[Term]:
    """The valid selectors. One without requirements selects nothing."""
    for member in members:
        wrong: list[str] = []
        term = read_label_selector(member.label_match, "", wrong)
        if term is not None and term.requirements and not wrong:
            yield term


def _names_of_tiers(known: Iterable[HyperNode]) -> dict[int, list[str]]:
    """The names of each tier. A name of several tiers names none of them."""
    tiers: dict[str, set[int]] = {}
    for each in known:
        if each.tier_name:
            tiers.setdefault(each.tier_name, set()).add(each.tier)
    named = [(name, min(of)) for name, of in sorted(tiers.items()) if len(of) == 1][:HYPER_NODE_TIERS_MAX]
    found: dict[int, list[str]] = {}
    for name, tier in named:
        found.setdefault(tier, []).append(name)
    return found


class HyperNodeTree:
    """All HyperNodes of a cluster. Those with a tier out of bounds do not count."""

    def __init__(self, known: Iterable[HyperNode]) -> None:
        in_bounds = [each for each in known if 0 <= each.tier <= HYPER_NODE_TIERS_MAX]
        self._known = {each.name: each for each in sorted(in_bounds, key=lambda each: each.name)}
        self._parents: dict[str, HyperNode] = {}
        self._by_node: dict[str, list[HyperNode]] = {}
        self._patterns: list[tuple[re.Pattern[str], HyperNode]] = []
        for each in self._known.values():
            self._add(each)
        tiers = {each.tier for each in self._known.values()}
        self._tiers = range(min(tiers | {_LOWEST}), max(tiers) + 1) if tiers else range(0)
        names = _names_of_tiers(self._known.values())
        levels = tuple(
            Level(name, tier_label(tier))
            for tier in reversed(self._tiers)
            for name in (tier_label(tier), *map(tier_name_label, names.get(tier, ())))
        )
        self.topology = Topology(HYPER_NODES, levels) if levels else None
        """A level for each tier, also for those without a HyperNode; None if there are no HyperNodes."""

    def _add(self, hyper_node: HyperNode) -> None:
        """Index its members. A HyperNode is inside the first one, by name, that names it and is wider."""
        for name in hyper_node.inside:
            if name in self._known and self._known[name].tier < hyper_node.tier:
                self._parents.setdefault(name, hyper_node)
        for name in hyper_node.nodes:
            self._by_node.setdefault(name, []).append(hyper_node)
        for pattern in hyper_node.patterns:
            try:
                self._patterns.append((re.compile(pattern), hyper_node))
            except re.error:
                continue

    def labels_of(self, node: str, labels: Mapping[str, str]) -> dict[str, str]:
        """The label of each tier for a node with this name and these labels."""
        around = sorted({(each.tier, each.name) for each in self._containing(node, labels)}, reverse=True)
        found: dict[str, str] = {}
        for tier in self._tiers:
            widest = next((name for own, name in around if own <= tier), None)
            if widest is not None:
                found[tier_label(tier)] = widest
        return found

    def _containing(self, node: str, labels: Mapping[str, str]) -> Iterator[HyperNode]:
        """The HyperNodes that name the node, and those around them."""
        named = [*self._by_node.get(node, ())]
        named += [each for pattern, each in self._patterns if pattern.search(node)]
        for each in self._known.values():
            if any(labels_match(labels, term) for term in each.selectors):
                named.append(each)
        for each in named:
            around: HyperNode | None = each
            while around is not None:
                yield around
                around = self._parents.get(around.name)
