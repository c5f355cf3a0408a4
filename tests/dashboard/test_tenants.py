"""Two tenants sign in on a real API server, which reviews their tokens and rights."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from phalanx.cli.verbs.options import ClusterOptions
from phalanx.clock import SystemClock
from phalanx.web.server import serving
from phalanx_controlplane.controlplane import ControlPlane
from phalanx_dashboard.connection import Connection
from phalanx_dashboard.feed import Feed
from phalanx_dashboard.reading import ClusterReader
from phalanx_dashboard.recordings import Recordings
from phalanx_dashboard.server import dashboard_app
from phalanx_dashboard.token_guard import TokenGuard

from tests.cli.verbs.test_tenants import two_tenants

SPACES = VISION, SPEECH = ("pages-vision", "pages-speech")

pytestmark = [pytest.mark.controlplane, pytest.mark.asyncio(loop_scope="session")]


async def test_each_tenant_sees_its_own_and_no_more(control_plane: ControlPlane) -> None:
    clock = SystemClock()
    async with two_tenants(control_plane, SPACES) as files, AsyncExitStack() as stack:
        options = ClusterOptions(kubeconfig=control_plane.kubeconfig_path)
        reader = ClusterReader(options, clock=clock)
        stack.callback(reader.close)
        feed = Feed(reader, Recordings(""), clock=clock, period=1)
        guard = TokenGuard(Connection(options, clock=clock), feed.namespaces, clock=clock, secure=False)
        stack.callback(guard.close)
        await feed.read()
        assert feed.problem == ""
        port = await stack.enter_async_context(serving(dashboard_app(feed, guard), host="127.0.0.1", port=0))
        browser = await stack.enter_async_context(aiohttp.ClientSession(f"http://127.0.0.1:{port}"))
        for own, other in ((VISION, SPEECH), (SPEECH, VISION)):
            await check(browser, token_of(files[own]), own, other)
        queues = await page(browser, "queues", token_of(files[SPEECH]))
        assert "verbs-queue" in [row["name"] for row in queues["queues"]]
        assert (await page(browser, "queues", token_of(files[VISION])))["queues"] == []
        async with browser.get("/api/gangs", headers={"Authorization": "Bearer not-a-token"}) as answer:
            assert answer.status == 401


async def check(browser: aiohttp.ClientSession, token: str, own: str, other: str) -> None:
    """Its own gangs, and not even a name of the others on any page."""
    gangs = await page(browser, "gangs", token)
    assert [(gang["namespace"], gang["name"]) for gang in gangs["gangs"]] == [(own, "waits"), (own, "runs")]
    headers = {"Authorization": f"Bearer {token}"}
    for name in ("overview", "queues", "gangs", "topology", "decisions", "faults", "node?name=verbs-node"):
        async with browser.get(f"/api/{name}", headers=headers) as answer:
            assert (name, other in await answer.text()) == (name, False)


async def page(browser: aiohttp.ClientSession, name: str, token: str) -> Any:
    async with browser.get(f"/api/{name}", headers={"Authorization": f"Bearer {token}"}) as answer:
        assert answer.status == 200
        return (await answer.json())["page"]


def token_of(kubeconfig: Path) -> str:
    config = yaml.safe_load(kubeconfig.read_text())
    return str(config["users"][0]["user"]["token"])
