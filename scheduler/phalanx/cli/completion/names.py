"""Live names for completions, with the rights of the user. What cannot be read is no candidate."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import Any, Final

import msgspec
from msgspec import Struct

from phalanx.kube.blocking import BlockingClient
from phalanx.kube.errors import ApiError
from phalanx.kube.kubeconfig import NoCluster, Source, contexts
from phalanx.model.api.kinds import KINDS
from phalanx.ports import OutcomeUnknown, RequestNotSent

_COMPLETION_NAMES_MAX: Final = 500
"""Names that a completion offers. More cannot be read."""

_COMPLETION_TIMEOUT_S: Final = 2.0
"""Seconds after which a completion gives up, because somebody waits for the Tab key."""


Candidate = tuple[str, str]
"""A word and its description."""


class _Metadata(Struct, frozen=True):
    name: str = ""


class _Named(Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    status: Mapping[str, Any] = {}


class _Names(Struct, frozen=True):
    items: list[_Named] | None = None


_names_of: Final = msgspec.json.Decoder(_Names).decode


class Cluster(Struct, frozen=True):
    """The options of the line so far that say which cluster and which namespace."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None


def live_names(what: str, cluster: Cluster) -> list[Candidate]:
    """The names of gangs, queues, nodes, topologies, namespaces or contexts."""
    if what == "contexts":
        return [(name, "context") for name in contexts(cluster.kubeconfig)]
    try:
        access = Source(cluster.kubeconfig, cluster.context).read()
        with closing(BlockingClient(access, timeout=_COMPLETION_TIMEOUT_S)) as client:
            namespace = cluster.namespace or access.namespace or "default"
            return list(_SOURCES[what](_Reader(client, namespace)))
    except (NoCluster, ApiError, RequestNotSent, OutcomeUnknown, msgspec.DecodeError, KeyError):
        return []


class _Reader(Struct, frozen=True):
    client: BlockingClient
    namespace: str

    def objects(self, kind: str) -> list[_Named]:
        """The first objects of a kind, in the namespace that counts."""
        path = KINDS[kind].path(namespace=self.namespace if KINDS[kind].namespaced else "")
        return _names_of(self.client.get(path, {"limit": str(_COMPLETION_NAMES_MAX)})).items or []


def _gangs(reader: _Reader) -> Iterable[Candidate]:
    """PodGroups with their phase, and pods of other gangs."""
    for each in reader.objects("PodGroup"):
        status = each.status
        text = " ".join(str(status[key]) for key in ("phase", "reason") if status.get(key))
        yield (each.metadata.name, text or "PodGroup")
    for each in reader.objects("Job.batch"):
        yield (f"job/{each.metadata.name}", "Job")


def _named(kind: str) -> Callable[[_Reader], Iterable[Candidate]]:
    return lambda reader: [(each.metadata.name, kind.lower()) for each in reader.objects(kind)]


_SOURCES: Final[Mapping[str, Callable[[_Reader], Iterable[Candidate]]]] = {
    "gangs": _gangs,
    "queues": _named("Queue"),
    "nodes": _named("Node"),
    "topologies": _named("Topology"),
    "namespaces": _named("Namespace"),
}
