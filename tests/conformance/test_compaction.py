"""The response to a request for history that was compacted, and that a new list works.

The real server keeps snapshots beside etcd, so there the API server is restarted after the compaction.
"""

import asyncio
import contextlib

import aiohttp

from tests.conformance.api import Api, pod
from tests.conformance.conftest import Server


async def compact(api: Api, server: Server, revision: str) -> None:
    """Forget all revisions before this one."""
    if server.embedded is not None:
        server.embedded.server.store.compact(int(revision))
        return
    assert server.real is not None
    etcd = f"http://127.0.0.1:{server.real._places.etcd_port}/v3/kv/compaction"
    async with aiohttp.ClientSession() as session, session.post(etcd, json={"revision": revision}) as answer:
        assert answer.status == 200, await answer.text()
    await server.real.restart_apiserver()
    while True:
        with contextlib.suppress(aiohttp.ClientError):
            if (await api.get("/readyz")).code == 200:
                return
        await asyncio.sleep(0.1)


async def test_a_compacted_version_is_gone_and_a_new_list_works(api: Api, server: Server) -> None:
    for name in ("a", "b", "c"):
        await api.create_pod(name)
    page = (await api.get(api.pods, limit="2")).metadata
    old, token = page["resourceVersion"], page["continue"]
    for name in ("d", "e"):
        newest = (await api.create_pod(name))["metadata"]["resourceVersion"]
    await compact(api, server, newest)
    query = {"limit": "2", "continue": token}
    for refused in (
        await api.get(api.pods, **query),
        await api.get(api.pods, resourceVersion=old, resourceVersionMatch="Exact"),
    ):
        assert refused.refusal[:2] == (410, "Expired")
    async with api.watch(api.pods, resourceVersion=old) as events:
        event = await events.next()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    fresh = (await api.get(api.pods)).object
    assert [item["metadata"]["name"] for item in fresh["items"]] == ["a", "b", "c", "d", "e"]
    version = fresh["metadata"]["resourceVersion"]
    async with api.watch(api.pods, resourceVersion=version) as events:
        await api.post(api.pods, pod("f"))
        assert await events.take(1) == [("ADDED", "f")]
