"""Add to objects what an API server and its admission would add, and derive the current time from them.

Namespaces that are mentioned exist. No clock is read: objects without a creationTimestamp come after all that
have one, in the order of the documents, one second apart.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from msgspec.structs import replace

from phalanx.cli.exits import BadInput
from phalanx.cli.manifests.documents import Document
from phalanx.cli.manifests.findings import Finding
from phalanx.model.api.core import Namespace, Node, NodeStatus, Pod, PodStatus, PriorityClass
from phalanx.model.api.kind import Kind
from phalanx.model.api.meta import KubeObject, ObjectMeta
from phalanx.model.api.values import parse_time, since_epoch, utc
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.conversion.cluster_objects import BUILT_IN, PriorityLevel, read_priority_class, resolve
from phalanx.model.conversion.metadata import identity
from phalanx.model.dialects.known import WITH_OBJECTS
from phalanx.model.names import KUBERNETES_SCHEDULER
from phalanx.model.pods import PodPhase
from phalanx.model.resources import PODS

Item = tuple[Document, KubeObject]

NO_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""The time where the input contains none."""

_DEFAULT_NAMESPACE: Final = "default"
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
_KUBELET_PODS: Final = 110
_DATED: Final = frozenset(
    (Pod.__name__, WorkloadObject.__name__, *(dialect.kind for dialect in WITH_OBJECTS))
)


def latest_time(documents: Iterable[Document]) -> datetime:
    """Return the latest time in the documents outside of specs, whose times may be in the future."""
    observed = (
        {key: value[key] for key in value if key != "spec"}
        for value in (document.value for document in documents)
    )
    return max((at for fields in observed for at in _times(fields)), default=NO_TIME)


def _times(value: Any) -> Iterator[datetime]:
    if isinstance(value, dict):
        for key, item in value.items():
            is_named_so = isinstance(item, str) and key.lower().endswith(("time", "timestamp", "at"))
            at = parse_time(item) if is_named_so else None
            if at is not None:
                yield at
            else:
                yield from _times(item)
    elif isinstance(value, list):
        for item in value:
            yield from _times(item)


def complete_references(document: Document, *, namespaced: bool) -> None:
    """Set missing UIDs of owners, and of pods that use a claim, to those that they get here. Changes the
    document."""
    metadata = document.value.get("metadata")
    owners = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    namespace = (
        metadata.get("namespace", _DEFAULT_NAMESPACE) if isinstance(metadata, dict) and namespaced else ""
    )
    for owner in owners if isinstance(owners, list) else ():
        if isinstance(owner, dict) and "kind" in owner and "name" in owner:
            owner.setdefault("uid", _derived_uid(owner["kind"], namespace, owner["name"]))
    status = document.value.get("status")
    users = status.get("reservedFor") if isinstance(status, dict) else None
    for user in users if isinstance(users, list) else ():
        if isinstance(user, dict) and user.get("resource") == "pods" and "name" in user:
            user.setdefault("uid", _derived_uid("Pod", namespace, user["name"]))


def identified(item: KubeObject, kind: Kind) -> KubeObject:
    """Return the object with a namespace, where its kind has one, and a UID."""
    metadata = item.metadata
    namespace = (metadata.namespace or _DEFAULT_NAMESPACE) if kind.namespaced else ""
    is_workload = isinstance(item, WorkloadObject)  # owner references have its kind in the API
    uid = metadata.uid or _derived_uid(kind.api_name if is_workload else kind.name, namespace, metadata.name)
    return replace(item, metadata=replace(metadata, namespace=namespace, uid=uid))


def _derived_uid(kind: str, namespace: str, name: str) -> str:
    return identity(kind, ObjectMeta(namespace=namespace, name=name))


def admit(
    items: Iterable[Item], *, latest: datetime, classes: Iterable[PriorityClass] = ()
) -> tuple[KubeObject, ...]:
    """Return all objects as a scheduler would see them, the implied ones first. Raises BadInput.

    `classes`: PriorityClasses that exist beside those of the items.
    """
    items = tuple(items)
    written = (*classes, *(item for _, item in items if isinstance(item, PriorityClass)))
    levels = {item.metadata.name: read_priority_class(item) for item in written}
    admitted: list[KubeObject] = []
    wrong: list[str] = []
    for document, item in items:
        try:
            admitted.append(_admitted(item, levels))
        except _Refused as refused:
            wrong.append(f"{document}: {refused.finding}")
    if wrong:
        raise BadInput(*wrong)
    return (*_implied(admitted), *_dated(admitted, latest))


class _Refused(Exception):
    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


def _admitted(item: KubeObject, classes: Mapping[str, PriorityLevel]) -> KubeObject:
    if isinstance(item, Pod):
        return _pod(item, classes)
    if isinstance(item, Node):
        return _node(item)
    if isinstance(item, Namespace):
        return _namespace(item)
    return item


def _pod(pod: Pod, classes: Mapping[str, PriorityLevel]) -> Pod:
    spec = pod.spec
    level = _priority(pod, classes)
    spec = replace(
        spec,
        scheduler_name=spec.scheduler_name or KUBERNETES_SCHEDULER,
        priority=level.value,
        preemption_policy=spec.preemption_policy or level.preemption_policy,
    )
    phase = pod.status.phase or (PodPhase.RUNNING if spec.node_name else PodPhase.PENDING)
    status: PodStatus = replace(pod.status, phase=str(phase))
    return replace(pod, spec=spec, status=status)


def _priority(pod: Pod, classes: Mapping[str, PriorityLevel]) -> PriorityLevel:
    """Resolve the priority as the admission plugin does; a class may be missing where the value is given."""
    name, given = pod.spec.priority_class_name, pod.spec.priority
    level = resolve(name, classes)
    if level is None and given is None:
        known = ", ".join((*classes, *BUILT_IN))
        raise _Refused(
            Finding("spec.priorityClassName", f"a PriorityClass of the input ({known})", f'"{name}"')
        )
    if level is not None and name and given not in (None, level.value):
        expected = f"{level.value}, the value of PriorityClass {name}"
        raise _Refused(Finding("spec.priority", expected, str(given)))
    if level is None or (given is not None and not name):
        return PriorityLevel(value=given or 0)
    return level


def _node(node: Node) -> Node:
    """Default allocatable to capacity, and the maximum number of pods to that of a kubelet."""
    allocatable = (
        {**node.status.capacity, **node.status.allocatable}
        if node.status.capacity
        else dict(node.status.allocatable)
    )
    allocatable.setdefault(PODS, _KUBELET_PODS)
    status: NodeStatus = replace(node.status, allocatable=allocatable)
    return replace(node, status=status)


def _namespace(namespace: Namespace) -> Namespace:
    metadata = namespace.metadata
    labels = {**metadata.labels, _NAMESPACE_NAME: metadata.name}
    return replace(namespace, metadata=replace(metadata, labels=labels))


def _implied(items: Iterable[KubeObject]) -> Iterator[KubeObject]:
    """Yield the namespaces that are mentioned but not given."""
    items = tuple(items)
    given = {item.metadata.name for item in items if isinstance(item, Namespace)}
    mentioned = dict.fromkeys(item.metadata.namespace for item in items if item.metadata.namespace)
    for name in mentioned:
        if name not in given:
            metadata = ObjectMeta(name=name, uid=_derived_uid("Namespace", "", name))
            yield _namespace(Namespace(metadata=metadata))


def _dated(items: Iterable[KubeObject], latest: datetime) -> Iterator[KubeObject]:
    """Set missing creation times of pods, PodGroups and workloads; no other age matters."""
    youngest = latest
    for item in items:
        if type(item).__name__ in _DATED and item.metadata.creation_timestamp is None:
            youngest = utc(since_epoch(youngest) + 1)
            yield replace(item, metadata=replace(item.metadata, creation_timestamp=youngest.isoformat()))
        else:
            yield item
