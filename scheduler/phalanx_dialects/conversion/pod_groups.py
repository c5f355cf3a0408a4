"""PodGroups and Queues of other projects as those of Phalanx."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from phalanx.cli.manifests.documents import Document
from phalanx.model.api.kinds import KINDS
from phalanx.model.api.pod_groups import Disruption, PodGroupSpec, SubGroup, TopologyRequest
from phalanx.model.api.unknown_fields import with_unknown_fields
from phalanx.model.conversion.cluster_objects import BUILT_IN
from phalanx.model.conversion.pod_groups import PodGroup
from phalanx.model.dialects.composite import COMPOSITE
from phalanx.model.dialects.dialect import Dialect
from phalanx.model.dialects.known import WITH_OBJECTS
from phalanx.model.dialects.queues import QUEUE_DIALECTS, QueueDialect
from phalanx.model.dialects.volcano import VOLCANO
from phalanx.model.gangs import SubgroupSpec
from phalanx.model.names import API_VERSION, tier_label, tier_name_label

from phalanx_dialects.conversion.inputs import Inputs, Object, Report, namespace_of

POD_GROUPS: Final = {dialect.kind: dialect for dialect in WITH_OBJECTS if dialect.kind != "PodGroup"}
QUEUES: Final = {dialect.kind: dialect for dialect in QUEUE_DIALECTS.values()}
"""By the names of their kinds."""

_LOWEST_TIER: Final = 1


# --- queues -------------------------------------------------------------------------------------------------


def convert_queue(document: Document, dialect: QueueDialect, report: Report) -> Object | None:
    """The Queue; None for the one around all others, which has no counterpart."""
    written: Any = msgspec.convert(document.value, KINDS[dialect.kind].struct)
    mapped = dialect.mapped(with_unknown_fields(written, document.value.get("spec")))
    meta = document.value["metadata"]
    if meta.get("name") == dialect.root:
        return None
    report.wrong.extend(f"{document}: {problem.message}" for problem in mapped.problems)
    report.notes.extend(f"{document}: {note}" for note in mapped.notes)
    kept = {key: meta[key] for key in ("name", "labels", "annotations") if key in meta}
    spec = msgspec.to_builtins(mapped.spec)
    return {"apiVersion": API_VERSION, "kind": "Queue", "metadata": kept, "spec": spec}


# --- PodGroups ----------------------------------------------------------------------------------------------


def convert_pod_group(document: Document, dialect: Dialect, inputs: Inputs, report: Report) -> Object:
    """The PodGroup of Phalanx with the same meaning."""
    written: Any = msgspec.convert(document.value, KINDS[dialect.kind].struct)
    key = (namespace_of(document.value), written.metadata.name)
    group = inputs.formed.get(key) if dialect is VOLCANO else None
    group = group or dialect.read(with_unknown_fields(written, document.value.get("spec")))
    wrong, notes = list(_errors(group, dialect)), list[str]()
    wanted = replace(group.spec, disruption=_disruption(group, inputs, wrong, notes))
    if dialect is VOLCANO:
        wanted = replace(
            wanted,
            min_member=group.min_member,
            topology=_topology_of_tiers(wanted.topology, inputs, wrong, notes),
            sub_groups=tuple(_subgroup(part, inputs, wrong, notes) for part in group.subgroups),
        )
    else:
        wrong += _unnamed(wanted, dialect, inputs.levels)
    spec = msgspec.to_builtins(wanted)
    for part in (spec, *spec.get("subGroups", ())):
        if dialect is not VOLCANO:
            _name_levels(part, inputs.levels)
        _drop_needless_preference(part, inputs)
    if roles := _roles(group, dialect, key[0], inputs):
        spec["roles"] = roles
    if dialect is VOLCANO and written.spec.min_task_member and not group.roles:
        notes.append(
            "spec.minTaskMember: is left out, since Volcano ignores it if its sum is above minMember"
        )
    if group.min_resources:
        notes.append("spec.minResources: is left out, since only the pods of the minimum must fit")
    report.wrong.extend(f"{document}: {error}" for error in dict.fromkeys(wrong))
    report.notes.extend(f"{document}: {note}" for note in dict.fromkeys(notes))
    meta = document.value["metadata"]
    kept = {key: meta[key] for key in ("name", "namespace", "labels", "annotations") if key in meta}
    return {"apiVersion": API_VERSION, "kind": "PodGroup", "metadata": kept, "spec": spec}


def _errors(group: PodGroup, dialect: Dialect) -> Iterator[str]:
    """What a PodGroup of Phalanx cannot say, besides what the dialect refuses."""
    yield from (problem.message for problem in group.problems)
    if group.parent or dialect is COMPOSITE:
        yield "composite groups are not converted yet; create one PodGroup with spec.subGroups"
    elif not group.is_gang:
        yield "spec.schedulingPolicy.basic: is no gang; leave out the PodGroup and spec.schedulingGroup"


def _subgroup(part: SubgroupSpec, inputs: Inputs, wrong: list[str], notes: list[str]) -> SubGroup:
    """A subgroup of Volcano, which has no others inside."""
    request = TopologyRequest(part.topology, part.required, part.preferred) if part.topology else None
    topology = _topology_of_tiers(request, inputs, wrong, notes)
    return SubGroup(name=part.name, min_member=part.min_member, topology=topology)


def _disruption(group: PodGroup, inputs: Inputs, wrong: list[str], notes: list[str]) -> Disruption | None:
    """Written, or as it follows from the PriorityClass."""
    if group.protected_from is None or not group.priority_class:
        return group.spec.disruption
    name, built_in = group.priority_class, BUILT_IN.get(group.priority_class)
    value = inputs.classes.get(name, built_in.value if built_in is not None else None)
    if value is None:
        wrong.append(
            f"spec.preemptibility: expected a value, or in the input PriorityClass {name}, which decides it"
        )
        return None
    is_preemptible = value < group.protected_from
    kind = "preemptible" if is_preemptible else "not preemptible"
    notes.append(f"spec.preemptibility: is missing, and PriorityClass {name} of {value} makes it {kind}")
    return None if is_preemptible else Disruption(preemptible=False)


def _roles(group: PodGroup, dialect: Dialect, namespace: str, inputs: Inputs) -> list[Object]:
    """The minimums of tasks, and no minimum for other tasks of the pods in the input.

    In Volcano pods of any task count towards the minimum of the group. So each role may have as many members
    as that needs.
    """
    if not group.roles:
        return []
    others = inputs.tasks.get((dialect.name, namespace, group.name), frozenset())
    rest = max(group.min_member - sum(role.min_member for role in group.roles), 0)
    found = [
        {"name": role.name, "count": role.count + rest, "minMember": role.min_member} for role in group.roles
    ]
    named = {role.name for role in group.roles}
    return found + [
        {"name": name, "count": max(rest, 1), "minMember": 0} for name in sorted(others - named) if name
    ]


# --- levels of topologies -----------------------------------------------------------------------------------


def _unnamed(spec: PodGroupSpec, dialect: Dialect, levels: dict[str, tuple[str, str]]) -> Iterator[str]:
    """Levels that no Topology has, or that only several have together."""
    used: set[str] = set()
    for path, request in _requests(spec, dialect):
        for label in filter(None, (request.required, request.preferred)):
            if label not in levels:
                yield f"{path}: expected a Topology of Phalanx in the input, with node label {label}"
                continue
            used.add(levels[label][0])
            if len(used) > 1:
                yield f"{path}: expected one Topology of Phalanx with all levels, found {len(used)}"


def _requests(spec: PodGroupSpec, dialect: Dialect) -> Iterator[tuple[str, TopologyRequest]]:
    if spec.topology is not None:
        yield dialect.topology_field, spec.topology
    for index, part in enumerate(spec.sub_groups):
        if part.topology is not None:
            yield f"spec.subGroups[{index}].topologyConstraint", part.topology


def _name_levels(written: Object, levels: dict[str, tuple[str, str]]) -> None:
    """Replace node labels by levels of a Topology."""
    topology = written.get("topology", {})
    for key in ("required", "preferred"):
        if topology.get(key) in levels:
            topology["name"], topology[key] = levels[topology[key]]


def _drop_needless_preference(written: Object, inputs: Inputs) -> None:
    """One domain of a level is one of each wider level: few of these are no preference."""
    topology = written.get("topology", {})
    found = [each for each in inputs.topologies if each.metadata.name == topology.get("name")]
    names = [level.name for each in found for level in each.spec.levels]
    required, preferred = topology.get("required"), topology.get("preferred")
    if required in names and preferred in names and names.index(preferred) <= names.index(required):
        del topology["preferred"]


def _topology_of_tiers(
    wanted: TopologyRequest | None, inputs: Inputs, wrong: list[str], notes: list[str]
) -> TopologyRequest | None:
    """The levels of a Topology of Phalanx that stand for the tiers of HyperNodes."""
    if wanted is None:
        return None
    required = _names_of_tier(wanted.required, inputs) if wanted.required is not None else None
    if wanted.required is not None and _is_above_all(wanted.required, inputs):
        notes.append(
            "spec.networkTopology: a tier above all HyperNodes of the input stands for the whole cluster"
        )
        required = None
    preferred = inputs.tier_names.get(_LOWEST_TIER, frozenset())
    for topology in inputs.topologies:
        levels = [level.name for level in topology.spec.levels]
        hard = next((name for name in levels if required is not None and name in required), None)
        soft = next((name for name in levels if name in preferred), None)
        if (required is None and soft is None) or (required is not None and hard is None):
            continue
        if soft is None:
            notes.append("spec.networkTopology: no level is preferred, since tier 1 has no name in the input")
        return TopologyRequest(name=topology.metadata.name, required=hard, preferred=soft)
    if wanted.required is None:
        notes.append("spec.networkTopology: is left out, since no level has the name of tier 1")
        return None
    names = ", ".join(sorted(preferred if required is None else required)) or "the tierName of its HyperNodes"
    expected = "a Topology of Phalanx in the input that has a level with the name of the tier"
    wrong.append(f"spec.networkTopology: expected {expected}: {names}")
    return None


def _names_of_tier(level: str, inputs: Inputs) -> frozenset[str]:
    """The levels that may stand for a tier, of which a PodGroup gives the number or the name."""
    name = level.removeprefix(tier_name_label(""))
    for tier, names in inputs.tier_names.items():
        if level == tier_label(tier) or (name != level and name in names):
            return names
    return frozenset({name}) if name != level else frozenset()


def _is_above_all(level: str, inputs: Inputs) -> bool:
    """Whether the tier is given by a number, and HyperNodes have only lower ones."""
    tier = level.removeprefix(tier_label(0).removesuffix("0"))
    return bool(inputs.tier_names) and tier.isdigit() and int(tier) > max(inputs.tier_names)
