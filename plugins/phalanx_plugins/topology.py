"""Keeps a gang together on the network.

`required` places all members, including running ones, in one domain of that level. `preferred` uses as few
and as tight domains as possible down to that level. A subgroup may require a level for its members, including
those of nested subgroups; with a `segmentSize` each domain of that level holds a multiple of this number of
members instead. It may also prefer a level; the preference of the whole gang has precedence. A level that the
topology does not have is refused. After these preferences, as little `traffic` between roles as possible
crosses domains, on each level, and nodes.
"""

from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.dialects.known import DIALECTS
from phalanx.model.gangs import Gang, SubgroupSpec
from phalanx.model.reasons import Objection, Reason
from phalanx.model.rules import (
    FewestDomains,
    Flow,
    Rule,
    SameDomain,
    SubgroupDomain,
    SubgroupFewest,
    SubgroupSegments,
    Traffic,
)


class TopologyConstraints(Plugin):
    """Turns the topology request of a gang into rules."""

    name = "topology"
    lasting_answers = True

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        """Refuse a topology or a level that does not exist, and list those that do."""
        request = gang.topology
        wanted = [request.required, request.preferred]
        wanted += [level for part in gang.subgroups for level in (part.required, part.preferred)]
        if not any(wanted):
            return None
        topology = view.topologies.of(gang)
        if topology is None:
            name = request.name or view.config.default_topology or ""
            return _unknown(gang, f"topology {name} does not exist", "topologies", view.topologies.names())
        other = next((part for part in gang.subgroups if part.topology not in ("", topology.name)), None)
        if other is not None:
            return _other_topology(other, topology.name)
        known = tuple(level.name for level in topology.levels)
        for level in wanted:
            if level is not None and level not in known:
                return _unknown(gang, f"level {level} does not exist in the topology", "levels", known)
        return None

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        """At most one required and one preferred level for the gang, and for each subgroup; its traffic."""
        request = gang.topology
        rules: list[Rule] = []
        if request.required is not None:
            rules.append(SameDomain(name=f"required level {request.required}", level=request.required))
        if request.preferred is not None:
            rules.append(FewestDomains(name=f"preferred level {request.preferred}", level=request.preferred))
        rules += [_rule(part, part.required) for part in gang.subgroups if part.required is not None]
        rules += [_preference(part, part.preferred) for part in gang.subgroups if part.preferred is not None]
        if gang.spec.traffic:
            flows = tuple(Flow(one.sender, one.receiver, one.weight) for one in gang.spec.traffic)
            rules.append(Traffic(name="traffic between roles", flows=flows))
        return tuple(rules)


def _rule(part: SubgroupSpec, level: str) -> Rule:
    if part.segment:
        name = f"segments of {part.segment} of subgroup {part.name} in one {level}"
        return SubgroupSegments(name=name, subgroup=part.name, level=level, size=part.segment)
    return SubgroupDomain(name=f"subgroup {part.name} in one {level}", subgroup=part.name, level=level)


def _preference(part: SubgroupSpec, level: str) -> Rule:
    name = f"preferred level {level} of subgroup {part.name}"
    return SubgroupFewest(name=name, subgroup=part.name, level=level)


def _other_topology(part: SubgroupSpec, own: str) -> Objection:
    of_gang = f"Topology {own}" if own else "the topology of the well-known node labels"
    return Objection(
        reason=Reason.UNSUPPORTED_FIELD,
        message=f"PodGroup field spec.subGroups[{part.name}].topology.name is {part.topology}, "
        f"but the gang uses {of_gang}; two topologies in one gang are not supported yet",
        next_step="Set spec.topology.name to the same Topology, or leave out the name in the subgroup",
    )


def _unknown(gang: Gang, message: str, kind: str, known: tuple[str, ...]) -> Objection:
    listed = ", ".join(known) or "none"
    return Objection(
        reason=Reason.TOPOLOGY_NOT_FOUND,
        message=f"{message}; known {kind}: {listed}",
        next_step=f"Set one of the known {kind} in {DIALECTS[gang.dialect].topology_field}, "
        "or create the Topology",
    )
