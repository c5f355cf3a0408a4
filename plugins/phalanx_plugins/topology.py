"""Keeps a gang together on the network.

`required` puts all members, those that already run included, into one domain of that level. `preferred`
asks for the fewest and tightest domains down to that level. A subgroup may require a level for its own
members, nested ones included; with a `segmentSize` each domain of that level holds a multiple of so many of
them instead. It may prefer a level for them too: what the whole gang prefers comes first. A level that the
topology does not have is refused.
"""

from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang, SubgroupSpec
from phalanx.model.reasons import Objection, Reason
from phalanx.model.rules import (
    FewestDomains,
    Rule,
    SameDomain,
    SubgroupDomain,
    SubgroupFewest,
    SubgroupSegments,
)


class TopologyLevels(Plugin):
    """Turns the topology wish of a gang into rules."""

    name = "topology"

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        """Refuse a topology or a level that does not exist, and list those that do."""
        wish = gang.topology
        wanted = [wish.required, wish.preferred]
        wanted += [level for part in gang.subgroups for level in (part.required, part.preferred)]
        if not any(wanted):
            return None
        topology = view.topologies.of(gang)
        if topology is None:
            name = wish.name or view.config.default_topology or ""
            return _unknown(f"topology {name} does not exist", "topologies", view.topologies.names())
        known = tuple(level.name for level in topology.levels)
        for level in wanted:
            if level is not None and level not in known:
                return _unknown(f"level {level} does not exist in the topology", "levels", known)
        return None

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        """At most one hard rule and one wish for the gang, and the same for each subgroup."""
        wish = gang.topology
        rules: list[Rule] = []
        if wish.required is not None:
            rules.append(SameDomain(name=f"required level {wish.required}", level=wish.required))
        if wish.preferred is not None:
            rules.append(FewestDomains(name=f"preferred level {wish.preferred}", level=wish.preferred))
        rules += [_rule(part, part.required) for part in gang.subgroups if part.required is not None]
        rules += [_wish(part, part.preferred) for part in gang.subgroups if part.preferred is not None]
        return tuple(rules)


def _rule(part: SubgroupSpec, level: str) -> Rule:
    if part.segment:
        name = f"segments of {part.segment} of subgroup {part.name} in one {level}"
        return SubgroupSegments(name=name, subgroup=part.name, level=level, size=part.segment)
    return SubgroupDomain(name=f"subgroup {part.name} in one {level}", subgroup=part.name, level=level)


def _wish(part: SubgroupSpec, level: str) -> Rule:
    name = f"preferred level {level} of subgroup {part.name}"
    return SubgroupFewest(name=name, subgroup=part.name, level=level)


def _unknown(message: str, kind: str, known: tuple[str, ...]) -> Objection:
    listed = ", ".join(known) or "none"
    return Objection(
        reason=Reason.TOPOLOGY_NOT_FOUND,
        message=f"{message}; known {kind}: {listed}",
        next_step=f"Set one of the known {kind} in spec.topology, or create the Topology",
    )
