"""The pods that the controller of a workload would create, as manifests, for one that is not submitted yet.

The pods are owned by the workload directly, also where a real controller has Jobs between them. Names are of
the form WORKLOAD-ROLE-NUMBER.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from phalanx.cli.exits import BadInput
from phalanx.cli.manifests.documents import Document
from phalanx.limits import PLACEHOLDERS_MAX
from phalanx.model.workloads.kind import RolePaths, WorkloadKind, value_at
from phalanx.model.workloads.known import WorkloadKinds

_SPEC: Final = ".spec"

Values = Mapping[str, Any]


def pods_of(document: Document, kinds: WorkloadKinds) -> Iterator[Document]:
    """The pods of a document; none if it is no workload, or is suspended. Raises BadInput for too many."""
    kind = kinds.by_name.get(kinds.of_owner(document.api_version, document.kind))
    if kind is None or value_at(document.value, kind.suspended) is True:
        return
    number = 0
    for paths in kind.roles:
        described = value_at(document.value, paths.at) if paths.at else document.value
        for role in described if isinstance(described, list) else [described]:
            if isinstance(role, Mapping):
                for pod in _pods(document, kind, paths, role):
                    number += 1
                    if number > PLACEHOLDERS_MAX:
                        raise BadInput(f"{document}: expected at most {PLACEHOLDERS_MAX} pods, found more")
                    yield pod


def _pods(document: Document, kind: WorkloadKind, paths: RolePaths, role: Values) -> Iterator[Document]:
    at = paths.template if value_at(role, paths.template) is not None else paths.other_template
    template = value_at(role, at)
    if not isinstance(template, Mapping) or not at.endswith(_SPEC):
        return
    metadata = value_at(role, at.removesuffix(_SPEC)) or {}
    name = str(role.get(paths.name) or paths.called)
    labels = {**(value_at(metadata, "metadata.labels") or {})}
    if kind.role_label and name:
        labels.setdefault(kind.role_label, name)
    own = document.value.get("metadata") or {}
    for place in range(_count(paths, role)):
        parts = [str(own.get("name", "")), *([name] if name else []), str(place)]
        value = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "-".join(parts)[-253:].lower(),
                "labels": labels,
                "annotations": dict(value_at(metadata, "metadata.annotations") or {}),
                "ownerReferences": [_owner(document, own)],
                **{key: own[key] for key in ("namespace", "creationTimestamp") if key in own},
            },
            "spec": dict(template),
        }
        yield Document(document.source, f"{document.place}, pod {place}", value)


def _owner(document: Document, own: Values) -> dict[str, Any]:
    owner = {"apiVersion": document.api_version, "kind": document.kind, "name": own.get("name", "")}
    return {**owner, "controller": True, **({"uid": own["uid"]} if "uid" in own else {})}


def _count(paths: RolePaths, role: Values) -> int:
    """How many pods exist at the same time."""
    pods = max(_number(role, paths.pods, paths.pods_if_missing), _number(role, paths.least, 0))
    pods = min(pods, _number(role, paths.most, pods))
    whole = 0 if value_at(role, paths.suspended) is True else _number(role, paths.completions, pods)
    owners, hosts = _number(role, paths.owners, 1), _number(role, paths.hosts, 1)
    return owners * max(min(pods, whole) - paths.including, 0) * hosts


def _number(role: Values, path: str, default: int) -> int:
    value = value_at(role, path)
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_number else default
