"""The verbs of the API, thin and typed, on any Transport. A status that is not 2xx becomes an ApiError.

Bodies come in encoded: what is sent often is encoded once. Paths come from `Kind.path`. Nothing is retried
here; whoever asks knows what a failure means.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from phalanx.kube.errors import error_of
from phalanx.kube.mend import decode_leniently
from phalanx.limits import LIST_PAGE_OBJECTS, READ_TIMEOUT_S
from phalanx.model.api.meta import ListMeta
from phalanx.ports import Response, Transport

T = TypeVar("T")

_encode: Final = msgspec.json.Encoder().encode
_NO_ANNOTATIONS: Final[Mapping[str, str]] = {}


class Patch(StrEnum):
    """The kinds of patch. Strategic merge works on built-in kinds only: lists merge by their key."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class _ObjectName(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    name: str
    namespace: str
    uid: str
    annotations: Mapping[str, str] = {}


class _Target(msgspec.Struct, frozen=True, gc=False):
    name: str
    kind: str = "Node"
    apiVersion: str = "v1"  # noqa: N815 a field of the API


class _Binding(msgspec.Struct, frozen=True, gc=False):
    metadata: _ObjectName
    target: _Target
    kind: str = "Binding"
    apiVersion: str = "v1"  # noqa: N815 a field of the API


class Client:
    """Requests to one API server. Timeouts are in seconds."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, path: str, decode: Callable[[bytes], T], *, timeout: float = READ_TIMEOUT_S) -> T:
        """One object, read from the API server's storage, not from its cache."""
        response = await self._transport.request("GET", path, timeout=timeout)
        return decode(_checked(response).body)

    async def pages(self, path: str, *, limit: int = LIST_PAGE_OBJECTS) -> AsyncIterator[bytes]:
        """The pages of a consistent list. Raises Gone when it took so long that the rest is not kept."""
        query = {"limit": str(limit)}
        while True:
            response = await self._transport.request("GET", path, query=query, timeout=READ_TIMEOUT_S)
            body = _checked(response).body
            yield body
            token = decode_leniently(_decode_continue, body).metadata.continue_token
            if not token:
                return
            query["continue"] = token

    def watch(
        self, path: str, *, query: Mapping[str, str], idle_timeout: float
    ) -> AbstractAsyncContextManager[tuple[int, AsyncIterator[bytes]]]:
        """See Transport.stream."""
        return self._transport.stream(path, query={"watch": "true", **query}, idle_timeout=idle_timeout)

    async def create(self, path: str, body: bytes, *, timeout: float) -> bytes:
        """POST to a collection or a subresource; the answer's body."""
        return _checked(await self._transport.request("POST", path, body=body, timeout=timeout)).body

    async def patch(self, path: str, body: bytes, *, how: Patch, timeout: float) -> bytes:
        """The answer's body: the object as it is now."""
        response = await self._transport.request(
            "PATCH", path, body=body, content_type=how.value, timeout=timeout
        )
        return _checked(response).body

    async def delete(self, path: str, *, uid: str, timeout: float) -> None:
        """Delete the object of this UID, with its own grace period; Conflict when the name is another's."""
        body = _encode({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}})
        _checked(await self._transport.request("DELETE", path, body=body, timeout=timeout))

    async def bind(
        self,
        *,
        namespace: str,
        name: str,
        uid: str,
        node: str,
        annotations: Mapping[str, str] = _NO_ANNOTATIONS,
        timeout: float,
    ) -> None:
        """Bind the pod of this UID. Conflict when it is bound, deleting, gated or another pod.

        The server writes the annotations on the pod together with the node.
        """
        body = _encode(_Binding(_ObjectName(name, namespace, uid, annotations), _Target(node)))
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}/binding"
        response = await self._transport.request("POST", path, body=body, timeout=timeout)
        if response.status >= 300:
            raise error_of(response)


class _Page(msgspec.Struct, frozen=True):
    """The part of a list that says whether more follows; decoding it skips the items."""

    metadata: ListMeta = ListMeta()


_decode_continue: Final = msgspec.json.Decoder(_Page).decode


def _checked(response: Response) -> Response:
    if response.status >= 300:
        raise error_of(response)
    return response
