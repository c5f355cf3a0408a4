"""Bugs about racks, blocks and hosts: domains that are mixed up, requests that are ignored."""

from typing import Final

from tests.bugbank.bank import Mutant, Played

_PATHS: Final = "phalanx.framework.nodes.topology"
_APPEND: Final = "        values.append(value)\n"

TOPOLOGY: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="domains are recognised by their last label only",
        issues=("Kueue #14451",),
        module=_PATHS,
        edits={_APPEND: "        values = [value] * (len(values) + 1)\n"},
        caught_by=Played("plays_world_topology:racks_of_one_name_are_two"),
    ),
    Mutant(
        name="domains are matched by a prefix",
        issues=("Kueue #14451",),
        module=_PATHS,
        edits={_APPEND: '        values.append(value[: len("r1")])\n'},
        caught_by=Played("plays_world_topology:racks_with_a_common_prefix_are_two"),
    ),
    Mutant(
        name="a domain named like one around it is left out",
        issues=("Kueue #14232",),
        module=_PATHS,
        edits={"        if not value:\n": "        if not value or value in values:\n"},
        caught_by=Played("plays_world_topology:a_host_is_named_like_its_rack"),
    ),
    Mutant(
        name="nodes without a label share a domain",
        issues=("missing topology labels",),
        module=_PATHS,
        edits={"node.labels.get(level.node_label)": 'node.labels.get(level.node_label, "unknown")'},
        caught_by=Played("plays_world_topology:nodes_without_a_rack_are_in_none"),
    ),
    Mutant(
        name="a required level is taken for a preference",
        issues=("Kueue #7899",),
        module="phalanx_plugins.topology",
        edits={'SameDomain(name=f"required': 'FewestDomains(name=f"required'},
        caught_by=Played("plays_world_topology:racks_with_a_common_prefix_are_two"),
    ),
    Mutant(
        name="a lost member is made again in another rack",
        issues=("Kueue #12735", "Kueue #7899"),
        module="phalanx.actions.nodes.gang_constraints",
        edits={"_anchors(session, gang, topology, len(levels)) if topology and has_levels else ()": "()"},
        caught_by=Played("plays_world_topology:a_lost_member_comes_back_beside_the_others"),
    ),
    Mutant(
        name="labels are believed of a node whose place is unknown",
        issues=("NodeNotInNWTopologyCM (KWOK talk)",),
        module=_PATHS,
        edits={"() if node.has_unknown_topology else domain_path": "domain_path"},
        caught_by=Played("plays_world_topology:an_unknown_place_is_no_place"),
    ),
    Mutant(
        name="the leader takes the capacity of its workers",
        issues=("Kueue #13766",),
        module="phalanx.solver.single.best_fit",
        edits={"        left -= taken[:, None] * requests[role]\n": ""},
        caught_by=Played("plays_world_topology:leaders_and_workers_share_the_capacity"),
    ),
    Mutant(
        name="levels of nodes that come later stay unknown",
        issues=("topology labels that change",),
        module="phalanx.cache.cluster_objects",
        edits={"or self._implied[0] is not declared or self._implied[1] is not nodes": ""},
        caught_by=Played("plays_world_topology:racks_come_after_the_first_look"),
    ),
)
