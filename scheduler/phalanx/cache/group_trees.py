"""Trees of composite groups: in which gang the pods of a PodGroup are that has a parent.

The chain of parents is followed once for all pods of a PodGroup, and again when an object in it changes.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.cache.table import Key, Table
from phalanx.model.api.native_pod_groups import COMPOSITE_DEPTH_MAX, CompositePodGroup, NativePodGroup
from phalanx.model.api.pod_groups import SUB_GROUPS_MAX
from phalanx.model.conversion.pod_groups import GangKey, PodGroup
from phalanx.model.dialects.composite import (
    COMPOSITE,
    Part,
    gang_of_tree,
    in_circle,
    pod_group_in_tree,
    too_deep,
)
from phalanx.model.dialects.native import NATIVE
from phalanx.model.gangs import GangKind
from phalanx.model.reasons import Objection

IN_TREES: Final = (NATIVE.name, COMPOSITE.name)
"""The dialects whose groups may have a parent."""


class Move(Struct, frozen=True):
    """The pods of a PodGroup are in this gang now. `before` and `after` may be one."""

    pod_group: GangKey
    before: GangKey
    after: GangKey


class TreeChange(Struct, frozen=True):
    """What a change of one group means. `gangs`: those whose groups changed, with or without pods."""

    moves: tuple[Move, ...]
    gangs: tuple[GangKey, ...]


class _Chain(Struct, frozen=True):
    """The composite groups around a group, innermost first."""

    around: tuple[PodGroup, ...]
    missing: str = ""
    """The next one, if it does not exist."""
    problem: Objection | None = None
    """Why there is no outermost one."""


class GroupTrees:
    """Which composite group contains which groups, and the gang of each PodGroup with a parent."""

    def __init__(
        self, pod_groups: Table[NativePodGroup, PodGroup], composites: Table[CompositePodGroup, PodGroup]
    ) -> None:
        self._pod_groups = pod_groups
        self._composites = composites
        self._inside: dict[Key, dict[GangKey, None]] = {}
        """The groups that name this composite group as their parent, whether it exists or not."""
        self._placed: dict[Key, GangKey] = {}
        """The gang of each PodGroup with a parent."""
        self._gangs: dict[GangKey, PodGroup] = {}
        """What was computed since the last change."""

    # --- events -------------------------------------------------------------------------------------------

    def concerns(self, dialect: str, old: PodGroup | None, new: PodGroup | None) -> bool:
        """Whether the change of a group is one of a tree."""
        if dialect != NATIVE.name:
            return dialect == COMPOSITE.name
        return any(group is not None and group.parent for group in (old, new))

    def change(self, changed: GangKey, old: PodGroup | None, new: PodGroup | None) -> TreeChange:
        """A group was added, changed or removed; the tables already show it."""
        space = changed.namespace
        parents = [group.parent if group is not None else "" for group in (old, new)]
        outer = [self._outermost(space, parent) for parent in parents if parent]
        touched = {gang: None for gang in outer if gang is not None}
        if parents[0] != parents[1]:
            self._unlink((space, parents[0]), changed)
            if parents[1]:
                self._inside.setdefault((space, parents[1]), {})[changed] = None
        below = tuple(self._below(changed))
        moves = tuple(self._place(group) for group in below if group.dialect == NATIVE.name)
        for move in moves:
            touched.update({move.before: None, move.after: None})
        for gang in (*below, *touched):
            self._gangs.pop(gang, None)
        return TreeChange(moves, tuple(touched))

    def _unlink(self, parent: Key, child: GangKey) -> None:
        inside = self._inside.get(parent, {})
        inside.pop(child, None)
        if not inside:
            self._inside.pop(parent, None)

    def _below(self, group: GangKey) -> Iterator[GangKey]:
        """The groups in a group, itself included; groups may contain each other."""
        seen, waiting = {group}, [group]
        while waiting:
            current = waiting.pop()
            yield current
            if current.dialect == NATIVE.name:
                continue
            inner = [
                each for each in self._inside.get((current.namespace, current.name), ()) if each not in seen
            ]
            seen.update(inner)
            waiting += inner

    def _place(self, pod_group: GangKey) -> Move:
        key = (pod_group.namespace, pod_group.name)
        before, group = self._placed.pop(key, pod_group), self._pod_groups.get(key)
        if group is None or not group.parent:
            return Move(pod_group, before, pod_group)
        self._placed[key] = after = self._outermost(group.namespace, group.parent) or pod_group
        return Move(pod_group, before, after)

    def _outermost(self, namespace: str, parent: str) -> GangKey | None:
        """The composite group that is the gang of a group with this parent."""
        chain = self._chain(namespace, parent)
        if chain.problem is not None:
            return None
        if chain.missing:
            return _composite(namespace, chain.missing)
        outer = next((each.name for each in reversed(chain.around) if each.is_gang), None)
        return None if outer is None else _composite(namespace, outer)

    def _chain(self, namespace: str, parent: str) -> _Chain:
        around: list[PodGroup] = []
        name = parent
        while name:
            found = self._composites.get((namespace, name))
            if found is None:
                return _Chain(tuple(around), missing=name)
            if any(each.name == name for each in around):
                return _Chain(tuple(around), problem=in_circle(name))
            if len(around) == COMPOSITE_DEPTH_MAX - 1:
                return _Chain(tuple(around), problem=too_deep(around[0].name))
            around.append(found)
            name = found.parent
        return _Chain(tuple(around))

    # --- questions ----------------------------------------------------------------------------------------

    def key_of(self, pod_group: GangKey) -> GangKey:
        """The gang of the pods that name this PodGroup."""
        return self._placed.get((pod_group.namespace, pod_group.name), pod_group)

    def keys_of(self, group: GangKey) -> tuple[GangKey, ...]:
        """The gangs of the pods in a group."""
        return tuple(
            dict.fromkeys(self.key_of(each) for each in self._below(group) if each.dialect == NATIVE.name)
        )

    def get(self, key: GangKey) -> PodGroup | None:
        """The gang of this key: of a composite group with all its parts, or of a PodGroup."""
        table = self._composites if key.dialect == COMPOSITE.name else self._pod_groups
        group: PodGroup | None = table.get((key.namespace, key.name))
        if group is None or (key.dialect == NATIVE.name and not group.parent):
            return group
        if key not in self._gangs:
            self._gangs[key] = self._read(key, group)
        return self._gangs[key]

    def _read(self, key: GangKey, group: PodGroup) -> PodGroup:
        chain = self._chain(group.namespace, group.parent)
        if key.dialect == COMPOSITE.name:
            return gang_of_tree(group, chain.around, lambda name: self._parts(group.namespace, name))
        if self.key_of(key) != key:
            return replace(group, is_gang=True)
        if chain.problem is not None:
            return replace(group, problems=(chain.problem, *group.problems))
        return pod_group_in_tree(group, chain.around)

    def _parts(self, namespace: str, name: str) -> Sequence[Part]:
        """The groups in a composite group, by age and name; one more than allowed if there are more."""
        found: list[Part] = []
        for child in islice(self._inside.get((namespace, name), ()), SUB_GROUPS_MAX + 1):
            table = self._composites if child.dialect == COMPOSITE.name else self._pod_groups
            group = table.get((namespace, child.name))
            if group is not None:
                found.append(Part(group, is_composite=child.dialect == COMPOSITE.name))
        return sorted(found, key=lambda part: (part.group.created, part.group.name, part.is_composite))


def _composite(namespace: str, name: str) -> GangKey:
    return GangKey(GangKind.POD_GROUP, namespace, name, COMPOSITE.name)
