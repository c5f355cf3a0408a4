"""Who sent a token, and what this user may list: TokenReview and SubjectAccessReview. This blocks."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec
from msgspec import Struct
from phalanx.kube.blocking import BlockingClient
from phalanx.model.names import API_GROUP

from phalanx_dashboard.facts import EVERYTHING, Scope

_REVIEW_THREADS: Final = 8
"""Reviews of one user that are asked for at the same time, one for each namespace."""


_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

OF_GANGS: Final = (("", "pods"), (API_GROUP, "podgroups"))
"""What somebody must be able to list in a namespace to see its gangs, as group and resource."""
OF_NODES: Final = (("", "nodes"), (API_GROUP, "topologies"))
OF_QUEUES: Final = ((API_GROUP, "queues"),)

Kinds = Iterable[tuple[str, str]]


class User(Struct, frozen=True):
    """A user as the API server knows it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenStatus(Struct, frozen=True):
    authenticated: bool = False
    user: User = User()


class _AccessStatus(Struct, frozen=True):
    allowed: bool = False
    denied: bool = False


class _Token(Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _Access(Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


_token_of: Final = msgspec.json.Decoder(_Token).decode
_access_of: Final = msgspec.json.Decoder(_Access).decode


def user_of(client: BlockingClient, token: str) -> User | None:
    """The user whose token it is; None if the API server does not accept it. Raises what requests raise."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    status = _token_of(client.create(_TOKENS, body)).status
    return status.user if status.authenticated and status.user.username else None


def scope_of(client: BlockingClient, user: User, namespaces: Iterable[str]) -> Scope:
    """What the user may see, if gangs are in these namespaces. Raises what requests raise."""
    nodes, queues = _may(client, user, OF_NODES), _may(client, user, OF_QUEUES)
    if _may(client, user, OF_GANGS):
        return EVERYTHING if nodes and queues else Scope(nodes=nodes, queues=queues)
    asked = sorted(namespaces)
    with ThreadPoolExecutor(_REVIEW_THREADS) as threads:
        answers = threads.map(lambda name: _may(client, user, OF_GANGS, name), asked)
        allowed = frozenset(name for name, is_allowed in zip(asked, answers, strict=True) if is_allowed)
    return Scope(namespaces=allowed, nodes=nodes, queues=queues)


def _may(client: BlockingClient, user: User, kinds: Kinds, namespace: str = "") -> bool:
    """Whether the user may list all of these; in all namespaces for an empty name."""
    return all(_may_list(client, user, group, resource, namespace) for group, resource in kinds)


def _may_list(client: BlockingClient, user: User, group: str, resource: str, namespace: str) -> bool:
    attributes = {"verb": "list", "group": group, "resource": resource, "namespace": namespace}
    spec: dict[str, Any] = {
        "user": user.username,
        "uid": user.uid,
        "groups": user.groups,
        "extra": user.extra,
        "resourceAttributes": attributes,
    }
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    status = _access_of(client.create(_ACCESS, body)).status
    return status.allowed and not status.denied
