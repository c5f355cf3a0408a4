"""The constraints of a gang: its rules, the topology levels that they use, and its running members."""

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct

from phalanx.framework.nodes.topology import Path
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang, ancestor_chains
from phalanx.model.names import NodeName
from phalanx.model.pods import Pod
from phalanx.model.rules import (
    AffinityRule,
    Budget,
    FewestDomains,
    PodAffinityRule,
    PodAntiAffinityRule,
    Rule,
    SameDomain,
)
from phalanx.model.snapshot import Topology
from phalanx.solver.problem import SubgroupAnchor


class GangConstraints(Struct, frozen=True):
    """The rules that plugins make for a gang, and what the problem needs to express them."""

    rules: tuple[Rule, ...]
    topology: Topology | None

    levels: tuple[str, ...]
    """Levels of the topology, down to the deepest one in a rule."""

    anchors: tuple[Path, ...]
    """Domains of members with a node."""

    subgroup_anchors: tuple[SubgroupAnchor, ...]

    ancestor_chains: Mapping[str, tuple[str, ...]]
    """For each subgroup, its own name and those of the subgroups around it."""

    keys: tuple[str, ...] = ()
    """Node labels of affinity rules whose values several nodes share."""

    @property
    def scopes(self) -> tuple[frozenset[NodeName] | None, ...]:
        """For each budget, the nodes that it counts; None for all."""
        return tuple(rule.nodes for rule in self.rules if isinstance(rule, Budget))

    @property
    def is_about_whole_gang(self) -> bool:
        """Whether a rule or preference about domains concerns the gang and not only its subgroups."""
        return any(isinstance(rule, SameDomain | FewestDomains) for rule in self.rules)

    @property
    def has_affinity_terms(self) -> bool:
        """Whether pods of the gang have affinity or anti-affinity to each other."""
        return any(isinstance(rule, AffinityRule) for rule in self.rules)


def constraints_of(session: Session, gang: Gang) -> GangConstraints:
    """The constraints of all plugins for this gang now."""
    rules = session.hooks.rules(gang)
    topology = session.topologies.of(gang)
    levels = tuple(level.name for level in topology.levels[: _depth(rules, topology)]) if topology else ()
    has_levels = topology is not None and bool(levels)
    return GangConstraints(
        rules=rules,
        topology=topology,
        levels=levels,
        anchors=_anchors(session, gang, topology, len(levels)) if topology and has_levels else (),
        subgroup_anchors=_subgroup_anchors(session, gang, topology) if topology and has_levels else (),
        ancestor_chains=ancestor_chains(gang.subgroups),
        keys=_keys(session, rules),
    )


def allowed_domains(session: Session, constraints: GangConstraints) -> dict[NodeName, Path]:
    """The domain of the required level of each node; nodes in other domains than the members are left out."""
    wanted = [
        constraints.levels.index(rule.level) + 1 for rule in constraints.rules if isinstance(rule, SameDomain)
    ]
    depth = max(wanted, default=0)
    if not depth or constraints.topology is None:
        return dict.fromkeys(session.nodes, ())
    paths = session.topologies.paths(constraints.topology)
    return {
        node: path[:depth]
        for node, path in paths.items()
        if len(path) >= depth and all(anchor[:depth] == path[:depth] for anchor in constraints.anchors)
    }


def nodes_of_members(session: Session, gang: Gang) -> list[NodeName]:
    """The nodes of staying members, whether bound, assumed, or placed in this cycle."""
    stay = [pod.node for pod in gang.members if pod.node is not None and pod.holds_node and not pod.deleting]
    return [*stay, *session.assigned_nodes(gang)]


def _depth(rules: tuple[Rule, ...], topology: Topology) -> int:
    names = [level.name for level in topology.levels]
    wanted = [rule.level for rule in rules if not isinstance(rule, Budget | AffinityRule)]
    return max((names.index(level) + 1 for level in wanted if level in names), default=0)


def _keys(session: Session, rules: tuple[Rule, ...]) -> tuple[str, ...]:
    """The node labels that affinity rules need; anti-affinity needs none if each node has its own value."""
    keys = {
        rule.key
        for rule in rules
        if isinstance(rule, PodAffinityRule)
        or (isinstance(rule, PodAntiAffinityRule) and not _has_unique_values(session, rule.key))
    }
    return tuple(sorted(keys))


def _has_unique_values(session: Session, key: str) -> bool:
    return session.affinity_index is not None and session.affinity_index.has_unique_values(key)


def _anchors(session: Session, gang: Gang, topology: Topology, depth: int) -> tuple[Path, ...]:
    nodes = dict.fromkeys(nodes_of_members(session, gang))
    paths = [session.topologies.path_by_labels(node, topology) for node in nodes]
    return tuple(sorted({path[:depth] for path in paths if path is not None}))


def _subgroup_anchors(session: Session, gang: Gang, topology: Topology) -> tuple[SubgroupAnchor, ...]:
    """The domains of members of subgroups, whether bound, assumed, or placed in this cycle."""
    ancestors = ancestor_chains(gang.subgroups)
    counts: Counter[tuple[str, Path]] = Counter()
    for pod, node in _assigned_members(session, gang) if ancestors else ():
        path = session.topologies.path_by_labels(node, topology)
        for name in ancestors.get(pod.subgroup, ()) if path is not None else ():
            counts[name, path or ()] += 1
    return tuple(SubgroupAnchor(name, path, counts[name, path]) for name, path in sorted(counts))


def _assigned_members(session: Session, gang: Gang) -> Iterator[tuple[Pod, NodeName]]:
    placed = {
        bind.pod: bind.node
        for placement in session.placements
        if placement.gang == gang.id
        for bind in placement.binds
    }
    for pod in gang.members:
        if pod.node is not None and pod.holds_node and not pod.deleting:
            yield pod, pod.node
        elif pod.uid in placed:
            yield pod, placed[pod.uid]
