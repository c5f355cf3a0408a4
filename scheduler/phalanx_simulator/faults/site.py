"""The topology of a cluster as fault plans use it: racks, switches, power feeds."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from phalanx.clock import Random

from phalanx_simulator.embedded.store import Object

_LEVELS: Final = (
    *("region", "zone", "datacenter", "power", "spine", "block", "switch", "row", "rack"),
    *("accelerator", "clique"),
)
"""Words in the name of a label that identify its level, widest first."""

_WORDS: Final = re.compile(r"[a-z]+")


class Site(Struct, frozen=True):
    """Nodes in the given order, and the domains of each level, widest first."""

    nodes: tuple[str, ...]
    levels: Mapping[str, tuple[tuple[str, ...], ...]]
    """By label key: the nodes of each domain, in order of the domains' paths."""

    def domain(self, random: Random, depth: int) -> tuple[str, ...]:
        """A random domain: of the widest level for 0, the next for 1, the narrowest for -1.

        Where there are fewer levels, of the narrowest; all nodes where there is none.
        """
        levels = list(self.levels.values())
        if not levels:
            return self.nodes
        return random.choice(levels[min(depth, len(levels) - 1)])

    def depth_of(self, *names: str) -> int:
        """The level whose label contains the first of these names; -1 if none does."""
        words = [_words_of(key) for key in self.levels]
        found = (depth for name in names for depth, found_words in enumerate(words) if name in found_words)
        return next(found, -1)

    def domain_of(self, node: str, depth: int) -> tuple[str, ...]:
        """The domain of a node; the node alone where it has none."""
        levels = list(self.levels.values())
        domains = levels[min(depth, len(levels) - 1)] if levels else ()
        return next((domain for domain in domains if node in domain), (node,))

    def share(self, random: Random, percent: int) -> tuple[str, ...]:
        """A random share of the nodes, at least one."""
        count = max(1, len(self.nodes) * percent // 100)
        return tuple(random.sample(self.nodes, min(count, len(self.nodes))))


def site_of(nodes: Iterable[Object]) -> Site:
    """The site of these Node manifests or objects."""
    found = list(nodes)
    names = tuple(node["metadata"]["name"] for node in found)
    labels = [node["metadata"].get("labels") or {} for node in found]
    keys = sorted({key: None for own in labels for key in own if _rank(key) < len(_LEVELS)}, key=_order)
    levels = {key: _domains(keys[: depth + 1], names, labels) for depth, key in enumerate(keys)}
    return Site(names, levels)


def _order(key: str) -> tuple[int, str]:
    return _rank(key), key


def _words_of(key: str) -> list[str]:
    return _WORDS.findall(key.rpartition("/")[2].lower())


def _rank(key: str) -> int:
    """The rank of a label's level; the last rank for other labels."""
    words = _words_of(key)
    return next((rank for rank, level in enumerate(_LEVELS) if level in words), len(_LEVELS))


def _domains(
    keys: list[str], names: tuple[str, ...], labels: list[Mapping[str, str]]
) -> tuple[tuple[str, ...], ...]:
    """The domains of the last level.

    Racks of the same name in two blocks are two domains.
    """
    domains: dict[tuple[str, ...], list[str]] = {}
    for name, own in zip(names, labels, strict=True):
        if keys[-1] in own:
            domains.setdefault(tuple(own.get(key, "") for key in keys), []).append(name)
    return tuple(tuple(domains[path]) for path in sorted(domains))
