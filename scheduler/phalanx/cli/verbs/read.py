"""Read a cluster with the rights of the kubeconfig's user. What is forbidden is left out, with a note."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from phalanx.cli.verbs.listed import Listed
from phalanx.cli.verbs.seen import Seen
from phalanx.kube.blocking import BlockingClient
from phalanx.kube.decode import KindDecoder, decode_leniently
from phalanx.kube.errors import Forbidden, NotFound
from phalanx.model.api.config_maps import ConfigMap
from phalanx.model.api.kind import Kind
from phalanx.model.api.kinds import KINDS
from phalanx.model.api.meta import KubeObject
from phalanx.model.stored_records import RECORDS_NAME

_READ_THREADS: Final = 8
"""Kinds that are listed at the same time. Some are waited for while another one is decoded."""


class Wanted(Struct, frozen=True, kw_only=True):
    """What a command has to read."""

    kinds: tuple[str, ...]
    namespace: str
    """The namespace of which gangs are shown; empty for all."""
    everywhere: frozenset[str] = frozenset()
    """Namespaced kinds that are read in all namespaces anyway, because they use the capacity of nodes."""
    home: str = "default"
    """The namespace that is read if all may not be."""
    with_gangs: bool = True
    scheduler_name: str = "phalanx"
    quiet: frozenset[str] = frozenset()
    """Kinds that refine the answer a little. It is not noted that they are left out."""

    def is_everywhere(self, kind: str) -> bool:
        """Whether the kind is read in all namespaces. Owners are read where the pods are."""
        is_owner = kind not in self.kinds or bool(KINDS[kind].workload)
        return kind in self.everywhere or (is_owner and "Pod" in self.everywhere)


def read_cluster(client: BlockingClient, wanted: Wanted, *, now_ms: int) -> Seen:
    """List what is wanted, and the owners of pods. Raises ApiError, RequestNotSent or OutcomeUnknown."""
    found = _list_all(client, wanted, wanted.kinds)
    snapshot = None
    if wanted.with_gangs:
        from phalanx.cli.verbs.gangs_of_objects import snapshot_of

        def read_more(kinds: Iterable[str]) -> dict[str, Listed]:
            return _list_all(client, wanted, kinds)

        snapshot = snapshot_of(found, read_more, scheduler_name=wanted.scheduler_name, now_ms=now_ms)
    return Seen(
        now_ms=now_ms,
        namespace=wanted.namespace,
        objects={name: each.objects for name, each in found.items()},
        unread={name: each.why_not for name, each in found.items() if each.why_not and not each.is_partial},
        partial=frozenset(name for name, each in found.items() if each.is_partial),
        notes=tuple(
            each.why_not
            for name, each in found.items()
            if each.why_not and each.is_served and name not in wanted.quiet
        ),
        snapshot=snapshot,
    )


def with_records(client: BlockingClient, seen: Seen, *, namespace: str) -> Seen:
    """With the records of gangs without a PodGroup, which the scheduler keeps in its namespace."""
    try:
        body = client.get(KINDS[ConfigMap.__name__].path(namespace=namespace, name=RECORDS_NAME))
    except (Forbidden, NotFound) as error:
        why = "there is none" if isinstance(error, NotFound) else "you may not get it"
        note = (
            f"ConfigMap {RECORDS_NAME} of namespace {namespace} is left out: {why}. The scheduler may know "
            "of other lost members, and of other ages, of gangs without a PodGroup"
        )
        return replace(seen, notes=(*seen.notes, note))
    found = decode_leniently(msgspec.json.Decoder(ConfigMap).decode, body)
    return replace(seen, objects={**seen.objects, ConfigMap.__name__: (found,)})


def _list_all(client: BlockingClient, wanted: Wanted, kinds: Iterable[str]) -> dict[str, Listed]:
    with ThreadPoolExecutor(_READ_THREADS) as threads:
        try:
            answers = threads.map(lambda name: _list(client, wanted, KINDS[name]), kinds)
            return {each.kind: each for each in answers}
        except KeyboardInterrupt:
            client.stop()  # else the threads would wait for a server that does not answer
            raise


def _list(client: BlockingClient, wanted: Wanted, kind: Kind) -> Listed:
    """List a kind; where all namespaces may not be read, one of them."""
    where = "" if not kind.namespaced or wanted.is_everywhere(kind.name) else wanted.namespace
    try:
        return Listed(kind.name, _objects(client, kind, kind.path(namespace=where)))
    except NotFound:
        why = f"{kind.resource} are left out: the API does not serve them"
        return Listed(kind.name, why_not=why, is_served=not kind.optional)
    except Forbidden:
        if kind.name == "Namespace":
            return _own_namespace(client, wanted, kind)
        if not kind.namespaced or where:
            return Listed(kind.name, why_not=_left_out(kind, where))
    where = wanted.namespace or wanted.home
    try:
        objects = _objects(client, kind, kind.path(namespace=where))
    except Forbidden:
        return Listed(kind.name, why_not=_left_out(kind, ""))
    why = f"{kind.resource} of other namespaces than {where} are left out: you may not list them"
    return Listed(kind.name, objects, why, is_partial=True)


def _left_out(kind: Kind, namespace: str) -> str:
    place = f" in namespace {namespace}" if namespace else ""
    return f"{kind.resource} are left out: you may not list them{place}"


def _own_namespace(client: BlockingClient, wanted: Wanted, kind: Kind) -> Listed:
    """The one namespace, whose labels name a queue. Users may read their own without listing all."""
    path = kind.path(name=wanted.namespace or wanted.home)
    try:
        body = client.get(path)
    except (Forbidden, NotFound):
        return Listed(kind.name, is_partial=True)
    return Listed(kind.name, KindDecoder(kind).page(b'{"items":[' + body + b"]}").objects, is_partial=True)


def _objects(client: BlockingClient, kind: Kind, path: str) -> tuple[KubeObject, ...]:
    decode = KindDecoder(kind).page
    return tuple(item for body in client.pages(path) for item in decode(body).objects)


def namespace_of(*, named: str | None, of_context: str) -> str:
    """The namespace that counts, as for kubectl."""
    return named or of_context or "default"
