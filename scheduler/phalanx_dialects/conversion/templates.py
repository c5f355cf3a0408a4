"""Pods, and the pod templates of workloads at any depth: the labels and the scheduler name of Phalanx."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Any, Final

import msgspec
from phalanx.cli.manifests.documents import Document
from phalanx.model.api.core import Pod
from phalanx.model.dialects.dialect import Dialect
from phalanx.model.dialects.kai import KAI, refused_of_pod
from phalanx.model.dialects.known import named_groups
from phalanx.model.dialects.task_groups import PARAMETERS, TASK_GROUPS
from phalanx.model.dialects.yunikorn import QUEUE, TASK_GROUP, YUNIKORN, queue_of
from phalanx.model.names import (
    ANNOTATION_GPU_MEMORY,
    ANNOTATION_GPU_SHARE,
    API_GROUP,
    DEFAULT_SCHEDULER_NAME,
    KAI_QUEUE_LABEL,
    LABEL_MIN_MEMBER,
    LABEL_POD_GROUP,
    LABEL_QUEUE,
    LABEL_ROLE,
    LABEL_SUBGROUP,
    YUNIKORN_ALLOW_PREEMPTION,
)
from phalanx.model.supplies.gpu_shares.devices import WHOLE_DEVICE
from phalanx.model.workloads.known import KNOWN, WORKLOADS

_FRACTION: Final = "gpu-fraction"
_MEMORY: Final = "gpu-memory"
_DEVICES: Final = "gpu-fraction-num-devices"


def _convert_shares(annotations: dict[str, Any], wrong: list[str], notes: list[str]) -> None:
    """Replace the annotations of one share. Several devices for one pod have no counterpart."""
    found = [key for key in (_FRACTION, _MEMORY) if key in annotations]
    if len(found) != 1 or annotations.get(_DEVICES, "1") != "1":
        return
    written = str(annotations[found[0]])
    number = _number(written)
    share = found[0] == _FRACTION
    if number is None or (share and number > 1):
        expected = "a number up to 1" if share else "a number of MiB"
        wrong.append(f"metadata.annotations[{found[0]}]: expected {expected}, found {written}")
        return
    if share:
        annotations[ANNOTATION_GPU_SHARE] = str(int((number * WHOLE_DEVICE).to_integral_value(ROUND_CEILING)))
    else:
        annotations[ANNOTATION_GPU_MEMORY] = f"{written}Mi"
    for key in (found[0], _DEVICES):
        annotations.pop(key, None)
    notes.append(
        f"metadata.annotations[{found[0]}]: only nodes that have the label scheduling.phalanx.dev/gpu-sharing"
        " and offer no whole GPUs give shares"
    )


def _number(written: str) -> Decimal | None:
    """A number above 0."""
    try:
        number = Decimal(written)
    except InvalidOperation:
        return None
    return number if number.is_finite() and number > 0 else None


Object = dict[str, Any]

KAI_SCHEDULER: Final = "kai-scheduler"

OTHER_SCHEDULERS: Final = frozenset(
    {"volcano", KAI_SCHEDULER, "scheduler-plugins", "scheduler-plugins-scheduler", "yunikorn"}
)
"""The usual names of the schedulers whose objects are converted."""

_OF_YUNIKORN: Final = (TASK_GROUP, TASK_GROUPS, PARAMETERS, YUNIKORN_ALLOW_PREEMPTION, QUEUE)
"""Annotations of YuniKorn that mean nothing beside a PodGroup of Phalanx."""

_VOLCANO_QUEUE: Final = "scheduling.volcano.sh/queue-name"
_VOLCANO_MINIMUM: Final = "scheduling.volcano.sh/group-min-member"
"""Annotation of an object that owns pods, from which Volcano makes a PodGroup for them."""

_OF_KUBERNETES: Final = frozenset({"batch", "apps"})
"""API groups of which all kinds with pod templates are known."""

_CORE: Final = (("v1", "PodTemplate"), ("v1", "ReplicationController"))
"""Further kinds of Kubernetes with pod templates."""


def is_known(document: Document) -> bool:
    """Whether pod templates of such an object are found at any depth."""
    group = document.api_version.rpartition("/")[0]
    if group in _OF_KUBERNETES or (document.api_version, document.kind) in _CORE:
        return True
    return KNOWN.of_owner(document.api_version, document.kind) in WORKLOADS


def templates_of(document: Document) -> Iterator[tuple[str, Object]]:
    """The pod templates of an object, with their paths; a pod itself has none.

    Of kinds that are not known it is the one at `spec.template`.
    """
    value = document.value
    if (document.api_version, document.kind) == ("v1", "Pod"):
        yield "", value
    elif is_known(document):
        yield from _inside(value, "")
        yield from _without_spec(document)
    else:
        template = mapping_of(value.get("spec")).get("template")
        if isinstance(template, dict) and _is_template(template):
            yield "spec.template", template


def _is_template(value: Object) -> bool:
    return isinstance(mapping_of(value.get("spec")).get("containers"), list)


def _inside(value: object, path: str) -> Iterator[tuple[str, Object]]:
    """The nearest parts of a value that look like a pod template."""
    if isinstance(value, dict):
        if path and _is_template(value):
            yield path, value
            return
        for key, inner in value.items():
            if key != "status":
                yield from _inside(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _inside(inner, f"{path}[{index}]")


def _without_spec(document: Document) -> Iterator[tuple[str, Object]]:
    """Descriptions of pods that have the scheduler, labels and annotations themselves, as of Spark."""
    kind = WORKLOADS.get(KNOWN.of_owner(document.api_version, document.kind))
    for role in kind.roles if kind is not None else ():
        described: Any = document.value
        for name in role.at.split(".") if role.scheduler else ():
            described = described.get(name) if isinstance(described, dict) else None
        if role.scheduler and isinstance(described, dict):
            yield role.at, described


def read_template(template: Object) -> Pod:
    """A pod of this template. Raises a ValidationError."""
    meta, spec = _parts(template)
    if isinstance(meta, dict):
        meta = {"name": "template", **{key: value for key, value in meta.items() if value is not None}}
    return msgspec.convert({"metadata": meta, "spec": spec}, Pod)


def pods_of(documents: Iterable[Document]) -> Iterator[tuple[Document, Pod]]:
    """The pods of all pod templates that can be read. Others are reported where they are converted."""
    for document in documents:
        for _, template in templates_of(document):
            try:
                yield document, read_template(template)
            except msgspec.ValidationError:
                continue


def mapping_of(value: object) -> Mapping[str, Any]:
    """The value if it is a mapping; an empty one otherwise."""
    return value if isinstance(value, dict) else {}


def _parts(template: Object) -> tuple[Any, Any]:
    """Metadata and spec. They are the template itself where it has no spec of its own."""
    if "spec" not in template:
        meta: Object = {key: template[key] for key in ("labels", "annotations") if key in template}
        scheduler = template.get("schedulerName")
        return meta, {"schedulerName": scheduler} if scheduler is not None else {}
    return template.get("metadata") or {}, template["spec"]


def convert_template(template: Object, wrong: list[str], notes: list[str]) -> None:
    """Let pods of a template name their group, queue and scheduler as in Phalanx. Errors are by path."""
    pod = read_template(template)
    groups = [(dialect, name) for dialect, name in named_groups(pod) if dialect.name != API_GROUP]
    if pod.spec.scheduler_name == KAI_SCHEDULER or any(dialect is KAI for dialect, _ in groups):
        _convert_shares((template.get("metadata") or {}).get("annotations") or {}, wrong, notes)
        pod = read_template(template)
        if not groups:
            wrong += [f"{path}: has no counterpart" for path in refused_of_pod(pod)]
    scheduler = pod.spec.scheduler_name
    if scheduler in OTHER_SCHEDULERS:
        template.get("spec", template)["schedulerName"] = DEFAULT_SCHEDULER_NAME
    elif groups and scheduler != DEFAULT_SCHEDULER_NAME:
        named = f"{scheduler} stays" if scheduler else "is missing"
        notes.append(f"spec.schedulerName: {named}: only pods of {DEFAULT_SCHEDULER_NAME} are in its gangs")
    added = {LABEL_QUEUE: _queue(pod, groups)} if groups or scheduler in OTHER_SCHEDULERS else {}
    removed: list[str] = []
    for dialect, name in groups[:1]:
        if len(groups) > 1 or LABEL_POD_GROUP in pod.metadata.labels:
            wrong.append(f"{dialect.field}: the pod names several PodGroups")
        paths = dialect.unsupported(pod) if dialect.unsupported is not None else ()
        marks = dialect.marks_of(pod) if dialect.marks_of is not None and dialect.kind else ()
        wrong += [f"{path}: has no counterpart" for path in paths]
        wrong += [f"metadata: {key} of pods has no counterpart" for key in marks]
        added[LABEL_POD_GROUP] = name
        added[LABEL_ROLE] = dialect.role_of(pod) if dialect.role_of is not None else ""
        added[LABEL_SUBGROUP] = dialect.subgroup_of(pod) if dialect.subgroup_of is not None else ""
        removed.append(dialect.field.rpartition(" ")[2])
    _relabel(template, added, removed)
    if any(dialect is YUNIKORN for dialect, _ in groups):
        for key in _OF_YUNIKORN:
            (template["metadata"].get("annotations") or {}).pop(key, None)


def _queue(pod: Pod, groups: list[tuple[Dialect, str]]) -> str:
    meta = pod.metadata
    if any(dialect is YUNIKORN for dialect, _ in groups):
        return queue_of(pod)
    return (
        meta.labels.get(LABEL_QUEUE)
        or meta.labels.get(KAI_QUEUE_LABEL)
        or meta.annotations.get(_VOLCANO_QUEUE, "")
    )


def _relabel(template: Object, added: Mapping[str, str], removed: list[str]) -> None:
    added = {key: value for key, value in added.items() if value}
    if not added and not removed:
        return
    meta = template.setdefault("metadata", {}) if "spec" in template else template
    if meta is None:
        meta = template["metadata"] = {}
    meta["labels"] = {**(meta.get("labels") or {}), **added}
    for key in removed:
        meta["labels"].pop(key, None)
        (meta.get("annotations") or {}).pop(key, None)
    if "spec" in template:
        template["spec"].pop("schedulingGroup", None)


def convert_owner(value: Object, templates: list[tuple[str, Object]], notes: list[str]) -> None:
    """The queue and the minimum that an object above pods names for them."""
    meta = mapping_of(value.get("metadata"))
    labels, annotations = mapping_of(meta.get("labels")), mapping_of(meta.get("annotations"))
    queue = labels.get(KAI_QUEUE_LABEL) or annotations.get(_VOLCANO_QUEUE)
    if queue and LABEL_QUEUE not in labels:
        value["metadata"] = {**meta, "labels": {**labels, LABEL_QUEUE: queue}}
    minimum = annotations.get(_VOLCANO_MINIMUM)
    if minimum and len(templates) == 1:
        _relabel(templates[0][1], {LABEL_MIN_MEMBER: str(minimum)}, [])
    elif minimum:
        notes.append(f"metadata.annotations[{_VOLCANO_MINIMUM}]: is left as it is, which means nothing here")
