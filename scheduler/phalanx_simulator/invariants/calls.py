"""A scheduler's request as the checks use it, parsed once."""

from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any, Final

import msgspec

from phalanx_simulator.embedded.store import Key
from phalanx_simulator.hosts.network import Exchange
from phalanx_simulator.hosts.replica import Replica

_PATHS_KNOWN: Final = 1024
"""Each replica requests the same Lease every two seconds, which makes most of all requests."""


class Stage(StrEnum):
    """Progress of a request."""

    SENT = "sent"
    LANDED = "landed"
    ANSWERED = "answered"


class Call:
    """One request of a scheduler.

    `key` names the object in the store. `replica` is the sender, if known; `own_sent` is the time of sending
    by its own clock. `stage` is the progress for which the checks are called. `is_bind`: it binds a pod.
    `is_eviction`: it deletes or evicts a pod. `is_lease`: it reads or writes the Lease.
    """

    def __init__(self, exchange: Exchange, replica: Replica | None) -> None:
        self.exchange = exchange
        self.replica = replica
        self.host = exchange.host
        self.stage = Stage.SENT
        self.own_sent = replica.clock.monotonic() if replica is not None else exchange.sent_at
        group, namespace, plural, name, subresource = _parts(exchange.path)
        self.group = group
        self.plural = plural
        self.resource = f"{plural}/{subresource}" if subresource else plural
        self.verb = _verb(exchange.method, name)
        self.key = Key(f"{plural}.{group}" if group else plural, namespace, name)
        self.is_write = exchange.method != "GET"
        self.is_bind = self.resource == "pods/binding" and self.is_write
        self.is_eviction = self.resource == "pods/eviction" or (
            self.resource == "pods" and self.verb == "delete"
        )
        self.is_lease = plural == "leases"
        self.has_landed = False

    @cached_property
    def body(self) -> Any:
        """The body as JSON; empty without one."""
        return msgspec.json.decode(self.exchange.body) if self.exchange.body else {}

    @cached_property
    def uid(self) -> str:
        """The UID precondition of the request; empty without one."""
        if self.is_bind:
            return str(self._meta.get("uid") or "")
        if self.verb == "delete":
            return _precondition(self.body)
        if self.resource == "pods/eviction":
            return _precondition(self.body.get("deleteOptions") or {})
        return str(self._meta.get("uid") or "")

    @cached_property
    def node(self) -> str:
        """The target node of a bind."""
        return str((self.body.get("target") or {}).get("name") or "")

    @property
    def _meta(self) -> Any:
        return self.body.get("metadata") or {}

    @property
    def succeeded(self) -> bool:
        """Whether the server applied it."""
        response = self.exchange.response
        return response is not None and response.status < 300

    @property
    def answered_ok(self) -> bool:
        """Whether the sender knows that it was applied."""
        return (self.exchange.outcome or "").startswith("2")


def _precondition(options: Any) -> str:
    return str((options.get("preconditions") or {}).get("uid") or "")


def _verb(method: str, name: str) -> str:
    if method == "GET":
        return "get" if name else "list"
    return _VERBS.get(method, method.lower())


_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@lru_cache(_PATHS_KNOWN)
def _parts(path: str) -> tuple[str, str, str, str, str]:
    """Group, namespace, plural, name, subresource."""
    parts = path.strip("/").split("/")
    if len(parts) < 3 or parts[0] not in ("api", "apis"):
        return "", "", path, "", ""
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = [*rest, "", "", ""][:3]
    return group, namespace, plural, name, subresource
