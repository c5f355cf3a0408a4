"""The constraints of a gang: its rules, the topology levels that they use, and its running members."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.nodes.shared_charges import with_shared_charges
from phalanx.framework.nodes.affinity import label_value
from phalanx.framework.nodes.topology import Path
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang, ancestor_chains
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node
from phalanx.model.pods import Pod
from phalanx.model.rules import (
    AffinityRule,
    Budget,
    FewestDomains,
    OtherTopologyDomain,
    OtherTopologyRule,
    PodAffinityRule,
    PodAntiAffinityRule,
    PodPairs,
    RoleAnchor,
    Rule,
    SameDomain,
    SubgroupFewest,
    SubgroupRule,
    TopologySpreadRule,
    Traffic,
)
from phalanx.model.snapshot import Topology
from phalanx.solver.problem import NOWHERE, Anchor, SubgroupAnchor


class OtherLevel(Struct, frozen=True):
    """A level of another topology than the gang's, as a key of the problem."""

    topology: str
    level: str
    counts_nodes: bool
    """Whether a node in no domain of the level is a domain of its own."""


class GangConstraints(Struct, frozen=True):
    """The rules that plugins make for a gang, and what the problem needs to express them."""

    rules: tuple[Rule, ...]
    topology: Topology | None

    levels: tuple[str, ...]
    """Levels of the topology, down to the deepest one in a rule."""

    anchors: tuple[Anchor, ...]
    """Where members with a node are."""

    subgroup_anchors: tuple[SubgroupAnchor, ...]

    ancestor_chains: Mapping[str, tuple[str, ...]]
    """For each subgroup, its own name and those of the subgroups around it."""

    keys: tuple[str, ...] = ()
    """Node labels of affinity rules whose values several nodes share, and levels of other topologies."""

    other_levels: Mapping[str, OtherLevel] = {}
    """Those of the keys that are levels of other topologies."""

    other_topologies: tuple[Topology, ...] = ()

    role_anchors: tuple[RoleAnchor, ...] = ()
    """For a gang with traffic: where members with a node are, by role."""

    @property
    def occupied_nodes(self) -> tuple[NodeName, ...]:
        """The nodes of members that are domains of their own; with traffic each node is one."""
        anchors: tuple[Anchor | SubgroupAnchor | RoleAnchor, ...] = (
            *self.anchors,
            *self.subgroup_anchors,
            *self.role_anchors,
        )
        return tuple(dict.fromkeys([anchor.node for anchor in anchors if anchor.node]))

    @property
    def scopes(self) -> tuple[frozenset[NodeName] | None, ...]:
        """For each budget, the nodes that it counts; None for all."""
        return tuple(rule.nodes for rule in self.rules if isinstance(rule, Budget))

    @property
    def gang_depth(self) -> int:
        """The number of levels down to the deepest one that the gang, not only its subgroups, asks for."""
        wanted = [rule.level for rule in self.rules if isinstance(rule, SameDomain | FewestDomains)]
        return max([number for number, level in enumerate(self.levels, 1) if level in wanted], default=0)

    @property
    def subgroup_depths(self) -> tuple[int, ...]:
        """The numbers of levels down to those that subgroups ask for."""
        wanted = [rule.level for rule in self.rules if isinstance(rule, SubgroupRule | SubgroupFewest)]
        return tuple([number for number, level in enumerate(self.levels, 1) if level in wanted])

    @property
    def required_depth(self) -> int:
        """The number of levels of which one domain must hold the gang."""
        wanted = [rule.level for rule in self.rules if isinstance(rule, SameDomain)]
        return max([number for number, level in enumerate(self.levels, 1) if level in wanted], default=0)

    @property
    def has_affinity_terms(self) -> bool:
        """Whether pods of the gang have affinity or anti-affinity to each other, required or preferred."""
        return any(isinstance(rule, AffinityRule | PodPairs) for rule in self.rules)


def constraints_of(session: Session, gang: Gang) -> GangConstraints:
    """The constraints of all plugins for this gang now."""
    rules = with_shared_charges(session.hooks.rules(gang), gang, session)
    rules = (*rules, *session.devices.budgets(gang))
    others = [rule for rule in rules if isinstance(rule, OtherTopologyRule)]
    if others:
        rules = tuple([_with_running(session, gang, rule) for rule in rules])
    topology = session.topologies.of(gang)
    levels = tuple(level.name for level in topology.levels[: _depth(rules, topology)]) if topology else ()
    has_levels = topology is not None and bool(levels)
    return GangConstraints(
        rules=rules,
        topology=topology,
        levels=levels,
        anchors=_anchors(session, gang, topology, len(levels)) if topology and has_levels else (),
        subgroup_anchors=_subgroup_anchors(session, gang, topology, len(levels))
        if topology and has_levels
        else (),
        ancestor_chains=ancestor_chains(gang.subgroups),
        keys=_keys(session, rules),
        other_levels=_other_levels(others),
        other_topologies=_named(session, others),
        role_anchors=_role_anchors(session, gang, topology, len(levels)) if gang.spec.traffic else (),
    )


def allowed_domains(session: Session, constraints: GangConstraints) -> dict[NodeName, Path]:
    """The domain of the required level of each node; nodes in other domains than the members are left out."""
    depth = constraints.required_depth
    if not depth or constraints.topology is None:
        return dict.fromkeys(session.nodes, ())
    paths = session.topologies.paths(constraints.topology)
    return {
        node: path[:depth]
        for node, path in paths.items()
        if len(path) >= depth and all(anchor.path[:depth] == path[:depth] for anchor in constraints.anchors)
    }


def nodes_of_members(session: Session, gang: Gang) -> list[NodeName]:
    """The nodes of staying members, whether bound, assumed, or placed in this cycle."""
    stay = [pod.node for pod in gang.members if pod.node is not None and pod.holds_node and not pod.deleting]
    return [*stay, *session.assigned_nodes(gang)]


def _depth(rules: tuple[Rule, ...], topology: Topology) -> int:
    names = [level.name for level in topology.levels]
    if any(isinstance(rule, Traffic) for rule in rules):
        return len(names)
    wanted = [
        rule.level
        for rule in rules
        if not isinstance(rule, Budget | AffinityRule | OtherTopologyRule | Traffic | PodPairs)
    ]
    return max((names.index(level) + 1 for level in wanted if level in names), default=0)


def _keys(session: Session, rules: tuple[Rule, ...]) -> tuple[str, ...]:
    """The node labels that affinity rules need; all but affinity need none if each node has its own value."""
    keys = {
        rule.key
        for rule in rules
        if isinstance(rule, PodAffinityRule | TopologySpreadRule)
        or (isinstance(rule, PodAntiAffinityRule | PodPairs) and not _has_unique_values(session, rule.key))
    }
    keys.update(_other_levels([rule for rule in rules if isinstance(rule, OtherTopologyRule)]))
    return tuple(sorted(keys))


def label_values(session: Session, constraints: GangConstraints, node: Node) -> tuple[str, ...]:
    """The values of the keys of a problem for pods that are placed on this node."""
    return tuple([_value(session, constraints, node, key) for key in constraints.keys])


def _value(session: Session, constraints: GangConstraints, node: Node, key: str) -> str:
    other = constraints.other_levels.get(key)
    if other is None:
        return label_value(node.labels, key)
    value = session.topologies.domain_value(node, other.topology, other.level)
    return value or (node.name if other.counts_nodes else "")


def _other_levels(rules: Iterable[OtherTopologyRule]) -> dict[str, OtherLevel]:
    found = {}
    for rule in rules:
        if isinstance(rule, OtherTopologyDomain):
            found[rule.key] = OtherLevel(rule.topology, rule.level, counts_nodes=False)
        else:
            for key, level in zip(rule.keys, rule.levels, strict=True):
                found[key] = OtherLevel(rule.topology, level, counts_nodes=True)
    return found


def _named(session: Session, rules: Iterable[OtherTopologyRule]) -> tuple[Topology, ...]:
    found = [session.topologies.named(name) for name in dict.fromkeys(rule.topology for rule in rules)]
    return tuple([topology for topology in found if topology is not None])


def _with_running(session: Session, gang: Gang, rule: Rule) -> Rule:
    """The rule with the members of its subgroup that have a node, by the labels of these nodes."""
    if not isinstance(rule, OtherTopologyRule):
        return rule
    around, topologies = ancestor_chains(gang.subgroups), session.topologies
    nodes = [
        node
        for pod, node in _assigned_members(session, gang)
        if rule.subgroup in around.get(pod.subgroup, ()) and node in session.nodes
    ]
    if isinstance(rule, OtherTopologyDomain):
        counts = Counter(topologies.member_value(node, rule.topology, rule.level) for node in nodes)
        return replace(rule, existing=tuple(sorted(counts.items())))
    per_level = [
        {topologies.member_value(node, rule.topology, level) or node for node in nodes}
        for level in rule.levels
    ]
    return replace(
        rule,
        existing=tuple([tuple(sorted(values)) for values in per_level]),
        open=tuple([tuple(sorted(values.union(nodes))) for values in per_level]),
    )


def _has_unique_values(session: Session, key: str) -> bool:
    return session.affinity_index is not None and session.affinity_index.has_unique_values(key)


def _anchors(session: Session, gang: Gang, topology: Topology, depth: int) -> tuple[Anchor, ...]:
    places = {
        _place(session, node, topology, depth) for node in dict.fromkeys(nodes_of_members(session, gang))
    }
    return tuple(Anchor(*place) for place in sorted(place for place in places if place is not None))


def _place(session: Session, node: NodeName, topology: Topology, depth: int) -> tuple[Path, NodeName] | None:
    """The domain of a member on this node by its labels; None for an unknown node.

    The node is named where it is a domain of its own for new pods.
    """
    path = session.topologies.path_by_labels(node, topology)
    if path is None:
        return None
    return path[:depth], NOWHERE if len(session.topologies.path(node, topology)) >= depth else node


def _subgroup_anchors(
    session: Session, gang: Gang, topology: Topology, depth: int
) -> tuple[SubgroupAnchor, ...]:
    """Where members of subgroups are, whether bound, assumed, or placed in this cycle."""
    ancestors = ancestor_chains(gang.subgroups)
    counts: Counter[tuple[str, Path, NodeName]] = Counter()
    for pod, node in _assigned_members(session, gang) if ancestors else ():
        place = _place(session, node, topology, depth)
        if place is not None:
            counts.update((name, *place) for name in ancestors.get(pod.subgroup, ()))
    return tuple(
        SubgroupAnchor(name, path, count, node) for (name, path, node), count in sorted(counts.items())
    )


def _role_anchors(
    session: Session, gang: Gang, topology: Topology | None, depth: int
) -> tuple[RoleAnchor, ...]:
    """Where members with a node are, by role; in the domains that new pods on their nodes would have."""
    counts = Counter((pod.role, node) for pod, node in _assigned_members(session, gang))
    found = [
        RoleAnchor(role, session.topologies.path(node, topology)[:depth] if topology else (), node, count)
        for (role, node), count in sorted(counts.items())
        if node in session.nodes
    ]
    return tuple(found)


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
