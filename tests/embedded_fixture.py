"""The embedded API server on loopback, one for each test that asks for it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest_asyncio
from msgspec import Struct
from phalanx.clock import SystemClock
from phalanx_simulator.embedded.apiserver.http import Endpoint, serving
from phalanx_simulator.embedded.apiserver.kinds import NATIVE_POD_GROUPS
from phalanx_simulator.embedded.apiserver.server import ApiServer

TOKEN = "embedded-test-token"


class EmbeddedApi(Struct, frozen=True):
    """A running server. `server.store` has its objects; `kubeconfig` works for `phalanx run --kubeconfig`."""

    server: ApiServer
    endpoint: Endpoint
    kubeconfig: Path

    @property
    def url(self) -> str:
        """Base URL, without a slash at its end."""
        return self.endpoint.url

    def session(self) -> aiohttp.ClientSession:
        """A client of this server, with its token."""
        headers = {"Authorization": f"Bearer {self.endpoint.token}"}
        return aiohttp.ClientSession(self.endpoint.url, headers=headers)


@pytest_asyncio.fixture
async def embedded_api(tmp_path: Path) -> AsyncIterator[EmbeddedApi]:
    """An empty cluster: four namespaces, the system priorities and our CRDs; no kubelets, no controllers.

    It serves Kubernetes' own PodGroups.
    """
    server = ApiServer(clock=SystemClock())
    server.types.add(NATIVE_POD_GROUPS)
    async with serving(server, token=TOKEN) as endpoint:
        kubeconfig = await asyncio.to_thread(endpoint.write_kubeconfig, tmp_path / "kubeconfig")
        yield EmbeddedApi(server, endpoint, kubeconfig)
