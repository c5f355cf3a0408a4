"""Bugs about faults of infrastructure: mass false alarms, nodes that fail again, lost nodes."""

from typing import Final

from tests.bugbank.bank import Mutant, Played

_MASS: Final = Played("plays_world_tolerance:most_nodes_seem_faulty_at_once")
_AVOIDED: Final = Played("plays_world_tolerance:a_node_that_failed_a_gang_is_avoided")
_FORGIVEN: Final = Played("plays_world_tolerance:what_has_failed_long_ago_is_forgiven")

TOLERANCE: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="most nodes turn bad at once and nothing holds back",
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
        name="nodes that have just turned well are trusted while the breaker is open",
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
        name="the next try goes to the node that failed the last one",
        issues=("Kueue #14118",),
        module="phalanx.actions.allocate",
        edits={
            "        avoided = self._node_failures.nodes_to_avoid(demand.gang.id)\n        for avoiding": (
                "        avoided = _NOWHERE\n        for avoiding"
            )
        },
        caught_by=_AVOIDED,
    ),
    Mutant(
        name="the only node that is left is avoided",
        issues=("Kueue #7376",),
        module="phalanx.actions.allocate",
        edits={
            "for avoiding in (avoided, _NOWHERE) if avoided else (_NOWHERE,):": "for avoiding in (avoided,):"
        },
        caught_by=Played("plays_world_tolerance:the_only_node_is_not_avoided"),
    ),
    Mutant(
        name="members stay on a silent node",
        issues=("kubernetes #95752", "Kueue #9615"),
        module="phalanx.framework.nodes.tolerations",
        edits={"return not node.is_ready or not tolerated": "return not tolerated"},
        caught_by=Played("plays_world_tolerance:a_lost_node_is_left"),
    ),
    Mutant(
        name="nobody remembers which nodes fail",
        issues=("nodes that fail repeatedly (arXiv 2410.21680)",),
        module="phalanx_plugins.node_failure_history",
        edits={"return self._cost if self._costs else None": "return None"},
        caught_by=Played("plays_world_tolerance:work_goes_where_less_has_failed"),
    ),
    Mutant(
        name="a node that failed once is never forgiven",
        issues=("nodes that fail repeatedly (arXiv 2410.21680)", "Kueue #6325"),
        module="phalanx.framework.decay",
        edits={
            "    return left - left * rest // (2 * half_life)\n": "    return amount if left >= 0 else rest\n"
        },
        caught_by=_FORGIVEN,
    ),
)
