"""The verbs of the Kubernetes API, typed, on any Transport. A status other than 2xx raises an ApiError.

Request bodies are encoded by the caller, who encodes once what it sends often; `Kind.path` returns paths.
Nothing is retried here, because only the caller knows what a failure means.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from phalanx.kube.decode import continue_token
from phalanx.kube.errors import error_of
from phalanx.limits import LIST_PAGE_OBJECTS, READ_TIMEOUT_S
from phalanx.model.decisions import Bind
from phalanx.ports import Response, Transport

T = TypeVar("T")

_encode: Final = msgspec.json.Encoder().encode
_NO_ANNOTATIONS: Final[Mapping[str, str]] = {}


class Patch(StrEnum):
    """The types of patch. Strategic merge works on built-in kinds only: lists merge by their key."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class Client:
    """Requests to one API server. Timeouts are in seconds."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, path: str, decode: Callable[[bytes], T], *, timeout: float = READ_TIMEOUT_S) -> T:
        """Read one object, from the API server's storage and not from its cache."""
        response = await self._transport.request("GET", path, timeout=timeout)
        return decode(_checked(response).body)

    async def pages(
        self, path: str, *, limit: int = LIST_PAGE_OBJECTS, selected: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:
        """Yield the pages of a consistent list. Raises Gone when the continue token has expired.

        `selected`: parameters that select objects, such as `fieldSelector`.
        """
        query = {"limit": str(limit), **(selected or {})}
        while True:
            response = await self._transport.request("GET", path, query=query, timeout=READ_TIMEOUT_S)
            body = _checked(response).body
            yield body
            token = continue_token(body)
            if not token:
                return
            query["continue"] = token

    def watch(
        self, path: str, *, query: Mapping[str, str], idle_timeout: float
    ) -> AbstractAsyncContextManager[tuple[int, AsyncIterator[bytes]]]:
        """Open a watch; see Transport.stream."""
        return self._transport.stream(path, query={"watch": "true", **query}, idle_timeout=idle_timeout)

    async def create(self, path: str, body: bytes, *, timeout: float) -> bytes:
        """POST to a collection or a subresource; return the body of the answer."""
        return _checked(await self._transport.request("POST", path, body=body, timeout=timeout)).body

    async def patch(self, path: str, body: bytes, *, how: Patch, timeout: float) -> bytes:
        """PATCH an object; return the object as it is now, encoded."""
        response = await self._transport.request(
            "PATCH", path, body=body, content_type=how.value, timeout=timeout
        )
        return _checked(response).body

    async def delete(self, path: str, *, uid: str, timeout: float) -> None:
        """Delete the object with this UID, with its own grace period. Raises Conflict for another UID."""
        body = _encode({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}})
        _checked(await self._transport.request("DELETE", path, body=body, timeout=timeout))

    async def bind(
        self, bind: Bind, *, annotations: Mapping[str, str] = _NO_ANNOTATIONS, timeout: float
    ) -> None:
        """Bind the pod with this UID. Raises Conflict when it is bound, deleting, gated or another pod.

        The API server writes the annotations on the pod together with the node.
        """
        metadata: dict[str, Any] = {"name": bind.name, "namespace": bind.namespace, "uid": bind.pod}
        if annotations:
            metadata["annotations"] = annotations
        target = {"name": bind.node, "kind": "Node", "apiVersion": "v1"}
        body = _encode({"metadata": metadata, "target": target, "kind": "Binding", "apiVersion": "v1"})
        path = f"/api/v1/namespaces/{quote(bind.namespace, safe='')}/pods/{quote(bind.name, safe='')}/binding"
        _checked(await self._transport.request("POST", path, body=body, timeout=timeout))


def _checked(response: Response) -> Response:
    if response.status >= 300:
        raise error_of(response)
    return response
