"""The Transport port without a network, and repeatable responses with a seed."""

import json

import pytest
from phalanx.clock import SystemClock
from phalanx.ports import OutcomeUnknown, RequestNotSent, Transport
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.manifests import pod

from tests.in_memory_transport import InMemoryTransport
from tests.manual_clock import ManualClock

PODS = "/api/v1/namespaces/default/pods"


def new_transport() -> tuple[ApiServer, Transport]:
    server = ApiServer(clock=SystemClock())
    return server, InMemoryTransport(server)


async def create(transport: Transport, name: str) -> int:
    body = json.dumps(pod(name)).encode()
    return (await transport.request("POST", PODS, body=body, timeout=1)).status


async def test_requests_are_answered() -> None:
    _, transport = new_transport()
    assert await create(transport, "a") == 201
    assert await create(transport, "a") == 409
    found = await transport.request("GET", PODS, query={"limit": "1"}, timeout=1)
    assert [one["metadata"]["name"] for one in json.loads(found.body)["items"]] == ["a"]


async def test_a_watch_gives_one_line_for_each_event() -> None:
    server, transport = new_transport()
    query = {"resourceVersion": str(server.store.revision)}
    async with transport.stream(PODS, query=query, idle_timeout=5) as (status, lines):
        assert status == 200
        for name in ("a", "b"):
            await create(transport, name)
        events = [json.loads(await anext(lines)) for _ in range(2)]
    assert [event["object"]["metadata"]["name"] for event in events] == ["a", "b"]
    await create(transport, "c")


async def test_a_refused_watch_returns_its_status() -> None:
    _, transport = new_transport()
    async with transport.stream("/api/v1/ghosts", query={}, idle_timeout=5) as (status, lines):
        assert status == 404
        assert json.loads(await anext(lines))["reason"] == "NotFound"


async def test_a_silent_watch_times_out() -> None:
    server, transport = new_transport()
    query = {"resourceVersion": str(server.store.revision)}
    async with transport.stream(PODS, query=query, idle_timeout=0.01) as (_, lines):
        with pytest.raises(OutcomeUnknown):
            await anext(lines)


async def test_a_closed_transport_sends_nothing() -> None:
    server, transport = new_transport()
    await transport.close()
    before = server.store.revision
    with pytest.raises(RequestNotSent):
        await create(transport, "a")
    assert server.store.revision == before


async def test_the_same_seed_gives_the_same_bytes() -> None:
    answers = []
    for seed in (1, 1, 2):
        transport = InMemoryTransport(ApiServer(clock=ManualClock(), seed=seed))
        await create(transport, "a")
        answers.append((await transport.request("GET", "/api/v1/pods", timeout=1)).body)
    assert answers[0] == answers[1]
    assert answers[0] != answers[2]
