"""What PodGroups of Volcano and KAI say for their pods, and their pods for them.

Volcano forms subgroups of pods by their labels, counts pods without a task, and lets each pod say whether it
may be evicted. Both give pods the PriorityClass of their PodGroup. In Phalanx each object says this itself.
So here the objects get what is said elsewhere, before they are converted one by one.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from phalanx.cli.manifests.documents import Document
from phalanx.model.api.core import Pod
from phalanx.model.api.kinds import KINDS
from phalanx.model.api.unknown_fields import with_unknown_fields
from phalanx.model.api.volcano import VolcanoPodGroup
from phalanx.model.conversion.pod_groups import PodGroup
from phalanx.model.conversion.pods import read_pod
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.conversion.subgroup_policies import divided
from phalanx.model.dialects.dialect import Dialect
from phalanx.model.dialects.kai import KAI
from phalanx.model.dialects.volcano import (
    DEFAULT_MARKS,
    MARKS,
    TASK,
    VOLCANO,
    read_volcano_pod_group,
    task_of,
)
from phalanx.model.names import LABEL_SUBGROUP

from phalanx_dialects.conversion.inputs import Object, Report, namespace_of
from phalanx_dialects.conversion.kai_members import simplify
from phalanx_dialects.conversion.templates import mapping_of, read_template, templates_of

Key = tuple[str, str]
"""Namespace and name of a PodGroup."""

_GROUPS: Final = {"scheduling.volcano.sh/v1beta1": VOLCANO, "scheduling.run.ai/v2alpha2": KAI}
"""The dialects by the versions of their PodGroups."""

_NO_TASK: Final = "no-task"
"""The task of pods that name none."""

_NAME_MAX: Final = 60
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9-]+")


class _Member(Struct):
    """A pod, or a template of pods, that names a PodGroup."""

    document: Document
    template: Object
    pod: Pod


def with_what_others_say(
    documents: Sequence[Document], report: Report
) -> tuple[Sequence[Document], Mapping[Key, PodGroup]]:
    """The objects, and the PodGroups of Volcano with the subgroups that their pods form."""
    groups = [each for each in documents if each.kind == "PodGroup" and each.api_version in _GROUPS]
    if not groups:
        return documents, {}
    documents = [replace(document, value=deepcopy(document.value)) for document in documents]
    members: dict[tuple[str, Key], list[_Member]] = {}
    for dialect, member in _members(documents):
        key = (namespace_of(member.document.value), dialect.group_of(member.pod))
        members.setdefault((dialect.name, key), []).append(member)
    classes = {
        str(mapping_of(each.value.get("metadata")).get("name"))
        for each in documents
        if each.kind == "PriorityClass"
    }
    formed: dict[Key, PodGroup] = {}
    for document in documents:
        if document.kind != "PodGroup" or document.api_version not in _GROUPS:
            continue
        if not _is_readable(document):
            continue
        dialect = _GROUPS[document.api_version]
        key = (namespace_of(document.value), str(mapping_of(document.value.get("metadata")).get("name")))
        own = members.get((dialect.name, key), [])
        report.notes += [f"{document}: {note}" for note in _name_class(document.value, own, classes)]
        if dialect is KAI:
            notes = simplify(document.value, [member.template for member in own])
            report.notes += [f"{document}: {note}" for note in notes]
        else:
            found = _prepared(document, own, report)
            formed.update({} if found is None else {key: found})
    return documents, formed


def _is_readable(document: Document) -> bool:
    """Whether the PodGroup has values of the right types; else its conversion says which ones are wrong."""
    try:
        msgspec.convert(document.value, KINDS[_GROUPS[document.api_version].kind].struct)
    except msgspec.ValidationError:
        return False
    return True


def _members(documents: Sequence[Document]) -> Iterator[tuple[Dialect, _Member]]:
    for document in documents:
        for _, template in templates_of(document):
            try:
                pod = read_template(template)
            except msgspec.ValidationError:
                continue
            for dialect in _GROUPS.values():
                if dialect.group_of(pod):
                    yield dialect, _Member(document, template, pod)


def _name_class(group: Object, members: Sequence[_Member], classes: Container[str]) -> Iterator[str]:
    """A PodGroup of Phalanx raises no priority: its pods name the class themselves."""
    name = mapping_of(group.get("spec")).get("priorityClassName")
    specs = [member.template["spec"] for member in members if "spec" in member.template]
    without = [spec for spec in specs if not (spec.get("priorityClassName") or spec.get("priority"))]
    if not name or not without:
        return
    if name in classes:
        for spec in without:
            spec["priorityClassName"] = name
    else:
        yield f"spec.priorityClassName: {name} must also be named by its pods; it is not in the input"


def _prepared(document: Document, members: Sequence[_Member], report: Report) -> PodGroup | None:
    """Changes a PodGroup of Volcano and its pods. Returns it if its pods form subgroups."""
    report.notes += [f"{document}: {note}" for note in _move_marks(document.value, members)]
    _name_tasks(document.value, members)
    if not mapping_of(document.value.get("spec")).get("subGroupPolicy"):
        return None
    try:
        return _formed(document, members, report.wrong)
    except msgspec.ValidationError as error:
        report.wrong.append(f"{document}: {error}")
        return None


# --- marks and tasks ----------------------------------------------------------------------------------------


def _move_marks(group: Object, members: Sequence[_Member]) -> Iterator[str]:
    """What all pods say about evictions becomes what the PodGroup says. The notes name what is left out."""
    meta = mapping_of(group.get("metadata"))
    for key in MARKS:
        written = mapping_of(meta.get("annotations")).get(key, mapping_of(meta.get("labels")).get(key))
        default = written if written is not None else DEFAULT_MARKS.get(key)
        said = {_taken(member.template, key) or default for member in members}
        if said <= {default}:
            continue
        if written is None and len(said) == 1:
            group["metadata"] = meta = {
                **meta,
                "annotations": {**(meta.get("annotations") or {}), key: said.pop()},
            }
            continue
        yield f"{key}: of single pods is left out, a gang has one value; its surplus members fall first"


def _taken(template: Object, key: str) -> str | None:
    """The value of a pod, which is removed from it."""
    meta = template.get("metadata") if "spec" in template else template
    found = [(part or {}).pop(key, None) for part in map(mapping_of(meta).get, ("labels", "annotations"))]
    return next((str(value) for value in reversed(found) if value is not None), None)


def _name_tasks(group: Object, members: Sequence[_Member]) -> None:
    """Where tasks have minimums, pods without a task are those of one more."""
    minimums = mapping_of(group.get("spec")).get("minTaskMember")
    if not isinstance(minimums, dict) or not minimums:
        return
    if "" in minimums:
        minimums[_NO_TASK] = minimums.pop("")
    for member in members:
        if not task_of(member.pod) and "spec" in member.template:
            meta = member.template["metadata"]
            meta["annotations"] = {**(meta.get("annotations") or {}), TASK: _NO_TASK}


# --- subgroups ----------------------------------------------------------------------------------------------


def _formed(document: Document, members: Sequence[_Member], wrong: list[str]) -> PodGroup:
    """The PodGroup with the subgroups that its pods form; they get the labels that name them."""
    written = msgspec.convert(document.value, VolcanoPodGroup)
    group = read_volcano_pod_group(with_unknown_fields(written, document.value.get("spec")))
    if not members or any(member.document.kind != "Pod" for member in members):
        wrong.append(
            f"{document}: spec.subGroupPolicy: expected all of its pods in the input and no templates, "
            "since labels of the pods form the subgroups"
        )
        return group
    shapes = ShapeCache()
    pods = [
        read_pod(msgspec.convert(member.document.value, Pod), shapes=shapes, classes={}) for member in members
    ]
    whole, placed = divided(group, pods)
    names = _names([part.name for part in whole.subgroups])
    for member, pod in zip(members, placed, strict=True):
        if pod.subgroup:
            meta = member.template["metadata"]
            meta["labels"] = {**(meta.get("labels") or {}), LABEL_SUBGROUP: names[pod.subgroup]}
    return replace(whole, subgroups=tuple(replace(part, name=names[part.name]) for part in whole.subgroups))


def _names(subgroups: Sequence[str]) -> dict[str, str]:
    """Valid names of subgroups, which differ from each other."""
    found: dict[str, str] = {}
    for index, name in enumerate(subgroups):
        short = _NOT_IN_NAMES.sub("-", name.lower()).strip("-")[:_NAME_MAX].strip("-") or "part"
        found[name] = f"{short}-{index}" if short in found.values() else short
    return found
