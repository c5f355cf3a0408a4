"""Node labels of the levels of a topology, read from the API objects."""

from typing import Final

from msgspec import Struct

from phalanx_simulator.embedded.store import Change, ChangeType, Object, Store

_TOPOLOGIES: Final = "topologies.scheduling.phalanx.dev"
_DEFAULT: Final = "default"
_WELL_KNOWN: Final = (
    ("region", "topology.kubernetes.io/region"),
    ("zone", "topology.kubernetes.io/zone"),
    ("datacenter", "network.topology.nvidia.com/datacenter"),
    ("spine", "network.topology.nvidia.com/spine"),
    ("block", "network.topology.nvidia.com/block"),
    ("block", "cloud.provider.com/topology-block"),
    ("rack", "cloud.provider.com/topology-rack"),
    ("nvlink", "network.topology.nvidia.com/accelerator"),
    ("host", "kubernetes.io/hostname"),
)


class Tree(Struct, frozen=True):
    """A topology: (level, node label), widest first."""

    levels: tuple[tuple[str, str], ...]

    def labels_down_to(self, level: str) -> list[str] | None:
        """The labels of the levels down to this one, which may be named by its label; None if it does not
        exist."""
        names = [name for name, _ in self.levels]
        if level not in names:
            names = [label for _, label in self.levels]
        if level not in names:
            return None
        return [label for _, label in self.levels[: names.index(level) + 1]]


class Trees:
    """The topologies of a store, cached until a Topology or a node label changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[str, Tree] = {}
        store.subscribe(_TOPOLOGIES, lambda _change: self._read.clear())
        store.subscribe("nodes", self._on_node)

    def of(self, name: str) -> Tree:
        """The topology of that name; without a name the default, else the well-known labels."""
        if name not in self._read:
            self._read[name] = Tree(self._levels(name))
        return self._read[name]

    def _levels(self, name: str) -> tuple[tuple[str, str], ...]:
        objects = {entry.key.name: entry.data for entry in self._store.entries(_TOPOLOGIES)}
        chosen = objects.get(name or _DEFAULT)
        if chosen is None and not name and objects:
            chosen = objects[min(objects)]
        if chosen is not None:
            return tuple(_level(level) for level in chosen["spec"].get("levels") or ())
        return () if name else _implied(self._store)

    def _on_node(self, change: Change) -> None:
        """Clear the cache if labels change: a deleted node may remove the last label of a level."""
        before = change.previous.data["metadata"].get("labels") if change.previous is not None else None
        is_other = before != change.entry.data["metadata"].get("labels")
        if is_other or change.type is not ChangeType.MODIFIED:
            self._read.clear()


def _level(written: Object) -> tuple[str, str]:
    return str(written.get("name")), str(written.get("nodeLabel"))


def _implied(store: Store) -> tuple[tuple[str, str], ...]:
    carried = {
        label for entry in store.entries("nodes") for label in (entry.data["metadata"].get("labels") or {})
    }
    found: dict[str, str] = {}
    for name, label in _WELL_KNOWN:
        if label in carried:
            found.setdefault(name, label)
    return tuple(found.items())
