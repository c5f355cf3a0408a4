"""Each case runs against the embedded server and, marked `controlplane`, against the real kube-apiserver."""

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio
from msgspec import Struct
from phalanx_controlplane.controlplane import ControlPlane
from phalanx_simulator.embedded.apiserver.kinds import shipped_crds

from tests.conformance.api import PODGROUPS, Api
from tests.embedded_fixture import EmbeddedApi

_numbers = itertools.count()


class Server(Struct, frozen=True):
    """The server that a case uses."""

    embedded: EmbeddedApi | None = None
    real: ControlPlane | None = None

    def session(self) -> aiohttp.ClientSession:
        """A client with all permissions."""
        if self.real is not None:
            return self.real.session()
        assert self.embedded is not None
        return self.embedded.session()


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.controlplane)])
def server(request: pytest.FixtureRequest) -> Server:
    if request.param == "real":
        return Server(real=request.getfixturevalue("control_plane"))
    return Server(embedded=request.getfixturevalue("embedded_api"))


@pytest_asyncio.fixture
async def api(server: Server) -> AsyncIterator[Api]:
    async with server.session() as session:
        if server.real is not None:
            await _install_crds(session)
        name = f"conformance-{os.getpid()}-{next(_numbers)}"
        async with session.post("/api/v1/namespaces", json={"metadata": {"name": name}}) as answer:
            assert answer.status == 201
        yield Api(session, name)


async def _install_crds(session: aiohttp.ClientSession) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for crd in shipped_crds():
        async with session.post(path, json=crd) as answer:
            assert answer.status in (201, 409), await answer.text()
    for plural in ("podgroups", "queues"):
        while not await _is_served(session, f"{PODGROUPS}/{plural}"):
            await asyncio.sleep(0.05)


async def _is_served(session: aiohttp.ClientSession, path: str) -> bool:
    with contextlib.suppress(aiohttp.ClientError):
        async with session.get(path) as answer:
            return answer.status == 200
    return False
