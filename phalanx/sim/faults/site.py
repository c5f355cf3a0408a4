"""What a plan of faults must know of a cluster: its nodes, and which share a rack, a switch, a power feed."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from phalanx.clock import Random
from phalanx.sim.store import Object

_HOST: Final = "kubernetes.io/hostname"
_MARKS: Final = ("topology", "clique", "rack", "block", "switch", "power")
"""A label whose key has one of these in it tells where a node stands."""


class Site(Struct, frozen=True):
    """Nodes in the order given, and the domains of each level, the widest first."""

    nodes: tuple[str, ...]
    levels: Mapping[str, tuple[tuple[str, ...], ...]]
    """By label key: the nodes of each domain, in order of the domains' names."""

    def domain(self, random: Random, depth: int) -> tuple[str, ...]:
        """A domain drawn by lot: of the widest level for 0, the next for 1, the narrowest for -1.

        Where there are fewer levels, of the narrowest; all nodes where there is none.
        """
        levels = list(self.levels.values())
        if not levels:
            return self.nodes
        return random.choice(levels[min(depth, len(levels) - 1)])

    def domain_of(self, node: str, depth: int) -> tuple[str, ...]:
        """The domain in which a node lies; the node alone where it lies in none. `depth` as in `domain`."""
        levels = list(self.levels.values())
        domains = levels[min(depth, len(levels) - 1)] if levels else ()
        return next((domain for domain in domains if node in domain), (node,))

    def share(self, random: Random, percent: int) -> tuple[str, ...]:
        """That part of the nodes by lot, at least one of them."""
        count = max(1, len(self.nodes) * percent // 100)
        return tuple(random.sample(self.nodes, min(count, len(self.nodes))))


def site_of(nodes: Iterable[Object]) -> Site:
    """The site of these Node manifests or objects."""
    found = list(nodes)
    names = tuple(node["metadata"]["name"] for node in found)
    labels = [node["metadata"].get("labels") or {} for node in found]
    keys = sorted({key: None for one in labels for key in one if _tells_a_place(key)})
    levels = {key: _domains(key, names, labels) for key in keys}
    in_order = sorted(levels, key=lambda key: (len(levels[key]), key))
    return Site(names, {key: levels[key] for key in in_order})


def _tells_a_place(key: str) -> bool:
    return key != _HOST and any(mark in key for mark in _MARKS)


def _domains(
    key: str, names: tuple[str, ...], labels: list[Mapping[str, str]]
) -> tuple[tuple[str, ...], ...]:
    domains: dict[str, list[str]] = {}
    for name, own in zip(names, labels, strict=True):
        if key in own:
            domains.setdefault(own[key], []).append(name)
    return tuple(tuple(domains[value]) for value in sorted(domains))
