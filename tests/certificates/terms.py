"""The objective of a placement as docs/certificates.md defines it under "Certificates".

Nothing of `phalanx` is imported here: these definitions check those of the product.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations

from tests.certificates.cluster import (
    Gang,
    Kind,
    Located,
    Node,
    Pod,
    Situation,
    Subgroup,
    depth,
    fit,
    inside,
    levels_of,
    may_use,
    needs,
    path,
)
from tests.certificates.fragments import fragments

Domain = tuple[object, ...]
Terms = dict[str, int]
"""Values by the name of the term, in the order of the terms."""


class Step:
    """Pods of one gang that are placed together in a situation, and what all their placements share."""

    def __init__(self, before: Situation, gang: Gang, pods: Sequence[Pod], *, whole: bool) -> None:
        self.before, self.case, self.gang, self.pods, self.whole = before, before.case, gang, pods, whole
        self.nodes = {node.name: node for node in self.case.nodes}
        self.free = {node.name: before.free(node) for node in self.case.nodes}
        self.devices = {node.name: before.free_devices(node) for node in self.case.nodes}
        self.members = before.members(gang.name)
        self._capacities = {node.name: self._capacity(node) for node in self.case.nodes}

    @property
    def is_single_of_fragmentation(self) -> bool:
        """Whether it is a single pod of a queue that minimises fragmentation."""
        return len(self.pods) == 1 and self.case.objective == "LeastFragmentation"

    def terms(self, placed: Sequence[Located]) -> Terms:
        """The values of all terms that apply to the step."""
        found: Terms = {}
        if not self.whole:
            found["unplaced"] = len(self.pods) - len(placed)
        for level, name in self._levels(depth(self.case, self.gang.preferred)):
            found[f"domains:{name}"] = len(self._spanned(placed, level))
        found |= self._of_subgroups(placed)
        found |= self._traffic(placed)
        found["cost"] = sum(self._cost(one.pod.kind, self.nodes[one.node]) for one in placed)
        found["cost"] += self._cost_of_pairs(placed)
        deepest = max(depth(self.case, self.gang.preferred), self.required_depth)
        if deepest and not self.is_single_of_fragmentation:
            name = self.case.levels[deepest - 1][0]
            found[f"tightness:{name}"] = self._tightness(placed, deepest)
        if not self.is_single_of_fragmentation:
            found |= self._tightness_of_subgroups(placed)
        if self.is_single_of_fragmentation:
            found["fragments"] = sum(fragments(self.before, one.pod, one.node) for one in placed)
        return found

    def _cost(self, kind: Kind, node: Node) -> int:
        """The cost of a pod on a node, with what the node is worth less than the best one by its members."""
        best = max(self._worth(kind, other) for other in self.case.nodes)
        return cost(kind, node) + best - self._worth(kind, node)

    def _worth(self, kind: Kind, node: Node) -> int:
        """The weights of the pod and of members that already have a node for each other."""
        return sum(
            weight
            for one in self.members
            for weight, label in (*kind.draws, *one.pod.kind.draws)
            if label in node.labels and self.nodes[one.node].labels.get(label) == node.labels[label]
        )

    def _cost_of_pairs(self, placed: Sequence[Located]) -> int:
        """Pairs that draw each other and are not near each other, and pairs that avoid each other and are."""
        at = {one.pod.name: self.nodes[one.node] for one in placed}
        total = 0
        for one, other in combinations(self.pods, 2):
            draws = (*one.kind.draws, *other.kind.draws)
            for label in {label for _, label in draws}:
                worth = sum(weight for weight, by in draws if by == label)
                here, there = (
                    at[each.name].labels.get(label) if each.name in at else None for each in (one, other)
                )
                is_near = here is not None and here == there
                total += worth if worth > 0 and not is_near else -worth if worth < 0 and is_near else 0
        return total

    @property
    def required_depth(self) -> int:
        """The depth of the required level, or of the level that required pod affinity stands for."""
        labels = {pod.kind.together for pod in self.pods} - {""}
        names = [name for name, label in self.case.levels if label in labels and self._identifies(label)]
        return max([depth(self.case, self.gang.required), *(depth(self.case, name) for name in names)])

    def _identifies(self, label: str) -> bool:
        """Whether each value of the label of a level is that of one domain."""
        number = [key for _, key in self.case.levels].index(label) + 1
        domains: dict[str, tuple[str, ...]] = {}
        for node in self.case.nodes:
            values = () if node.place_unknown else path(self.case, node)[:number]
            if (label in node.labels) != (len(values) == number):
                return False
            if label in node.labels and domains.setdefault(node.labels[label], values) != values:
                return False
        return True

    def _levels(self, count: int, topology: str = "") -> Iterable[tuple[int, str]]:
        levels = levels_of(self.case, topology)[:count]
        return [(number, name) for number, (name, _) in enumerate(levels, 1)]

    def new_domain(self, node: Node, level: int, topology: str = "") -> Domain:
        """The domain of a level in which a pod is that is placed on the node."""
        values = () if node.place_unknown else path(self.case, node, topology)
        return self._named(values, node, level)

    def member_domain(self, node: Node, level: int, topology: str = "") -> Domain:
        """The domain of a level in which a member is that already has the node."""
        return self._named(path(self.case, node, topology), node, level)

    def _named(self, values: Sequence[str], node: Node, level: int) -> Domain:
        return ("labels", *values[:level]) if len(values) >= level else ("node", node.name)

    def _spanned(
        self,
        placed: Iterable[Located],
        level: int,
        members: Iterable[Located] | None = None,
        topology: str = "",
    ) -> set[Domain]:
        """The domains of members that have a node and of placed pods.

        A node where a member runs is no further domain.
        """
        members = self.members if members is None else list(members)
        there = {self.member_domain(self.nodes[one.node], level, topology) for one in members}
        occupied = {one.node for one in members}
        return there | {
            domain
            for one in placed
            for domain in (self.new_domain(self.nodes[one.node], level, topology),)
            if one.node not in occupied or domain[0] == "labels"
        }

    def _of_subgroups(self, placed: Sequence[Located]) -> Terms:
        here = [
            one
            for one in self.gang.subgroups
            if one.preferred and any(self.is_inside(pod, one.name) for pod in self.pods)
        ]
        found = self._of_subgroups_in(placed, [one for one in here if not one.topology], "")
        for topology in dict.fromkeys(one.topology for one in here if one.topology):
            found |= self._of_subgroups_in(
                placed, [one for one in here if one.topology == topology], topology
            )
        return found

    def _of_subgroups_in(self, placed: Sequence[Located], here: Sequence[Subgroup], topology: str) -> Terms:
        """The domains of these subgroups in the topology that all of them name."""
        deepest = max((depth(self.case, one.preferred, topology) for one in here), default=0)
        found = {}
        for level, name in self._levels(deepest, topology):
            term = f"{topology}/{name}" if topology else name
            found[f"subgroup-domains:{term}"] = sum(
                len(
                    self._spanned(
                        [at for at in placed if self.is_inside(at.pod, one.name)],
                        level,
                        [at for at in self.members if self.is_inside(at.pod, one.name)],
                        topology,
                    )
                )
                for one in here
                if depth(self.case, one.preferred, topology) >= level
            )
        return found

    def _traffic(self, placed: Sequence[Located]) -> Terms:
        """What pairs of members in different domains, or on different nodes, send to each other."""
        flows = self.gang.traffic
        if not any(pod.kind.role in (flow.sender, flow.receiver) for pod in self.pods for flow in flows):
            return {}
        everyone = [*placed, *self.members]
        names = [*(f"traffic:{name}" for _, name in self._levels(len(self.case.levels))), "node-traffic"]
        found = dict.fromkeys(names, 0)
        for number, one in enumerate(everyone):
            for index, other in enumerate(everyone):
                roles = (one.pod.kind.role, other.pod.kind.role)
                sent = sum(flow.weight for flow in flows if (flow.sender, flow.receiver) == roles)
                if number == index or one.node == other.node or not sent:
                    continue
                found["node-traffic"] += sent
                here, there = self.nodes[one.node], self.nodes[other.node]
                for level, name in self._levels(len(self.case.levels)):
                    if self.new_domain(here, level) != self.new_domain(there, level):
                        found[f"traffic:{name}"] += sent
        return found

    def is_inside(self, pod: Pod, subgroup: str) -> bool:
        """Whether a pod is in a subgroup or in one inside it."""
        return subgroup in inside(self.gang, pod.kind.subgroup)

    def _tightness_of_subgroups(self, placed: Sequence[Located]) -> Terms:
        """The capacity of the new domains of each subgroup, on its narrowest level, by level."""
        found: dict[int, int] = {}
        for one in self.gang.subgroups:
            names = [name for name in (one.required, one.preferred) if name and not one.topology]
            asked = [depth(self.case, name) for name in names]
            if not asked or not any(self.is_inside(pod, one.name) for pod in self.pods):
                continue
            level = max(asked)
            here = [at for at in placed if self.is_inside(at.pod, one.name)]
            members = [at for at in self.members if self.is_inside(at.pod, one.name)]
            found[level] = found.get(level, 0) + self._tightness(here, level, members)
        return {
            f"subgroup-tightness:{self.case.levels[level - 1][0]}": found[level] for level in sorted(found)
        }

    def _tightness(
        self, placed: Iterable[Located], level: int, members: Sequence[Located] | None = None
    ) -> int:
        new = self._spanned(placed, level, members) - self._spanned((), level, members)
        return sum(
            self._capacities[node.name] for node in self.case.nodes if self.new_domain(node, level) in new
        )

    def _capacity(self, node: Node) -> int:
        kinds = same_needs(self.pods)
        free, devices = self.free[node.name], self.devices[node.name]
        capacity = 0
        for kinds_of_one in kinds:
            if any(may_use(kind, node) for kind in kinds_of_one):
                weight = 1 if len(kinds) == 1 else self._weight(kinds_of_one[0])
                capacity += weight * fit(kinds_of_one[0], free, devices)
        return capacity

    def _weight(self, kind: Kind) -> int:
        asked = {name: need for name, need in needs(kind).items() if need > 0}
        most = {name: max(node.allocatable.get(name, 0) for node in self.case.nodes) for name in asked}
        shares = [1000 * need // most[name] for name, need in asked.items() if most[name]]
        if kind.share:
            shares.append(kind.share // max(1, *(node.shared_gpus for node in self.case.nodes)))
        return max(1, *shares)


def same_needs(pods: Iterable[Pod]) -> list[list[Kind]]:
    """The kinds of the pods, those with equal requests together."""
    found: dict[tuple[object, ...], list[Kind]] = {}
    for pod in pods:
        asked = tuple(sorted(needs(pod.kind).items()))
        found.setdefault((asked, pod.kind.share), []).append(pod.kind)
    return list(found.values())


def cost(kind: Kind, node: Node) -> int:
    """The cost of a pod on a node."""
    taints = sum(100 for taint in node.soft_taints if taint not in kind.tolerated)
    return taints + sum(weight for weight, key, value in kind.preferred if node.labels.get(key) != value)


def ordered(terms: Terms, names: Collection[str]) -> tuple[int, ...]:
    """The values of these terms, in the order of the terms."""
    return tuple(value for name, value in terms.items() if name in names)
