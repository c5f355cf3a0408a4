"""What surrounds a demand in its problem: the rules, the levels that they speak of, the members that run."""

from msgspec import Struct

from phalanx.framework.session import Session
from phalanx.framework.topology import Path
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName
from phalanx.model.rules import Budget, Rule
from phalanx.model.snapshot import Topology


class Frame(Struct, frozen=True):
    """`levels` go down to the deepest that a rule names. `anchors` are domains of members with a node."""

    rules: tuple[Rule, ...]
    topology: Topology | None
    levels: tuple[str, ...]
    anchors: tuple[Path, ...]

    @property
    def scopes(self) -> tuple[frozenset[NodeName] | None, ...]:
        """Per budget, the nodes that it counts, None for all."""
        return tuple(rule.nodes for rule in self.rules if isinstance(rule, Budget))


def frame_of(session: Session, gang: Gang) -> Frame:
    """What all plugins say must hold for the pods of this gang now."""
    rules = tuple(rule for maker in session.plugins.rule_makers for rule in maker.rules(gang, session))
    topology = session.topologies.of(gang)
    levels = tuple(level.name for level in topology.levels[: _depth(rules, topology)]) if topology else ()
    anchors = _anchors(session, gang, topology, len(levels)) if topology and levels else ()
    return Frame(rules=rules, topology=topology, levels=levels, anchors=anchors)


def nodes_of_members(session: Session, gang: Gang) -> list[NodeName]:
    """The nodes of members that stay, be they bound or assumed before or placed in this cycle."""
    stay = [pod.node for pod in gang.members if pod.node is not None and pod.holds_node and not pod.deleting]
    return [*stay, *session.seats_of(gang)]


def _depth(rules: tuple[Rule, ...], topology: Topology) -> int:
    names = [level.name for level in topology.levels]
    wanted = [rule.level for rule in rules if not isinstance(rule, Budget)]
    return max((names.index(level) + 1 for level in wanted if level in names), default=0)


def _anchors(session: Session, gang: Gang, topology: Topology, depth: int) -> tuple[Path, ...]:
    nodes = dict.fromkeys(nodes_of_members(session, gang))
    paths = [session.topologies.path_by_labels(node, topology) for node in nodes]
    return tuple(sorted({path[:depth] for path in paths if path is not None}))
