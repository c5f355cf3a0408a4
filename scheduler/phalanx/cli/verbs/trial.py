"""Run the scheduler's cycles on the objects of a cluster, without and with changes."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from phalanx.cli.configuration import read_config
from phalanx.cli.exits import BadInput
from phalanx.cli.formatting import count
from phalanx.cli.manifests.documents import Document, parse, read_sources
from phalanx.cli.manifests.read import kind_of, read_documents
from phalanx.cli.static_cluster import StaticCluster, run_until_stable
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.views.edits import Objects
from phalanx.cli.verbs.views.pods_of_workloads import pods_of
from phalanx.cli.verbs.views.what_if import Outcome, WhatIfView, what_if_view
from phalanx.kube.api_fields import format_time
from phalanx.model.api.core import PriorityClass
from phalanx.model.api.meta import KubeObject
from phalanx.model.workloads.known import WorkloadKinds, workload_kinds


class Changes(Struct, frozen=True, kw_only=True):
    """What the user asks about."""

    submit: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    add_nodes: int = 0
    like: str | None = None
    queue: str | None = None
    weight: int | None = None


def try_changes(seen: Seen, changes: Changes, *, config: Path | None, namespace: str) -> WhatIfView:
    """Compare the cluster without and with the changes. Raises BadInput."""
    settings = read_config(config)
    kinds = workload_kinds(settings.workloads)
    now = format_time(seen.now_ms)
    present = [item for objects in seen.objects.values() for item in objects]
    edited = Objects(present)
    submitted = submitted_objects(changes.submit, seen, kinds, namespace=namespace, now=now)
    edited.submit(submitted)
    for node in changes.drain:
        edited.drain(node, now=now)
    if changes.like is not None:
        edited.add_nodes(changes.add_nodes, like=changes.like, state_taints=settings.state_taints)
    if changes.queue is not None and changes.weight is not None:
        edited.set_weight(changes.queue, changes.weight)
    gang_of = _gang_names(seen)
    uids = {item.metadata.uid for item in submitted}
    cluster = StaticCluster(edited.all(), config=settings, now=seen.now_ms)
    gangs = tuple(cluster.snapshot().gangs.values())
    after = Outcome(*run_until_stable(cluster, settings))
    present_cluster = StaticCluster(present, config=settings, now=seen.now_ms)
    before = Outcome(*run_until_stable(present_cluster, settings))
    return what_if_view(
        before,
        after,
        changes=list(_described(changes)),
        drained=[gang_of.get(pod.metadata.uid, _name(pod)) for pod in edited.drained],
        submitted=[str(gang) for gang in gangs if any(pod.uid in uids for pod in gang.members)],
        names={str(gang.id): str(gang) for gang in gangs},
    )


def submitted_objects(
    files: Sequence[str], seen: Seen, kinds: WorkloadKinds, *, namespace: str, now: str
) -> tuple[KubeObject, ...]:
    """The objects of the manifests as an API server would have created them now, with pods of workloads."""
    if not files:
        return ()
    documents = [document for source in read_sources(files) for document in parse(source)]
    for document in documents:
        _complete(document, kinds, namespace=namespace, now=now)
    pods = [pod for document in documents for pod in pods_of(document, kinds)]
    return read_documents([*documents, *pods], kinds, classes=seen.of(PriorityClass)).objects


def _complete(document: Document, kinds: WorkloadKinds, *, namespace: str, now: str) -> None:
    """Set the namespace and the creation time, as an API server does. Changes the document."""
    metadata = document.value.get("metadata")
    try:
        kind = kind_of(document, kinds)
    except BadInput:
        return  # it is reported with all other errors
    if isinstance(metadata, dict):
        metadata.setdefault("creationTimestamp", now)
        if kind is not None and kind.namespaced:
            metadata.setdefault("namespace", namespace)


def _gang_names(seen: Seen) -> dict[str, str]:
    return {str(pod.uid): str(gang) for gang in seen.cluster.gangs.values() for pod in gang.members}


def _name(item: KubeObject) -> str:
    return f"pod {item.metadata.namespace}/{item.metadata.name}"


def _described(changes: Changes) -> Iterable[str]:
    yield from (f"{name} submitted" for name in changes.submit)
    yield from (f"node {name} drained" for name in changes.drain)
    if changes.like is not None:
        yield f"{count(changes.add_nodes, 'node')} like {changes.like} added"
    if changes.queue is not None:
        yield f"queue {changes.queue} with weight {changes.weight}"
