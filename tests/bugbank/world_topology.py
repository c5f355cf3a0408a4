"""Bugs with racks, blocks and hosts: confused domains, ignored constraints."""

from typing import Final

from tests.bugbank.bank import Mutant, Played

_PATHS: Final = "phalanx.framework.nodes.topology"
_APPEND: Final = "        values.append(value)\n"

TOPOLOGY: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="domains are identified by their last label only",
        issues=("Kueue #14451",),
        module=_PATHS,
        edits={_APPEND: "        values = [value] * (len(values) + 1)\n"},
        caught_by=Played("plays_world_topology:racks_of_the_same_name_are_distinct"),
    ),
    Mutant(
        name="domains are matched by a prefix",
        issues=("Kueue #14451",),
        module=_PATHS,
        edits={_APPEND: '        values.append(value[: len("r1")])\n'},
        caught_by=Played("plays_world_topology:racks_with_a_common_prefix_are_distinct"),
    ),
    Mutant(
        name="a domain with the name of its parent is ignored",
        issues=("Kueue #14232",),
        module=_PATHS,
        edits={"        if value is None:\n": "        if value is None or value in values:\n"},
        caught_by=Played("plays_world_topology:a_host_has_the_name_of_its_rack"),
    ),
    Mutant(
        name="nodes without a label share a domain",
        issues=("missing topology labels",),
        module=_PATHS,
        edits={"node.labels.get(level.node_label)": 'node.labels.get(level.node_label, "unknown")'},
        caught_by=Played("plays_world_topology:nodes_without_a_rack_label_are_in_no_rack"),
    ),
    Mutant(
        name="a required level is treated as preferred",
        issues=("Kueue #7899",),
        module="phalanx_plugins.topology",
        edits={'SameDomain(name=f"required': 'FewestDomains(name=f"required'},
        caught_by=Played("plays_world_topology:racks_with_a_common_prefix_are_distinct"),
    ),
    Mutant(
        name="a replaced member is placed in another rack",
        issues=("Kueue #12735", "Kueue #7899"),
        module="phalanx.actions.nodes.gang_constraints",
        edits={"_anchors(session, gang, topology, len(levels)) if topology and has_levels else ()": "()"},
        caught_by=Played("plays_world_topology:a_lost_member_is_replaced_in_its_rack"),
    ),
    Mutant(
        name="topology labels are used for a node with unknown topology",
        issues=("NodeNotInNWTopologyCM (KWOK talk)",),
        module=_PATHS,
        edits={"() if node.has_unknown_topology else domain_path": "domain_path"},
        caught_by=Played("plays_world_topology:a_node_with_unknown_topology_is_in_no_rack"),
    ),
    Mutant(
        name="a leader is given the capacity of its workers",
        issues=("Kueue #13766",),
        module="phalanx.solver.single.best_fit",
        edits={"        left -= taken[:, None] * requests[role]\n": ""},
        caught_by=Played("plays_world_topology:leaders_and_workers_share_the_capacity"),
    ),
    Mutant(
        name="topology levels of nodes that are added later stay unknown",
        issues=("topology labels that change",),
        module="phalanx.cache.cluster_objects",
        edits={"or any(map(is_not, self._implied[0], read))": ""},
        caught_by=Played("plays_world_topology:racks_are_added_later"),
    ),
)
