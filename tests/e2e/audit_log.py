"""The API server's audit log: requested binds with their responses, and permissions that were used."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct

SCHEDULER_USER = "system:serviceaccount:phalanx-system:phalanx"

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "users": [SCHEDULER_USER]},
        {"level": "Metadata", "resources": [{"group": "", "resources": ["pods/binding"]}]},
        {"level": "None"},
    ],
}


class ObjectRef(Struct, frozen=True, rename="camel"):
    resource: str = ""
    subresource: str = ""
    api_group: str = ""
    namespace: str = ""
    name: str = ""


class ResponseStatus(Struct, frozen=True):
    code: int = 0


class User(Struct, frozen=True):
    username: str


class Entry(Struct, frozen=True, rename="camel"):
    """One request, at the stage when its response was complete, or had started for a watch."""

    verb: str
    user: User
    stage: str
    object_ref: ObjectRef = ObjectRef()
    response_status: ResponseStatus = ResponseStatus()
    annotations: dict[str, str] = {}


class BindRequest(Struct, frozen=True):
    """One POST to a pod's binding; the pod by namespace and name."""

    pod: str
    user: str
    accepted: bool


class Permission(Struct, frozen=True, order=True):
    """One verb on one resource (`pods/binding` for a subresource) of one API group."""

    group: str
    resource: str
    verb: str


class AuditLog:
    """A log that an API server with `flags` writes. Every method reads it again."""

    def __init__(self, folder: Path, *, start: int = 0) -> None:
        self._folder = folder
        self._start = start
        """In bytes. What the log has before is left out."""
        self._log = folder / "audit.log"
        self._policy = folder / "audit-policy.yaml"
        self._policy.write_text(yaml.safe_dump(POLICY))

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags for the API server's command line."""
        return (f"--audit-policy-file={self._policy}", f"--audit-log-path={self._log}")

    def from_now(self) -> "AuditLog":
        """The same log without what it has so far."""
        return AuditLog(self._folder, start=self._log.stat().st_size)

    def _bytes(self) -> bytes:
        with self._log.open("rb") as log:
            log.seek(self._start)
            return log.read()

    def entries(self) -> list[Entry]:
        """All entries. A line that a killed API server did not finish is left out."""
        decode = msgspec.json.Decoder(Entry).decode
        lines = self._bytes().split(b"\n")
        return [decode(line) for line in lines if line.endswith(b"}")]

    def binds(self) -> list[BindRequest]:
        """Every bind that was requested and answered."""
        return [
            BindRequest(
                pod=f"{entry.object_ref.namespace}/{entry.object_ref.name}",
                user=entry.user.username,
                accepted=entry.response_status.code == 201,
            )
            for entry in self.entries()
            if entry.object_ref.subresource == "binding" and entry.stage == "ResponseComplete"
        ]

    async def until_bound(self, count: int, *, timeout: float = 60.0) -> None:
        """Wait until so many binds were accepted; on a busy machine a watch would show them later."""
        async with asyncio.timeout(timeout):
            while self._bytes().count(b'"subresource":"binding"') < count:
                await asyncio.sleep(0.01)

    def accepted(self) -> int:
        """How many binds were accepted so far."""
        return sum(bind.accepted for bind in self.binds())

    def denied(self) -> list[str]:
        """Requests of the scheduler that were forbidden."""
        return [
            f"{entry.verb} {entry.object_ref}"
            for entry in self._of_scheduler()
            if entry.annotations.get("authorization.k8s.io/decision") == "forbid"
        ]

    def used(self) -> set[Permission]:
        """The permissions that the scheduler used."""
        return {
            Permission(ref.api_group, f"{ref.resource}/{ref.subresource}".rstrip("/"), entry.verb)
            for entry in self._of_scheduler()
            if (ref := entry.object_ref).resource
        }

    async def until_used(self, permissions: set[Permission], *, timeout: float = 60.0) -> None:
        """Wait until the scheduler has used all these permissions."""
        try:
            async with asyncio.timeout(timeout):
                while not permissions <= self.used():
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise AssertionError(f"never used: {sorted(permissions - self.used())}") from None

    def _of_scheduler(self) -> list[Entry]:
        return [entry for entry in self.entries() if entry.user.username == SCHEDULER_USER]


def granted(*roles: dict[str, Any]) -> set[Permission]:
    """Every permission in the rules of some roles."""
    return {
        Permission(group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
