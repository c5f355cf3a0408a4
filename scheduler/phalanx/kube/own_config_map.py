"""A ConfigMap that only the scheduler writes.

Each write names the version of the one before. A write that an earlier leader sends late is then refused.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from phalanx.kube.client import Patch
from phalanx.kube.decode import decode_leniently
from phalanx.kube.errors import Conflict, NotFound
from phalanx.kube.writing import WriteContext
from phalanx.model.api.config_maps import ConfigMap
from phalanx.model.api.kinds import KINDS

_LABELS: Final = {"app.kubernetes.io/name": "phalanx"}

_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_decode: Final = msgspec.json.Decoder(ConfigMap).decode


class OwnConfigMap:
    """All methods raise ApiError, OutcomeUnknown, RequestNotSent, MsgspecError or Undecodable."""

    def __init__(self, context: WriteContext, *, namespace: str, name: str) -> None:
        self._context = context
        self._client = context.client
        self._name = name
        self._collection = KINDS["ConfigMap"].path(namespace=namespace)
        self.path = KINDS["ConfigMap"].path(namespace=namespace, name=name)
        self.data: Mapping[str, str] = {}
        """What it holds, as far as is known."""
        self._version: str | None = None
        """Empty if there is none, None if it must be read."""
        self._writing = asyncio.Lock()

    async def read(self) -> None:
        """Read it. One that does not exist is empty."""
        try:
            found = await self._client.get(self.path, _read, timeout=self._context.timeout())
        except NotFound:
            self._version, self.data = "", {}
        else:
            self._version, self.data = found.metadata.resource_version, found.data

    async def read_if_unknown(self) -> None:
        """Read it before the first write, and after one that failed."""
        if self._version is None:
            await self.read()

    async def change(self, changes: Mapping[str, str | None]) -> None:
        """Set entries, and remove those that are None. Changes are written one after the other."""
        async with self._writing:
            await self.read_if_unknown()
            data = {**self.data, **changes}
            held = {key: text for key, text in data.items() if text is not None}
            version, self._version = self._version, None  # unknown until an answer arrives
            answer = await (self._patch(version, changes) if version else self._create(held))
            self._version = _read(answer).metadata.resource_version
            self.data = held

    async def _create(self, data: Mapping[str, str]) -> bytes:
        body = _encode({"metadata": {"name": self._name, "labels": _LABELS}, "data": data})
        return await self._client.create(self._collection, body, timeout=self._context.timeout())

    async def _patch(self, version: str, changes: Mapping[str, str | None]) -> bytes:
        body = _encode({"metadata": {"resourceVersion": version}, "data": changes})
        timeout = self._context.timeout()
        try:
            return await self._client.patch(self.path, body, how=Patch.MERGE, timeout=timeout)
        except NotFound as error:
            gone = "the ConfigMap was deleted"
            raise Conflict(code=error.code, reason=error.reason, message=gone) from error


def _read(body: bytes) -> ConfigMap:
    return decode_leniently(_decode, body)
