"""Sufficient sets of members in their order: the first one, and the next ones.

Of a set without redundant members, each member counts for the total, for a role or for a subgroup of which
the set has just as many as are missing. How many members of each role and subgroup a set has is a
circulation: from the role to the subgroup, on to the subgroups around it, and back to the role.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct

from phalanx.framework.circulation import Circulation
from phalanx.framework.minimum_members import MissingMembers, first_members, is_enough, minimal
from phalanx.model.gangs import Kind, SubgroupSpec, ancestor_chains, kind_of
from phalanx.model.pods import Pod

_MEMBER_SET_TRIALS_MAX: Final = 256
"""Trials to put a member in place of later ones in a sufficient set of members with roles and subgroups."""

_MEMBER_SET_BRANCHES_MAX: Final = 64
"""Branches of the search of one such trial."""


_Part = tuple[str, str]
"""A role and a subgroup."""


def first_sufficient(
    ready: Sequence[Pod], missing: MissingMembers, parts: Sequence[SubgroupSpec]
) -> list[Pod]:
    """The first sufficient set of these pods; all that are needed if they are not enough."""
    chosen = minimal(first_members(ready, missing, parts), missing, parts)
    counts_once = not missing.subgroups or not (missing.roles or any(part.parent for part in parts))
    if counts_once or not is_enough(chosen, missing, parts):
        return chosen
    return _Sets(ready, missing, parts).first(chosen)


def next_sets(
    first: Sequence[Pod],
    ready: Sequence[Pod],
    missing: MissingMembers,
    parts: Sequence[SubgroupSpec],
    *,
    steps: int,
) -> Iterator[list[Pod]]:
    """Yield the sufficient sets of these pods after the first one; of each kind, the first ones are in a set.

    The sets are in order. The search is depth-first: it keeps the longest part of the last set that can be
    completed without the member after it. It ends after this number of `steps`, each of which completes a set
    if that is possible.
    """
    if not is_enough(first, missing, parts):
        return
    sets = _Sets(ready, missing, parts, steps)
    chosen = sets.after(sets.indices_of(first))
    while chosen:
        yield [ready[index] for index in chosen]
        chosen = sets.after(chosen)


class _Sets:
    """Completes sets of pods, which are given by their indices in ascending order."""

    def __init__(
        self, ready: Sequence[Pod], missing: MissingMembers, parts: Sequence[SubgroupSpec], steps: int = 0
    ) -> None:
        self._ready = ready
        self._counts = _Counts(_network(ready, missing, parts))
        self._kinds = [kind_of(pod) for pod in ready]
        self._arcs = [self._counts.arc_of(pod) for pod in ready]
        self._steps_left = steps

    def indices_of(self, pods: Sequence[Pod]) -> list[int]:
        uids = {pod.uid for pod in pods}
        return [index for index, pod in enumerate(self._ready) if pod.uid in uids]

    def first(self, sufficient: Sequence[Pod]) -> list[Pod]:
        """The first set, given any one without redundant members."""
        arcs = self._arcs
        self._counts.begin([arcs[index] for index in self.indices_of(sufficient)])
        self._counts.begin_empty(arcs)
        return [self._ready[index] for index in self._goes_on([], range(len(self._ready)))]

    def after(self, last: Sequence[int]) -> list[int]:
        """The set after the last one; empty if there is none or no steps are left."""
        counts, kinds = self._counts, self._kinds
        counts.begin([self._arcs[index] for index in last])
        left_out = self._left_out(last)
        closed, dropped = list(left_out.items()), Counter[Kind]()
        for kept in reversed(range(len(last))):
            if self._steps_left <= 0:
                return []
            self._steps_left -= 1
            index = last[kept]
            arc, kind = self._arcs[index], kinds[index]
            counts.gives_back(arc)
            dropped[kind] += 1
            while closed and closed[-1][1][0] > index:
                _, others = closed.pop()
                counts.adds(self._arcs[others[0]], len(others))
            if counts.completes_without(arc, dropped[kind] + len(left_out.get(kind, ()))):
                begin = last[:kept]
                shut = {kind, *(each for each, _ in closed)}
                rest = [other for other in range(index + 1, len(kinds)) if kinds[other] not in shut]
                return self._goes_on(begin, rest)
        return []

    def _left_out(self, chosen: Collection[int]) -> dict[Kind, list[int]]:
        """By kind, the pods that are not in the set; the kind whose first such pod is first goes first."""
        inside = set(chosen)
        left_out: dict[Kind, list[int]] = {}
        for index, kind in enumerate(self._kinds):
            if index not in inside:
                left_out.setdefault(kind, []).append(index)
        return left_out

    def _goes_on(self, begin: Sequence[int], rest: Sequence[int]) -> list[int]:
        """The first set that begins so and goes on with some of the rest, if there is one."""
        chosen = list(begin)
        for index in rest:
            if self._counts.is_complete:
                break
            if self._counts.takes(self._arcs[index]):
                chosen.append(index)
        return chosen


# --- counts ----------------------------------------------------------------------------------------------


class _Network(Struct, frozen=True):
    """Arcs of the total, the roles and the subgroups, and one for each role and subgroup that a pod has."""

    flow: Circulation
    total: int
    arcs: dict[_Part, int]
    limits: dict[int, tuple[int, ...]]
    """By the arc of a role and a subgroup: the total, the subgroups from the outermost on, and the role."""


def _network(ready: Sequence[Pod], missing: MissingMembers, parts: Sequence[SubgroupSpec]) -> _Network:
    around, most = ancestor_chains(parts), len(ready)
    kinds = dict.fromkeys((pod.role, pod.subgroup) for pod in ready)
    roles = {role: 2 + number for number, role in enumerate(dict.fromkeys(role for role, _ in kinds))}
    names = dict.fromkeys(chain.from_iterable(around.get(name, ()) for _, name in kinds))
    nodes = {name: 2 + len(roles) + number for number, name in enumerate(names)}
    flow = Circulation(2 + len(roles) + len(nodes))
    total = flow.add(1, 0, max(0, missing.members), most)
    of_role = {
        role: flow.add(0, node, max(0, missing.roles.get(role, 0)), most) for role, node in roles.items()
    }
    of_name = {}
    for name, node in nodes.items():
        above = around[name][1:]
        low = max(0, missing.subgroups.get(name, 0))
        of_name[name] = flow.add(node, nodes[above[0]] if above else 1, low, most)
    arcs, limits = {}, {}
    for role, subgroup in kinds:
        inside = around.get(subgroup, ())
        arc = arcs[role, subgroup] = flow.add(roles[role], nodes[inside[0]] if inside else 1, 0, 0)
        limits[arc] = (total, *(of_name[name] for name in reversed(inside)), of_role[role])
    return _Network(flow, total, arcs, limits)


class _Counts:
    """How many pods of each role and subgroup are taken for sure, and how many complete them to a set.

    Both are about the arc of the role and the subgroup: its least flow is taken for sure, its flow is in the
    set, and its greatest flow can be. The least flow of the other arcs is what is missing.
    """

    def __init__(self, network: _Network) -> None:
        self._flow = network.flow
        self._total = network.total
        self._arcs = network.arcs
        self._limits = network.limits
        self._most = network.flow.highs[network.total]
        self._sure = self._trials = self._branches = 0

    def arc_of(self, pod: Pod) -> int:
        return self._arcs[pod.role, pod.subgroup]

    def begin(self, chosen: Sequence[int]) -> None:
        """Begin with the arcs of a sufficient set: all of it is taken for sure, and no more can be."""
        flow, counts = self._flow, Counter(chosen)
        for limit in set(chain.from_iterable(self._limits.values())):
            flow.flows[limit] = 0
        for arc, limits in self._limits.items():
            flow.lows[arc] = flow.highs[arc] = flow.flows[arc] = counts[arc]
            for limit in limits:
                flow.flows[limit] += counts[arc]
        self._sure, self._trials = len(chosen), _MEMBER_SET_TRIALS_MAX

    def begin_empty(self, ready: Sequence[int]) -> None:
        """Take nothing for sure: all of these can be in the set."""
        counts = Counter(ready)
        for arc in self._limits:
            self._flow.lows[arc], self._flow.highs[arc] = 0, counts[arc]
        self._sure = 0

    def gives_back(self, arc: int) -> None:
        """One less is taken for sure."""
        self._flow.lows[arc] -= 1
        self._sure -= 1

    def adds(self, arc: int, count: int) -> None:
        """So many more can be in the set."""
        self._flow.highs[arc] += count

    @property
    def is_complete(self) -> bool:
        """Whether those that are taken for sure are a set."""
        return self._flow.flows[self._total] == self._sure

    def completes_without(self, arc: int, count: int) -> bool:
        """Whether a set remains if so many less can be in it; nothing changes if not."""
        self._flow.highs[arc] -= count
        if self._completes(arc):
            return True
        self._flow.highs[arc] += count
        return False

    def takes(self, arc: int) -> bool:
        """Whether one more is taken for sure. If not, no other one with its role and subgroup can be."""
        flow = self._flow
        if flow.lows[arc] == flow.highs[arc]:
            return False
        flow.lows[arc] += 1
        if flow.flows[arc] < flow.lows[arc] and not self._tries(arc):
            flow.lows[arc] -= 1
            flow.highs[arc] = flow.lows[arc]
            return False
        self._sure += 1
        return True

    def _tries(self, arc: int) -> bool:
        self._trials -= 1
        return self._trials >= 0 and self._completes(arc)

    def _completes(self, arc: int) -> bool:
        """Whether a set remains after the bounds of this arc have changed; the flow is the same if not."""
        before = list(self._flow.flows)
        self._branches = _MEMBER_SET_BRANCHES_MAX
        if self._flow.brings_inside(arc) and self._needs_all():
            self._remove_redundant()
            return True
        self._flow.flows[:] = before
        return False

    def _needs_all(self, exceeded: frozenset[int] = frozenset()) -> bool:
        """Whether none that are taken for sure are redundant, if need be with others beside them.

        This is a depth-first search: for one after the other, the total, its role or a subgroup gets no more
        than what is missing. `exceeded`: those that were tried before and must get more.
        """
        flow = self._flow
        arc = next((arc for arc in self._limits if flow.lows[arc] and not self._is_needed(arc)), None)
        if arc is None:
            return True
        for limit in self._limits[arc]:
            if flow.lows[limit] == 0 or limit in exceeded or self._branches <= 0:
                continue
            self._branches -= 1
            before = list(flow.flows)
            flow.highs[limit] = flow.lows[limit]
            found = flow.brings_inside(limit) and self._needs_all(exceeded)
            flow.highs[limit] = self._most
            if found:
                return True
            flow.flows[:] = before
            exceeded |= {limit}
        return False

    def _is_needed(self, arc: int) -> bool:
        flow = self._flow
        return any(flow.flows[limit] <= flow.lows[limit] for limit in self._limits[arc])

    def _remove_redundant(self) -> None:
        flow = self._flow
        for arc, limits in reversed(self._limits.items()):
            redundant = min(flow.flows[each] - flow.lows[each] for each in (arc, *limits))
            for each in (arc, *limits) if redundant > 0 else ():
                flow.flows[each] -= redundant
