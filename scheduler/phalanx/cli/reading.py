"""Read objects with the rights of the kubeconfig's user, for commands that look at a cluster."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from phalanx.kube.client import Client
from phalanx.kube.connect import connect
from phalanx.kube.decode import KindDecoder, Undecodable
from phalanx.kube.errors import ApiError, Forbidden, NotFound
from phalanx.kube.transport import HttpTransport
from phalanx.model.api.kinds import KINDS

T = TypeVar("T")


class NotRead(Exception):
    """Something that the user may not read, or that the API does not serve. The message says what and why."""


class Reader(Struct, frozen=True):
    """Lists and reads by typed kind or as plain values. Raises NotRead, RequestNotSent or OutcomeUnknown."""

    transport: HttpTransport

    @property
    def client(self) -> Client:
        """The verbs of the API."""
        return Client(self.transport)

    async def kind(self, name: str, *, namespace: str = "") -> tuple[Any, ...]:
        """All objects of a kind of `model.api.kinds`; unreadable ones are left out."""
        kind = KINDS[name]
        decode = KindDecoder(kind).page

        def objects(body: bytes) -> tuple[Any, ...]:
            return decode(body).objects

        return await self._list(kind.path(namespace=namespace), objects)

    async def values(self, path: str, *, field_selector: str = "") -> tuple[Any, ...]:
        """The objects of a collection as plain values; all of them without a selector."""
        selected = {"fieldSelector": field_selector} if field_selector else {}
        return await self._list(
            path, lambda body: tuple(msgspec.json.decode(body).get("items") or ()), selected
        )

    async def value(self, path: str) -> Any:
        """One object as plain values; None if it does not exist."""
        try:
            return await self.client.get(path, msgspec.json.decode)
        except NotFound:
            return None
        except ApiError as error:
            raise _not_read(path, error) from error

    async def _list(
        self, path: str, objects: Callable[[bytes], tuple[T, ...]], selected: Mapping[str, str] | None = None
    ) -> tuple[T, ...]:
        found: list[T] = []
        try:
            async for body in self.client.pages(path, selected=selected):
                found += objects(body)
        except (ApiError, Undecodable) as error:
            raise _not_read(path, error) from error
        return tuple(found)


def _not_read(path: str, error: Exception) -> NotRead:
    if isinstance(error, Forbidden):
        return NotRead(f"you may not read {path}: {error.message}")
    return NotRead(f"the API does not serve {path}" if isinstance(error, NotFound) else f"{path}: {error}")


@asynccontextmanager
async def reader(*, kubeconfig: Path | None, context: str | None, connections: int) -> AsyncIterator[Reader]:
    """Connect as the kubeconfig says. Raises NoCluster."""
    async with connect(kubeconfig=str(kubeconfig) if kubeconfig else None, context=context) as cluster:
        transport = cluster.transport(connections=connections)
        try:
            yield Reader(transport)
        finally:
            await transport.close()
