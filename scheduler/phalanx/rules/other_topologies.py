"""Subgroups and levels of another Topology than the gang's; these are keys of the problem, as labels are."""

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from phalanx.rules.primitives import FewValues, Primitive, ValueDomain
from phalanx.rules.problem import (
    Obstacle,
    OtherLevel,
    PlacedPods,
    PlacementProblem,
    Rule,
    RunningMembers,
)


class OtherTopologyDomain(Rule, frozen=True, tag="other-topology-domain"):
    """As SubgroupDomain, with a size as SubgroupSegments: for a level of another Topology than the gang's."""

    obstacle = Obstacle.LEVELS

    subgroup: str
    topology: str
    level: str
    size: int = 0
    """0: one domain holds all pods. Otherwise each domain with pods holds a multiple of it."""
    existing: tuple[tuple[str, int], ...] = ()
    """Running members by domain, as a value of `key`; empty for a node in no domain."""

    @property
    def key(self) -> str:
        """What names the domains of nodes, as a node label does."""
        return _key(self.topology, self.level)

    @property
    def other_levels(self) -> Mapping[str, OtherLevel]:
        return {self.key: OtherLevel(self.topology, self.level, counts_nodes=False)}

    def with_running(self, members: RunningMembers) -> Rule:
        nodes = members.nodes(self.subgroup)
        counts = Counter(members.value(node, self.topology, self.level) for node in nodes)
        return replace(self, existing=tuple(sorted(counts.items())))

    def lower(self, problem: PlacementProblem) -> Iterator[Primitive]:
        roles = problem.roles_in(self.subgroup)
        yield ValueDomain(problem.keys.index(self.key), roles, self.size, self.existing)

    def violations(self, placed: PlacedPods) -> Iterator[str]:
        number = placed.problem.keys.index(self.key)
        pods: Counter[str] = Counter()
        for one in placed.of_subgroup(self.subgroup):
            pods[placed.classes[one.node].label_values[number]] += one.count
        there = Counter(dict(self.existing))
        if "" in pods:
            yield f"{self.name}: a pod on a node in no {self.level}"
        if self.size:
            for value, count in sorted(pods.items()):
                if value and (count + there[value]) % self.size:
                    yield f"{self.name}: {count + there[value]} pods in {value}, no multiple of {self.size}"
        elif pods and len(pods.keys() | there.keys()) > 1:
            yield f"{self.name}: pods in {len(pods.keys() | there.keys())} domains of level {self.level}"


class OtherTopologyFewest(Rule, frozen=True, tag="other-topology-fewest"):
    """As SubgroupFewest, for levels of another Topology than the gang's."""

    subgroup: str
    topology: str
    levels: tuple[str, ...]
    """From the widest level of the Topology down to the preferred one."""
    existing: tuple[tuple[str, ...], ...] = ()
    """Per level, the domains of running members, as values of its key."""
    open: tuple[tuple[str, ...], ...] = ()
    """Per level, domains whose use adds none: those of `existing`, and nodes that running members are on."""

    def lower(self, problem: PlacementProblem) -> Iterator[Primitive]:
        nowhere = ((),) * len(self.levels)
        yield FewValues(
            keys=tuple([problem.keys.index(key) for key in self.keys]),
            names=tuple([f"{self.topology}/{level}" for level in self.levels]),
            roles=problem.roles_in(self.subgroup),
            anchored=tuple(map(frozenset, self.existing or nowhere)),
            open=tuple(map(frozenset, self.open or nowhere)),
        )

    @property
    def other_levels(self) -> Mapping[str, OtherLevel]:
        """A node in no domain has a value of its own."""
        levels = [OtherLevel(self.topology, level, counts_nodes=True) for level in self.levels]
        return {f"{_key(self.topology, each.level)} or node": each for each in levels}

    def with_running(self, members: RunningMembers) -> Rule:
        nodes = members.nodes(self.subgroup)
        domains = [
            {members.value(node, self.topology, level) or node for node in nodes} for level in self.levels
        ]
        return replace(
            self,
            existing=tuple([tuple(sorted(values)) for values in domains]),
            open=tuple([tuple(sorted(values.union(nodes))) for values in domains]),
        )


def _key(topology: str, level: str) -> str:
    """The key of a level of a topology. No node label has a space."""
    return f"{topology} {level}"
