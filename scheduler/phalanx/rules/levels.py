"""Levels of the gang: all of its pods in one domain, or in few of them."""

from collections.abc import Iterator

from phalanx.rules.primitives import FewGangDomains, GangDomain, Primitive
from phalanx.rules.problem import Obstacle, PlacedPods, PlacementProblem, Rule


class SameDomain(Rule, frozen=True, tag="same-domain"):
    """All pods of the gang, including running members, are in one domain of this level."""

    level: str
    fixed: bool = False
    """Whether no wider level would do instead."""

    @property
    def gang_level(self) -> str:
        return self.level

    @property
    def obstacle(self) -> Obstacle:
        return Obstacle.AFFINITY if self.fixed else Obstacle.LEVELS

    def lower(self, problem: PlacementProblem) -> Iterator[Primitive]:
        yield GangDomain(problem.levels.index(self.level))

    def violations(self, placed: PlacedPods) -> Iterator[str]:
        depth = placed.problem.levels.index(self.level) + 1
        paths = [placed.classes[one.node].path for one in placed.assignments]
        paths += [anchor.path for anchor in placed.problem.anchors if placed.assignments]
        domains = {path[:depth] for path in paths}
        if any(len(domain) < depth for domain in domains):
            yield f"{self.name}: a pod on a node in no {self.level}"
        if len(domains) > 1:
            yield f"{self.name}: pods in {len(domains)} domains of level {self.level}"

    def softened(self) -> Rule:
        return FewestDomains(self.name, self.level)


class FewestDomains(Rule, frozen=True, tag="fewest-domains"):
    """Preference: as few domains as possible, the widest level first, down to this level."""

    level: str

    @property
    def gang_level(self) -> str:
        return self.level

    def lower(self, problem: PlacementProblem) -> Iterator[Primitive]:
        yield FewGangDomains(problem.levels.index(self.level))
