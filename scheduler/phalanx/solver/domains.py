"""Keys of topology domains: those of a level by their path, and single nodes that lack the level's label."""

from collections.abc import Iterable, Sequence

from phalanx.model.names import NodeName
from phalanx.rules.anchors import Anchor, SubgroupAnchor

DomainKey = tuple[str | None, ...]
"""The path of a domain; for a node that is a domain of its own, None and its name."""


def domain_key(path: Sequence[str], level: int, node: NodeName) -> DomainKey:
    """Return the domain of this level that a node is in; without the level's label the node is a domain."""
    return tuple(path[: level + 1]) if len(path) > level else (None, node)


def is_domain(key: DomainKey) -> bool:
    """Whether a key is that of a domain of the level, and not that of a single node."""
    return key[0] is not None


def anchored_domains(anchors: Iterable[Anchor | SubgroupAnchor], level: int) -> set[DomainKey]:
    """The domains of this level in which members already run."""
    return {domain_key(anchor.path, level, anchor.node) for anchor in anchors}


def open_domains(anchors: Iterable[Anchor | SubgroupAnchor], level: int) -> set[DomainKey]:
    """The keys of this level whose use adds no domain: those of anchored domains and of anchored nodes."""
    anchors = tuple(anchors)
    return anchored_domains(anchors, level) | {(None, anchor.node) for anchor in anchors if anchor.node}
