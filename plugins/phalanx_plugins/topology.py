"""Keeps a gang together on the network.

`required` places all members, including running ones, in one domain of that level. `preferred` uses as few
and as tight domains as possible down to that level. A subgroup may require a level for its members, including
those of nested subgroups; with a `segmentSize` each domain of that level holds a multiple of this number of
members instead. It may also prefer a level; the preference of the whole gang has precedence. It may name
another Topology than the gang, whose levels it then requires and prefers. A level that the topology does not
have is refused. After these preferences, as little `traffic` between roles as possible
crosses domains, on each level, and nodes.
"""

from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.dialects.known import DIALECTS
from phalanx.model.gangs import Gang, SubgroupSpec
from phalanx.model.reasons import Objection, Reason
from phalanx.model.texts import alternatives, did_you_mean
from phalanx.rules.levels import FewestDomains, SameDomain
from phalanx.rules.other_topologies import OtherTopologyDomain, OtherTopologyFewest
from phalanx.rules.problem import Rule
from phalanx.rules.subgroups import SubgroupDomain, SubgroupFewest, SubgroupSegments
from phalanx.rules.traffic import Flow, Traffic


class TopologyConstraints(Plugin):
    """Turns the topology request of a gang into rules."""

    name = "topology"
    lasting_answers = True

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        """Refuse a topology or a level that does not exist, and list those that do."""
        request = gang.topology
        others = {part.name: view.topologies.other_of(gang, part) for part in gang.subgroups}
        own = [part for part in gang.subgroups if not others[part.name]]
        wanted = [request.required, request.preferred]
        wanted += [level for part in own for level in (part.required, part.preferred)]
        if not any(wanted) and not any(others.values()):
            return None
        topology = view.topologies.of(gang)
        if topology is None:
            name = request.name or view.config.default_topology or ""
            known = view.topologies.names()
            return _unknown(gang, f"topology {name} does not exist", "topologies", name, known)
        for part in gang.subgroups:
            if others[part.name] and (wrong := _wrong_elsewhere(gang, part, view)) is not None:
                return wrong
        known = tuple(level.name for level in topology.levels)
        for level in wanted:
            if level is not None and level not in known:
                return _unknown(gang, f"level {level} does not exist in the topology", "levels", level, known)
        return None

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        """At most one required and one preferred level for the gang, and for each subgroup; its traffic."""
        request = gang.topology
        rules: list[Rule] = []
        if request.required is not None:
            rules.append(SameDomain(name=f"required level {request.required}", level=request.required))
        if request.preferred is not None:
            rules.append(FewestDomains(name=f"preferred level {request.preferred}", level=request.preferred))
        others = {part.name: view.topologies.other_of(gang, part) for part in gang.subgroups}
        rules += [
            _rule(part, part.required, others[part.name])
            for part in gang.subgroups
            if part.required is not None
        ]
        rules += [
            _preference(part, part.preferred, others[part.name], view)
            for part in gang.subgroups
            if part.preferred is not None
        ]
        if gang.spec.traffic:
            flows = tuple(Flow(one.sender, one.receiver, one.weight) for one in gang.spec.traffic)
            rules.append(Traffic(name="traffic between roles", flows=flows))
        return tuple(rules)


def _rule(part: SubgroupSpec, level: str, other: str) -> Rule:
    if other:
        name = f"subgroup {part.name} in one {level} of Topology {other}"
        if part.segment:
            name = f"segments of {part.segment} of {name}"
        return OtherTopologyDomain(
            name=name, subgroup=part.name, topology=other, level=level, size=part.segment
        )
    if part.segment:
        name = f"segments of {part.segment} of subgroup {part.name} in one {level}"
        return SubgroupSegments(name=name, subgroup=part.name, level=level, size=part.segment)
    return SubgroupDomain(name=f"subgroup {part.name} in one {level}", subgroup=part.name, level=level)


def _preference(part: SubgroupSpec, level: str, other: str, view: SessionView) -> Rule:
    name = f"preferred level {level} of subgroup {part.name}"
    if other:
        topology = view.topologies.named(other)
        known = [each.name for each in topology.levels] if topology is not None else []
        levels = tuple(known[: known.index(level) + 1]) if level in known else ()
        return OtherTopologyFewest(name=name, subgroup=part.name, topology=other, levels=levels)
    return SubgroupFewest(name=name, subgroup=part.name, level=level)


def _wrong_elsewhere(gang: Gang, part: SubgroupSpec, view: SessionView) -> Objection | None:
    """Refuse another Topology of a subgroup that does not exist, or that lacks a level."""
    topology = view.topologies.named(part.topology)
    if topology is None:
        what = f"topology {part.topology} of subgroup {part.name} does not exist"
        return _unknown(gang, what, "topologies", part.topology, view.topologies.names())
    known = tuple(level.name for level in topology.levels)
    for level in (part.required, part.preferred):
        if level is not None and level not in known:
            what = f"level {level} of subgroup {part.name} does not exist in topology {part.topology}"
            return _unknown(gang, what, "levels", level, known)
    return None


def _unknown(gang: Gang, message: str, kind: str, name: str, known: tuple[str, ...]) -> Objection:
    listed, field = alternatives(name, known) or "none", DIALECTS[gang.dialect].topology_field
    step = f"Set one of the known {kind} in {field}, or create the Topology"
    return Objection(
        reason=Reason.TOPOLOGY_NOT_FOUND,
        message=f"{message}; known {kind}: {listed}",
        next_step=did_you_mean(name, known) + step,
    )
