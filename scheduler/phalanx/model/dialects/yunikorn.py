"""Applications of YuniKorn: gangs without an object, which annotations of their pods define.

docs/dialects/yunikorn.md states what becomes of each label and annotation.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from phalanx.limits import PLACEHOLDERS_MAX
from phalanx.model.api import core
from phalanx.model.api.pod_groups import RESERVED, Disruption, PodGroupSpec
from phalanx.model.conversion.pod_groups import PodGroup
from phalanx.model.dialects.dialect import Dialect, annotation
from phalanx.model.dialects.task_groups import DOMAIN, PARAMETERS, TASK_GROUPS, read_definition
from phalanx.model.gangs import RoleSpec
from phalanx.model.names import LABEL_QUEUE
from phalanx.model.names import YUNIKORN_ALLOW_PREEMPTION as ALLOW_PREEMPTION
from phalanx.model.pods import Pod
from phalanx.model.reasons import Objection, Reason

TASK_GROUP: Final = f"{DOMAIN}/task-group-name"
APPLICATION: Final = f"{DOMAIN}/app-id"
QUEUE: Final = f"{DOMAIN}/queue"
_PRIORITY_CLASS: Final = "spec.priorityClassName"

_OLD_APPLICATION: Final = "applicationId"
_OF_SPARK: Final = "spark-app-selector"
_OLD_QUEUE: Final = "queue"
_APPLICATION_LABELS: Final = frozenset({APPLICATION, _OLD_APPLICATION, _OF_SPARK})

_UNIQUE: Final = "-uniqueautogen"
"""The end of an application ID that YuniKorn replaces by the UID of the pod."""

_ROOT: Final = "root."
_PLACEHOLDER: Final = "/placeholder"
"""The end of an annotation; the domain before it depends on the release of YuniKorn."""

_IGNORED: Final = f"{DOMAIN}/ignore-application"
"""An annotation of pods whose application ID does not count."""


# --- pods ---------------------------------------------------------------------------------------------------


def application_of(pod: core.Pod) -> str:
    """The application ID of a pod; empty for none. The first one of these counts, as in YuniKorn."""
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    found = (
        labels.get(APPLICATION)
        or annotations.get(APPLICATION)
        or labels.get(_OLD_APPLICATION)
        or labels.get(_OF_SPARK, "")
    )
    return f"{found.removesuffix(_UNIQUE)}-{pod.metadata.uid}" if found.endswith(_UNIQUE) else found


def application_without_task_group(pod: core.Pod) -> str:
    """The application of a pod that names none of its task groups: the pod is beyond their minimums."""
    meta = pod.metadata
    if _APPLICATION_LABELS.isdisjoint(meta.labels) and APPLICATION not in meta.annotations:
        return ""
    return "" if meta.annotations.get(_IGNORED) == "true" else application_of(pod)


def queue_of(pod: core.Pod) -> str:
    """The queue that a pod names: by the label of Phalanx, else of YuniKorn without `root`; empty for none.

    The label `queue` alone could be that of anybody.
    """
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    if labels.get(LABEL_QUEUE):
        return labels[LABEL_QUEUE]
    found = labels.get(QUEUE) or annotations.get(QUEUE)
    if not found and (_OLD_APPLICATION in labels or APPLICATION in labels or _has_task_groups(pod)):
        found = labels.get(_OLD_QUEUE)
    return queue_name(found) if found else ""


def queue_name(path: str) -> str:
    """The name of the Queue for a queue of YuniKorn, which compares names without case."""
    return path.lower().removeprefix(_ROOT)


def _has_task_groups(pod: core.Pod) -> bool:
    written = pod.metadata.annotations
    return bool(written.get(TASK_GROUP) or written.get(TASK_GROUPS))


def _group_of(pod: core.Pod) -> str:
    return (application_of(pod) or pod.metadata.name) if _has_task_groups(pod) else ""


def _marks_of(pod: core.Pod) -> Mapping[str, str]:
    """What defines the gang. Pods that define no task groups need not repeat all of it."""
    written, defines = pod.metadata.annotations, bool(pod.metadata.annotations.get(TASK_GROUPS))
    found = {key: written[key] for key in (TASK_GROUPS, PARAMETERS) if written.get(key)}
    if queue := queue_of(pod):
        found[QUEUE] = queue
    preemption = written.get(ALLOW_PREEMPTION)
    if preemption and (defines or preemption == "false"):
        found[ALLOW_PREEMPTION] = preemption
    if defines and pod.spec.priority_class_name:
        found[_PRIORITY_CLASS] = pod.spec.priority_class_name
    return found


def _unsupported_of_pod(pod: core.Pod) -> Iterator[str]:
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    for key, value in annotations.items():
        is_placeholder = key.endswith(_PLACEHOLDER) and "yunikorn" in key
        if value == "true" and (is_placeholder or key == _IGNORED):
            yield f"metadata.annotations[{key}]"
    if not application_of(pod):
        key = TASK_GROUPS if annotations.get(TASK_GROUPS) else TASK_GROUP
        yield f"metadata.annotations[{key}] without an application ID"
    named = {
        f"metadata.labels[{APPLICATION}]": labels.get(APPLICATION),
        f"metadata.annotations[{APPLICATION}]": annotations.get(APPLICATION),
        f"metadata.labels[{_OLD_APPLICATION}]": labels.get(_OLD_APPLICATION),
    }
    (first, *others) = [(path, value) for path, value in named.items() if value] or [("", "")]
    for path, value in others:
        if value != first[1]:
            yield f"{path}: {value} beside {first[0]}: {first[1]}"


# --- the application ----------------------------------------------------------------------------------------


def defines_task_groups(pod: Pod) -> bool:
    """Whether the annotations of a pod define the task groups of its application."""
    return pod.dialect == DOMAIN and any(key == TASK_GROUPS for key, _ in pod.group_marks)


def read_application(pod: Pod) -> PodGroup:
    """The gang of an application, by the annotations of its first pod."""
    assert pod.group is not None
    marks = dict(pod.group_marks)
    definition = read_definition(marks.get(TASK_GROUPS, ""), marks.get(PARAMETERS, ""))
    groups, preemption = definition.groups, marks.get(ALLOW_PREEMPTION)
    needed = sum(group.min_member for group in groups)
    reserves = needed <= PLACEHOLDERS_MAX and any(group.shape is not None for group in groups)
    least = max(needed + (not pod.role), 1)
    return PodGroup(
        uid=f"{DOMAIN}:{pod.namespace}/{pod.group}",
        namespace=pod.namespace,
        name=pod.group,
        created=pod.created,
        spec=PodGroupSpec(
            min_member=least,
            queue=pod.queue,
            priority_class_name=marks.get(_PRIORITY_CLASS),
            start_when=RESERVED if reserves else None,
            disruption=Disruption(preemptible=False) if preemption == "false" else None,
        ),
        min_member=least,
        roles=tuple(
            RoleSpec(
                name=group.name,
                count=group.min_member,
                min_member=group.min_member,
                shape=group.shape if reserves else None,
            )
            for group in groups
        ),
        allows_no_role=True,
        marks=marks,
        marks_of_first=(TASK_GROUPS, PARAMETERS, _PRIORITY_CLASS),
        class_may_protect=preemption is None,
        records_start=False,
        defined_by=pod.name,
        ignored=definition.ignored if reserves else "",
        problems=definition.problems,
        is_gang=bool(groups or definition.problems),
    )


def not_defined(namespace: str, name: str) -> Objection:
    """Why pods of an application wait of which no pod defines the task groups."""
    return Objection(
        Reason.POD_GROUP_NOT_FOUND,
        f"no pod of application {name!r} in namespace {namespace} has the annotation {TASK_GROUPS}",
        f"Set {TASK_GROUPS} on the first pod of the application, or on all",
    )


YUNIKORN: Final = Dialect(
    name=DOMAIN,
    kind="",
    field=f"annotation {TASK_GROUP}",
    minimum_field=f"minMember in annotation {TASK_GROUPS}",
    topology_field="",
    group_of=_group_of,
    group_annotations=(TASK_GROUP, TASK_GROUPS),
    read=read_application,
    role_field=f"annotation {TASK_GROUP}",
    role_of=annotation(TASK_GROUP),
    marks_of=_marks_of,
    unsupported=_unsupported_of_pod,
    noun="application",
    not_found=not_defined,
)
