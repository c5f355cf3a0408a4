"""Levels of subgroups: all pods of one in a domain, whole segments of one in each domain, or few domains."""

from collections.abc import Iterator

from phalanx.rules.primitives import Primitive, SubgroupConstraint, SubgroupPreference
from phalanx.rules.problem import Obstacle, PlacedPods, PlacementProblem, Rule


class SubgroupRule(Rule, frozen=True):
    """A hard rule about a subgroup, including nested ones."""

    obstacle = Obstacle.LEVELS

    subgroup: str
    level: str

    @property
    def subgroup_level(self) -> str:
        return self.level

    @property
    def size(self) -> int:
        """Each domain holds a multiple of it; 0: one domain holds all pods."""
        return 0

    def lower(self, problem: PlacementProblem) -> Iterator[Primitive]:
        level = problem.levels.index(self.level)
        anchors: dict[tuple[str, ...], int] = {}
        for anchor in problem.subgroup_anchors:
            if anchor.subgroup == self.subgroup:
                path = anchor.path[: level + 1]
                anchors[path] = anchors.get(path, 0) + anchor.count
        yield SubgroupConstraint(self.subgroup, level, problem.roles_in(self.subgroup), self.size, anchors)

    def _by_domain(self, placed: PlacedPods) -> dict[tuple[str, ...], int]:
        """Pods of the subgroup, running members included, by domain path; shorter where there is no
        domain."""
        depth = placed.problem.levels.index(self.level) + 1
        pods: dict[tuple[str, ...], int] = {}
        for one in placed.of_subgroup(self.subgroup):
            path = placed.classes[one.node].path[:depth]
            pods[path] = pods.get(path, 0) + one.count
        for anchor in placed.problem.subgroup_anchors if pods else ():
            if anchor.subgroup == self.subgroup:
                pods[anchor.path[:depth]] = pods.get(anchor.path[:depth], 0) + anchor.count
        return pods


class SubgroupDomain(SubgroupRule, frozen=True, tag="subgroup-domain"):
    """All pods of this subgroup, including running members, are in one domain of this level."""

    def violations(self, placed: PlacedPods) -> Iterator[str]:
        pods = self._by_domain(placed)
        if any(len(path) <= placed.problem.levels.index(self.level) for path in pods):
            yield f"{self.name}: a pod on a node in no {self.level}"
        if len(pods) > 1:
            yield f"{self.name}: pods in {len(pods)} domains of level {self.level}"

    def softened(self) -> Rule:
        return SubgroupFewest(self.name, self.subgroup, self.level)


class SubgroupSegments(SubgroupRule, frozen=True, tag="subgroup-segments"):
    """Each domain of this level with pods of the subgroup holds a multiple of `size` of them."""

    size: int

    def violations(self, placed: PlacedPods) -> Iterator[str]:
        depth, pods = placed.problem.levels.index(self.level) + 1, self._by_domain(placed)
        nodes = {one.node for one in placed.of_subgroup(self.subgroup)}
        for path in sorted({placed.classes[node].path[:depth] for node in nodes}):
            if len(path) < depth:
                yield f"{self.name}: a pod on a node in no {self.level}"
            elif pods[path] % self.size:
                yield f"{self.name}: {pods[path]} pods in {'/'.join(path)}, no multiple of {self.size}"


class SubgroupFewest(Rule, frozen=True, tag="subgroup-fewest"):
    """Preference: this subgroup, with its running members, is in as few domains as possible."""

    subgroup: str
    level: str

    @property
    def subgroup_level(self) -> str:
        return self.level

    def lower(self, problem: PlacementProblem) -> Iterator[Primitive]:
        anchors = tuple([anchor for anchor in problem.subgroup_anchors if anchor.subgroup == self.subgroup])
        depth = problem.levels.index(self.level) + 1
        yield SubgroupPreference(self.subgroup, depth, problem.roles_in(self.subgroup), anchors)
