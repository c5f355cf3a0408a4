"""`phalanx convert` for pods of YuniKorn: the PodGroup that their annotations define, and their labels."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from phalanx.cli.manifests.documents import Document
from phalanx.limits import PLACEHOLDERS_MAX
from phalanx.model.api import core
from phalanx.model.dialects.known import named_groups
from phalanx.model.dialects.task_groups import PARAMETERS, TASK_GROUPS, read_definition
from phalanx.model.dialects.yunikorn import (
    QUEUE,
    TASK_GROUP,
    YUNIKORN,
    application_of,
    application_without_task_group,
    queue_of,
)
from phalanx.model.names import API_VERSION, LABEL_QUEUE, YUNIKORN_ALLOW_PREEMPTION

Object = dict[str, Any]

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_ROLE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_TAKEN_OUT: Final = (TASK_GROUP, TASK_GROUPS, PARAMETERS, YUNIKORN_ALLOW_PREEMPTION, QUEUE)
"""Annotations that mean nothing beside a PodGroup of Phalanx."""


def application_groups(documents: Iterable[Document], wrong: list[str]) -> list[Object]:
    """The PodGroups of the applications of all pods and pod templates, each once. Errors go to `wrong`."""
    documents = list(documents)
    protecting = set(_classes_that_opt_out(documents))
    found: dict[tuple[str, str], tuple[Object, core.Pod]] = {}
    pods = list(_pods(documents))
    for document, namespace, pod in pods:
        if not pod.metadata.annotations.get(TASK_GROUPS) or YUNIKORN not in dict(named_groups(pod)):
            continue
        group = _group(pod, namespace, protecting)
        first, defining = found.setdefault((namespace, application_of(pod)), (group, pod))
        if first is group:
            wrong.extend(f"{document}: {error}" for error in _errors(pod))
        elif _definition(defining) != _definition(pod):
            wrong.append(f"{document}: {TASK_GROUPS}: differs from that of another pod of the application")
    for document, namespace, pod in pods:
        if not named_groups(pod) and (namespace, application_without_task_group(pod)) in found:
            wrong.append(f"{document}: {TASK_GROUP}: expected a task group, as of other pods with roles")
    return [group for group, _ in found.values()]


def drop_annotations(meta: Object) -> None:
    """Take out what means nothing beside a PodGroup of Phalanx."""
    for key in _TAKEN_OUT:
        (meta.get("annotations") or {}).pop(key, None)


def read_pod(written: Mapping[str, Any]) -> core.Pod:
    """A pod or a pod template. Raises msgspec.ValidationError."""
    meta = {"name": "template", **(written.get("metadata") or {})}
    return msgspec.convert({**written, "metadata": meta}, core.Pod)


def _pods(documents: Iterable[Document]) -> Iterator[tuple[Document, str, core.Pod]]:
    """All that can be read, with their namespaces. Others are reported where they are converted."""
    for document in documents:
        spec = document.value.get("spec")
        template = spec.get("template") if isinstance(spec, dict) else None
        written = document.value if document.kind == "Pod" else template
        meta = document.value.get("metadata")
        if isinstance(written, dict) and isinstance(written.get("spec"), dict) and isinstance(meta, dict):
            try:
                yield document, str(meta.get("namespace", "")), read_pod(written)
            except msgspec.ValidationError:
                continue


def _classes_that_opt_out(documents: Iterable[Document]) -> Iterator[str]:
    for document in documents:
        meta = document.value.get("metadata") if document.kind == "PriorityClass" else None
        annotations = meta.get("annotations") if isinstance(meta, dict) else None
        if isinstance(annotations, dict) and annotations.get(YUNIKORN_ALLOW_PREEMPTION) == "false":
            yield str(document.value["metadata"].get("name"))


def _definition(pod: core.Pod) -> object:
    written = pod.metadata.annotations
    keys = (TASK_GROUPS, PARAMETERS, YUNIKORN_ALLOW_PREEMPTION)
    return ([written.get(key) for key in keys], _queue(pod), pod.spec.priority_class_name)


def _queue(pod: core.Pod) -> str:
    return pod.metadata.labels.get(LABEL_QUEUE) or queue_of(pod)


def _errors(pod: core.Pod) -> Iterator[str]:
    """What a PodGroup cannot say. Other errors of the pod are reported with its labels."""
    written, name = pod.metadata.annotations, application_of(pod)
    definition = read_definition(written.get(TASK_GROUPS, ""), written.get(PARAMETERS, ""))
    yield from (problem.message for problem in definition.problems)
    if definition.ignored:
        yield f"metadata.annotations[{PARAMETERS}]: {definition.ignored}"
    if not written.get(TASK_GROUP):
        yield f"metadata.annotations[{TASK_GROUP}]: expected a task group, as of other pods with roles"
    for shown, each in (("application ID", name), ("queue", _queue(pod))):
        if each and not _NAME.fullmatch(each):
            yield f"{shown} {each!r}: expected lower-case letters, digits, '-' and '.', at most 63"
    for group in definition.groups:
        if not _ROLE.fullmatch(group.name):
            yield f"task group {group.name!r}: expected lower-case letters, digits and '-', at most 63"


def _group(pod: core.Pod, namespace: str, protecting: set[str]) -> Object:
    written = pod.metadata.annotations
    groups = read_definition(written.get(TASK_GROUPS, ""), written.get(PARAMETERS, "")).groups
    needed, priority_class = sum(group.min_member for group in groups), pod.spec.priority_class_name
    reserves = needed <= PLACEHOLDERS_MAX and any(group.shape is not None for group in groups)
    spec: Object = {"minMember": needed}
    if _queue(pod):
        spec["queue"] = _queue(pod)
    if priority_class:
        spec["priorityClassName"] = priority_class
    opts_out = written.get(YUNIKORN_ALLOW_PREEMPTION, "true" if priority_class not in protecting else "false")
    if opts_out == "false":
        spec["disruption"] = {"preemptible": False}
    if reserves:
        spec["startWhen"] = "Reserved"
    spec["roles"] = [
        {"name": group.name, "count": group.min_member, "minMember": group.min_member}
        | ({"requests": dict(group.requests)} if reserves and group.shape is not None else {})
        for group in groups
    ]
    meta = {"name": application_of(pod), **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": API_VERSION, "kind": "PodGroup", "metadata": meta, "spec": spec}
