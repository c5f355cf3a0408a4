"""`phalanx convert` for pods of YuniKorn: the PodGroup that their annotations define, and their labels."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from phalanx.cli.manifests.documents import Document
from phalanx.limits import PLACEHOLDERS_MAX
from phalanx.model.api import core
from phalanx.model.dialects.known import named_groups
from phalanx.model.dialects.task_groups import PARAMETERS, TASK_GROUPS, read_definition
from phalanx.model.dialects.yunikorn import (
    TASK_GROUP,
    YUNIKORN,
    application_of,
    application_without_task_group,
    queue_of,
)
from phalanx.model.names import API_VERSION, YUNIKORN_ALLOW_PREEMPTION

from phalanx_dialects.conversion.templates import mapping_of, pods_of

Object = dict[str, Any]

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_ROLE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def application_groups(documents: Iterable[Document], wrong: list[str]) -> list[Object]:
    """The PodGroups of the applications of all pods and pod templates, each once. Errors go to `wrong`."""
    documents = list(documents)
    protecting = set(_classes_that_opt_out(documents))
    found: dict[tuple[str, str], tuple[Object, core.Pod]] = {}
    pods = [(document, _namespace(document), pod) for document, pod in pods_of(documents)]
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


def _namespace(document: Document) -> str:
    return str(mapping_of(document.value.get("metadata")).get("namespace", ""))


def _classes_that_opt_out(documents: Iterable[Document]) -> Iterator[str]:
    for document in documents:
        meta = mapping_of(document.value.get("metadata"))
        opts_out = mapping_of(meta.get("annotations")).get(YUNIKORN_ALLOW_PREEMPTION) == "false"
        if opts_out and document.kind == "PriorityClass":
            yield str(meta.get("name"))


def _definition(pod: core.Pod) -> object:
    written = pod.metadata.annotations
    keys = (TASK_GROUPS, PARAMETERS, YUNIKORN_ALLOW_PREEMPTION)
    return ([written.get(key) for key in keys], queue_of(pod), pod.spec.priority_class_name)


def _errors(pod: core.Pod) -> Iterator[str]:
    """What a PodGroup cannot say. Other errors of the pod are reported with its labels."""
    written, name = pod.metadata.annotations, application_of(pod)
    definition = read_definition(written.get(TASK_GROUPS, ""), written.get(PARAMETERS, ""))
    yield from (problem.message for problem in definition.problems)
    if definition.ignored:
        yield f"metadata.annotations[{PARAMETERS}]: {definition.ignored}"
    if not written.get(TASK_GROUP):
        yield f"metadata.annotations[{TASK_GROUP}]: expected a task group, as of other pods with roles"
    for shown, each in (("application ID", name), ("queue", queue_of(pod))):
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
    if queue := queue_of(pod):
        spec["queue"] = queue
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
