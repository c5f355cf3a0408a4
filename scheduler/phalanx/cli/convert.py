"""`phalanx convert`: write PodGroups of other projects, and the pods that name them, as those of Phalanx."""

import sys
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Annotated, Any, Final

import msgspec
import yaml
from cyclopts import Parameter

from phalanx.cli.exits import BadInput, Exit
from phalanx.cli.manifests.documents import Document, parse, read_sources
from phalanx.cli.manifests.read import kind_of
from phalanx.cli.yunikorn_pods import application_groups, drop_annotations, read_pod
from phalanx.cli.yunikorn_queues import without_queues
from phalanx.model.api.kinds import KINDS
from phalanx.model.api.pod_groups import PodGroupSpec, TopologyRequest
from phalanx.model.api.queues import Topology
from phalanx.model.api.unknown_fields import with_unknown_fields
from phalanx.model.conversion.pod_groups import PodGroup
from phalanx.model.dialects.composite import COMPOSITE
from phalanx.model.dialects.dialect import Dialect
from phalanx.model.dialects.known import WITH_OBJECTS, named_groups
from phalanx.model.dialects.queues import QUEUE_DIALECTS, QueueDialect
from phalanx.model.dialects.yunikorn import YUNIKORN, queue_of
from phalanx.model.names import (
    API_GROUP,
    API_VERSION,
    KAI_QUEUE_LABEL,
    LABEL_POD_GROUP,
    LABEL_QUEUE,
    LABEL_ROLE,
    LABEL_SUBGROUP,
)

_OTHERS: Final = {dialect.kind: dialect for dialect in WITH_OBJECTS if dialect.kind != "PodGroup"}

_NOT_CONVERTED: Final = ("scheduling.volcano.sh", "batch.volcano.sh", "scheduling.run.ai")
"""API groups of which only PodGroups and Queues are converted. Others stay as they are."""

_QUEUES: Final = {dialect.kind: dialect for dialect in QUEUE_DIALECTS.values()}

Object = dict[str, Any]


class Report(msgspec.Struct):
    """Lines for the user."""

    wrong: list[str] = []
    notes: list[str] = []


def convert(
    *,
    filename: Annotated[list[str], Parameter(name=["--filename", "-f"], consume_multiple=True, negative=())],
) -> int:
    """Write PodGroups of other projects, and the pods that name them, as those of Phalanx.

    Prints all objects of the input as YAML. PodGroups of Kubernetes, scheduler-plugins, Volcano and KAI
    become those of Phalanx, and pods and pod templates get its labels. Task groups of YuniKorn become
    PodGroups, and its queues become Queues. Other objects are printed as they are. A field without a
    counterpart is an error that names it; nothing is printed then.

    Parameters
    ----------
    filename
        Manifests in YAML or JSON: files, folders, or - for standard input.
    """
    documents = [document for source in read_sources(filename) for document in parse(source)]
    report = Report()
    try:
        levels = dict(_levels(documents))
    except msgspec.ValidationError as error:
        raise BadInput(f"Topology: {error}") from error
    documents, queues = without_queues(documents, report.wrong)
    groups = application_groups(documents, report.wrong)
    found = [*queues, *groups, *(_converted(document, levels, report) for document in documents)]
    if report.wrong:
        raise BadInput(*report.wrong)
    for note in report.notes:
        print(f"note: {note}", file=sys.stderr)
    yaml.safe_dump_all([each for each in found if each is not None], sys.stdout, sort_keys=False)
    return Exit.OK


def _levels(documents: list[Document]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Topology and level of each node label, by the Topologies in the input; the default one goes first."""
    found = [
        msgspec.convert(document.value, Topology)
        for document in documents
        if (document.api_version, document.kind) == (API_VERSION, "Topology")
    ]
    for topology in sorted(found, key=_rank, reverse=True):
        for level in topology.spec.levels:
            yield level.node_label, (topology.metadata.name, level.name)


def _rank(topology: Topology) -> tuple[bool, str]:
    return topology.metadata.name != "default", topology.metadata.name


def _converted(document: Document, levels: Mapping[str, tuple[str, str]], report: Report) -> Object | None:
    value: Object = deepcopy(document.value)
    wrong = report.wrong
    kind = kind_of(document)
    try:
        if kind is not None and kind.name in _QUEUES:
            return _queue(document, _QUEUES[kind.name], report)
        if kind is not None and kind.name in _OTHERS:
            return _pod_group(document, _OTHERS[kind.name], levels, wrong)
        if kind is not None and kind.name == "Pod":
            wrong.extend(f"{document}: {error}" for error in _label(value))
        elif (template := _template(value)) is not None:
            wrong.extend(f"{document}: spec.template.{error}" for error in _label(template))
        elif document.api_version.rpartition("/")[0] in _NOT_CONVERTED:
            wrong.append(f"{document}: kind: {document.kind} of {document.api_version} is not converted yet")
    except msgspec.ValidationError as error:
        wrong.append(f"{document}: {error}")
    return value


def _template(value: Object) -> Object | None:
    spec = value.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    return template if isinstance(template, dict) and isinstance(template.get("spec"), dict) else None


# --- PodGroups ----------------------------------------------------------------------------------------------


def _pod_group(
    document: Document, dialect: Dialect, levels: Mapping[str, tuple[str, str]], wrong: list[str]
) -> Object:
    written: Any = msgspec.convert(document.value, KINDS[dialect.kind].struct)
    written = with_unknown_fields(written, document.value.get("spec"))
    group = dialect.read(written)
    wrong.extend(f"{document}: {error}" for error in _errors(group, dialect))
    spec = msgspec.to_builtins(group.spec)
    if group.roles:
        spec["roles"] = [
            {"name": role.name, "count": role.count, "minMember": role.min_member} for role in group.roles
        ]
    wrong.extend(f"{document}: {error}" for error in _unnamed(group.spec, dialect, levels))
    _name_levels(spec, levels)
    for part in spec.get("subGroups", ()):
        _name_levels(part, levels)
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
    if group.protected_from is not None and group.priority_class:
        yield "spec.preemptibility: expected a value, since in KAI it follows from the PriorityClass"
    if group.min_resources:
        yield "spec.minResources: has no counterpart; the gang starts only if its whole minimum fits"
    if group.roles and sum(role.min_member for role in group.roles) != group.min_member:
        yield "spec.minTaskMember: expected minimums whose sum is minMember"
    if dialect.name == "scheduling.volcano.sh" and group.spec.topology is not None:
        yield "spec.networkTopology: has no counterpart; a PodGroup of Phalanx names levels of a Topology"


def _unnamed(spec: PodGroupSpec, dialect: Dialect, levels: Mapping[str, tuple[str, str]]) -> Iterator[str]:
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
    if dialect.name == "scheduling.volcano.sh":
        return
    if spec.topology is not None:
        yield dialect.topology_field, spec.topology
    for index, part in enumerate(spec.sub_groups):
        if part.topology is not None:
            yield f"spec.subGroups[{index}].topologyConstraint", part.topology


def _name_levels(written: Object, levels: Mapping[str, tuple[str, str]]) -> None:
    """Replace node labels by levels of a Topology."""
    topology = written.get("topology", {})
    for key in ("required", "preferred"):
        if topology.get(key) in levels:
            topology["name"], topology[key] = levels[topology[key]]


def _queue(document: Document, dialect: QueueDialect, report: Report) -> Object | None:
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


# --- pods ---------------------------------------------------------------------------------------------------


def _label(pod: Object) -> Iterator[str]:
    """Let a pod or a pod template name its group by the labels of Phalanx. Yields errors by path."""
    read = read_pod(pod)
    groups = [(dialect, name) for dialect, name in named_groups(read) if dialect.name != API_GROUP]
    if not groups:
        return
    (dialect, name), *others = groups
    if others or LABEL_POD_GROUP in read.metadata.labels:
        yield f"{dialect.field}: the pod names several PodGroups"
    if dialect.unsupported is not None:
        yield from (f"{path}: has no counterpart" for path in dialect.unsupported(read))
    if dialect.marks_of is not None and dialect.kind:
        yield from (f"metadata: {key} of pods has no counterpart" for key in dialect.marks_of(read))
    added = {
        LABEL_POD_GROUP: name,
        LABEL_ROLE: dialect.role_of(read) if dialect.role_of else "",
        LABEL_SUBGROUP: dialect.subgroup_of(read) if dialect.subgroup_of else "",
        LABEL_QUEUE: read.metadata.labels.get(LABEL_QUEUE)
        or read.metadata.labels.get(KAI_QUEUE_LABEL)
        or (queue_of(read) if dialect is YUNIKORN else ""),
    }
    meta = pod.setdefault("metadata", {})
    meta["labels"] = {**(meta.get("labels") or {}), **{key: value for key, value in added.items() if value}}
    by = dialect.field.rpartition(" ")[2]
    meta["labels"].pop(by, None)
    (meta.get("annotations") or {}).pop(by, None)
    pod["spec"].pop("schedulingGroup", None)
    if dialect is YUNIKORN:
        drop_annotations(meta)
