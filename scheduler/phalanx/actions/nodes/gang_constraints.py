"""The constraints of a gang: its rules, the topology levels that they use, and its running members."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from phalanx.actions.nodes.shared_charges import with_shared_charges
from phalanx.framework.nodes.affinity import label_value
from phalanx.framework.nodes.spread import is_counted
from phalanx.framework.nodes.topology import Path
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang, ancestor_chains
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node
from phalanx.model.pods import Pod
from phalanx.model.snapshot import Topology
from phalanx.model.supplies.supply import SharedAmounts
from phalanx.rules.anchors import NOWHERE, Anchor, RoleAnchor, SubgroupAnchor
from phalanx.rules.budget import Budget, budgets_in
from phalanx.rules.problem import CountedValue, OtherLevel, Rule


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

    counted_values: Mapping[str, CountedValue] = {}
    """Those of the keys that have a value on some nodes with a label only."""

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
    def budgets(self) -> tuple[Budget, ...]:
        """The budgets, in the order to which classes of nodes refer."""
        return budgets_in(self.rules)

    @property
    def scopes(self) -> tuple[frozenset[NodeName] | None, ...]:
        """For each budget, the nodes that it counts; None for all."""
        return tuple([budget.nodes for budget in self.budgets])

    @property
    def gang_depth(self) -> int:
        """The number of levels down to the deepest one that the gang, not only its subgroups, asks for."""
        wanted = [rule.gang_level for rule in self.rules]
        return max([number for number, level in enumerate(self.levels, 1) if level in wanted], default=0)

    @property
    def subgroup_depths(self) -> tuple[int, ...]:
        """The numbers of levels down to those that subgroups ask for."""
        wanted = [rule.subgroup_level for rule in self.rules]
        return tuple([number for number, level in enumerate(self.levels, 1) if level in wanted])

    @property
    def required_depth(self) -> int:
        """The number of levels of which one domain must hold the gang."""
        wanted = [rule.gang_level for rule in self.rules if rule.obstacle is not None]
        return max([number for number, level in enumerate(self.levels, 1) if level in wanted], default=0)

    @property
    def has_affinity_terms(self) -> bool:
        """Whether pods of the gang have affinity or anti-affinity to each other, required or preferred."""
        return any(rule.names_shapes for rule in self.rules)


def constraints_of(session: Session, gang: Gang) -> GangConstraints:
    """The constraints of all plugins for this gang now."""
    rules = session.hooks.rules(gang)
    rules = with_shared_charges(rules, gang, session)
    for supply in session.supplies:
        budgets = _budgets(supply.shared_amounts(gang.members))
        # of several rules that conflict, the first is named: those come last that tell users nothing
        rules = (*budgets, *rules) if supply.counts_for_users else (*rules, *budgets)
    others = {key: level for rule in rules for key, level in rule.other_levels.items()}
    if others:
        members = _Members(session, gang)
        rules = tuple([rule.with_running(members) for rule in rules])
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
        other_levels=others,
        counted_values={key: value for rule in rules for key, value in rule.counted_values.items()},
        other_topologies=_named(session, others),
        role_anchors=_role_anchors(session, gang, topology, len(levels)) if gang.spec.traffic else (),
    )


def _budgets(shared: Iterable[SharedAmounts]) -> Iterator[Budget]:
    """What several nodes have together now of the supplies that the session knows."""
    for amounts in shared:
        yield Budget(amounts.name, remaining=amounts.remaining, nodes=amounts.nodes)


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
    return max([rule.depth(names) for rule in rules], default=0)


def _keys(session: Session, rules: tuple[Rule, ...]) -> tuple[str, ...]:
    """The keys that the rules need; those about pairs need none if each node has its own value."""
    keys = {
        key
        for rule in rules
        for key in rule.keys
        if not (rule.is_about_pairs and _has_unique_values(session, key))
    }
    return tuple(sorted(keys))


def label_values(session: Session, constraints: GangConstraints, node: Node) -> tuple[str, ...]:
    """The values of the keys of a problem for pods that are placed on this node."""
    return tuple([_value(session, constraints, node, key) for key in constraints.keys])


def _value(session: Session, constraints: GangConstraints, node: Node, key: str) -> str:
    counted = constraints.counted_values.get(key)
    if counted is not None:
        return label_value(node.labels, counted.label) if is_counted(node, counted.counted) else ""
    other = constraints.other_levels.get(key)
    if other is None:
        return label_value(node.labels, key)
    value = session.topologies.domain_value(node, other.topology, other.level)
    return value or (node.name if other.counts_nodes else "")


def _named(session: Session, levels: Mapping[str, OtherLevel]) -> tuple[Topology, ...]:
    names = dict.fromkeys(level.topology for level in levels.values())
    topologies = [session.topologies.named(name) for name in names]
    return tuple([topology for topology in topologies if topology is not None])


class _Members:
    """The members of a gang that have a node of the session."""

    def __init__(self, session: Session, gang: Gang) -> None:
        self._topologies, self._subgroups = session.topologies, ancestor_chains(gang.subgroups)
        assigned = _assigned_members(session, gang)
        self._assigned = [(pod.subgroup, node) for pod, node in assigned if node in session.nodes]

    def nodes(self, subgroup: str) -> list[NodeName]:
        """The node of each member of the subgroup that has one."""
        return [node for name, node in self._assigned if subgroup in self._subgroups.get(name, ())]

    def value(self, node: NodeName, topology: str, level: str) -> str:
        """The domain that the labels of the node name; empty for none."""
        return self._topologies.member_value(node, topology, level)


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
