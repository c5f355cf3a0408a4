"""Bugs with infrastructure faults: mass false alarms, nodes that fail repeatedly, lost nodes."""

from typing import Final

from tests.bugbank.bank import Mutant, Played

_MASS: Final = Played("plays_world_tolerance:most_nodes_are_reported_faulty_at_once")
_AVOIDED: Final = Played("plays_world_tolerance:a_node_that_failed_a_gang_is_avoided")
_FORGIVEN: Final = Played("plays_world_tolerance:failure_scores_decay")

TOLERANCE: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a mass fault of nodes does not open the breaker",
        issues=("NVSentinel circuit breaker",),
        module="phalanx.framework.nodes.health",
        edits={"is_large = len(records) >= config.breaker_nodes_min": "is_large = not records"},
        caught_by=_MASS,
    ),
    Mutant(
        name="members are evicted while the breaker is open",
        issues=("NVSentinel circuit breaker", "Kueue #13042"),
        module="phalanx.framework.session",
        edits={"return not self.health.is_open": "return bool(self.nodes)"},
        caught_by=_MASS,
    ),
    Mutant(
        name="nodes that have just recovered are used while the breaker is open",
        issues=("NVSentinel circuit breaker",),
        module="phalanx.framework.session",
        edits={"(self.faults, self.health.distrusted)": "(self.faults,)"},
        caught_by=_MASS,
    ),
    Mutant(
        name="the breaker never closes by itself",
        issues=("NVSentinel circuit breaker",),
        module="phalanx.framework.nodes.health",
        edits={"wake_at=min(recent[name].since for name in bad) + window": "wake_at=None"},
        caught_by=Played("plays_world_tolerance:the_breaker_closes_by_itself"),
    ),
    Mutant(
        name="the next attempt uses the node that failed the last one",
        issues=("Kueue #14118",),
        module="phalanx.actions.allocate",
        edits={
            "        avoided = self._node_failures.nodes_to_avoid(demand.gang.id)\n        for avoiding": (
                "        avoided = NOWHERE\n        for avoiding"
            )
        },
        caught_by=_AVOIDED,
    ),
    Mutant(
        name="the only remaining node is avoided",
        issues=("Kueue #7376",),
        module="phalanx.actions.allocate",
        edits={
            "for avoiding in (avoided, NOWHERE) if avoided else (NOWHERE,):": "for avoiding in (avoided,):"
        },
        caught_by=Played("plays_world_tolerance:the_only_node_is_not_avoided"),
    ),
    Mutant(
        name="members on a lost node are not replaced",
        issues=("kubernetes #95752", "Kueue #9615"),
        module="phalanx.framework.nodes.tolerations",
        edits={"return not node.is_ready or not tolerated": "return not tolerated"},
        caught_by=Played("plays_world_tolerance:members_on_a_lost_node_are_replaced"),
    ),
    Mutant(
        name="the failure history of nodes is not used",
        issues=("nodes that fail repeatedly (arXiv 2410.21680)",),
        module="phalanx_plugins.node_failure_history",
        edits={"return self._cost if self._costs else None": "return None"},
        caught_by=Played("plays_world_tolerance:nodes_with_fewer_failures_are_preferred"),
    ),
    Mutant(
        name="the failure score of a node never decays",
        issues=("nodes that fail repeatedly (arXiv 2410.21680)", "Kueue #6325"),
        module="phalanx.framework.decay",
        edits={
            "    return left - left * rest // (2 * half_life)\n": "    return amount if left >= 0 else rest\n"
        },
        caught_by=_FORGIVEN,
    ),
)
