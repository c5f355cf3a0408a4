"""The simulated network: requests and watches under each kind of fault."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from phalanx.clock import Random
from phalanx.ports import OutcomeUnknown, RequestNotSent
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.hosts.event_loop import VirtualLoop
from phalanx_simulator.hosts.host import Host, WorldClock
from phalanx_simulator.hosts.network import WATCH, Effect, Exchange, Network, Rule
from phalanx_simulator.hosts.transport import SimTransport

from tests.sim_engine.running import in_virtual_time

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Line:
    """A server, and a host's network connection to it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.server = ApiServer(clock=WorldClock(loop))
        self.network = Network(host="one", server=self.server, loop=loop, random=Random(5))
        self.transport = SimTransport(network=self.network, server=self.server, loop=loop)
        self.exchanges: list[tuple[str | None, float | None]] = []
        self.network.observer = self._hear

    def _hear(self, exchange: Exchange) -> None:
        if exchange.outcome is not None:
            self.exchanges.append((exchange.outcome, exchange.landed_at))

    async def create(self, name: str, *, timeout: float = 5.0) -> int:
        body = json.dumps({"metadata": {"name": name}}).encode()
        return (await self.transport.request("POST", CONFIG_MAPS, body=body, timeout=timeout)).status

    def names(self) -> list[str]:
        return [entry.key.name for entry in self.server.store.entries("configmaps")]

    async def follow(self, seen: list[str]) -> str:
        """Append names as they arrive until the watch breaks; return how it ended."""
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "300"}
        try:
            async with self.transport.stream(CONFIG_MAPS, query=query, idle_timeout=90) as (status, lines):
                async for line in lines:
                    event = json.loads(line)
                    if event["type"] != "BOOKMARK":
                        seen.append(event["object"]["metadata"]["name"])
                return f"ended {status}"
        except OutcomeUnknown as error:
            return str(error)


def online(play: Callable[[Line], Coroutine[Any, Any, None]]) -> None:
    in_virtual_time(lambda loop: play(Line(loop)))


def test_a_request_takes_a_little_time_and_is_answered() -> None:
    async def play(line: Line) -> None:
        assert await line.create("a") == 201
        assert 0 < line.loop.time() < 1
        assert line.names() == ["a"]
        assert line.exchanges[0][0] == "201"

    online(play)


@pytest.mark.parametrize(
    ("effect", "is_applied"),
    [
        (Effect.LOST, False),
        (Effect.APPLIED_BUT_LOST, True),
    ],
)
def test_a_lost_request_is_unknown(effect: Effect, is_applied: bool) -> None:
    async def play(line: Line) -> None:
        line.network.rules.append(Rule(effect=effect, methods=("POST",), times=1))
        with pytest.raises(OutcomeUnknown):
            await line.create("a")
        assert line.names() == (["a"] if is_applied else [])
        assert await line.create("b") == 201

    online(play)


def test_refused_requests_are_not_applied_unless_refused_after_being_applied() -> None:
    async def play(line: Line) -> None:
        line.network.rules.append(Rule(effect=Effect.REFUSED, status=429, retry_after_s=3, times=1))
        line.network.rules.append(Rule(effect=Effect.APPLIED_BUT_REFUSED, status=504, times=1))
        assert [await line.create("a"), await line.create("b")] == [429, 504]
        assert line.names() == ["b"]

    online(play)


def test_a_connection_that_is_refused_sends_nothing() -> None:
    async def play(line: Line) -> None:
        line.network.rules.append(Rule(effect=Effect.NOT_SENT, path_part="configmaps", skip=1, times=1))
        assert await line.create("a") == 201
        with pytest.raises(RequestNotSent):
            await line.create("b")
        assert line.names() == ["a"]

    online(play)


def test_a_slow_request_is_applied_after_its_sender_timed_out() -> None:
    async def play(line: Line) -> None:
        line.network.rules.append(Rule(effect=Effect.SLOW, slow_s=30, times=1))
        with pytest.raises(OutcomeUnknown):
            await line.create("a", timeout=5)
        assert line.loop.time() == pytest.approx(5, abs=0.1)
        assert line.names() == []
        await asyncio.sleep(30)
        assert line.names() == ["a"]

    online(play)


def test_a_request_of_a_dead_host_is_still_applied() -> None:
    async def play(line: Line) -> None:
        host = Host("one")
        task = host.spawn(line.create("a"))
        await asyncio.sleep(0)
        while not host.steps:
            await asyncio.sleep(0)
        host.die()
        await asyncio.sleep(1)
        assert line.names() == ["a"]
        assert not task.done()
        host.bury()
        await task

    online(play)


def test_a_partition_blocks_requests_and_breaks_open_watches() -> None:
    async def play(line: Line) -> None:
        seen: list[str] = []
        follow = asyncio.create_task(line.follow(seen))
        await asyncio.sleep(1)
        line.network.partition()
        with pytest.raises((OutcomeUnknown, RequestNotSent)):
            await line.create("a")
        assert line.names() == []
        line.network.heal()
        assert "reset" in await follow
        assert await line.create("b") == 201
        assert seen == []

    online(play)


def test_a_severed_network_does_not_heal() -> None:
    async def play(line: Line) -> None:
        line.network.sever()
        line.network.heal()
        with pytest.raises((OutcomeUnknown, RequestNotSent)):
            await line.create("a")

    online(play)


def test_events_of_one_watch_arrive_in_order_whatever_the_delay() -> None:
    async def play(line: Line) -> None:
        seen: list[str] = []
        follow = asyncio.create_task(line.follow(seen))
        await asyncio.sleep(1)
        names = [f"c{number:03}" for number in range(200)]
        for name in names:
            line.network.delay_watches(line.network.latency() * 20)
            await line.create(name)
        await asyncio.sleep(10)
        assert seen == names
        line.network.cut_watches("configmaps")
        await follow

    online(play)


def test_a_silent_watch_times_out_after_its_idle_timeout() -> None:
    async def play(line: Line) -> None:
        seen: list[str] = []
        follow = asyncio.create_task(line.follow(seen))
        await asyncio.sleep(1)
        line.network.silence_watches("secrets")
        await line.create("heard")
        await asyncio.sleep(1)
        line.network.silence_watches("configmaps")
        await line.create("unheard")
        assert "silent" in await follow
        assert seen == ["heard"]

    online(play)


def test_a_refused_watch_shows_its_http_status() -> None:
    async def play(line: Line) -> None:
        line.network.rules.append(Rule(effect=Effect.REFUSED, methods=(WATCH,), status=410, times=1))
        query = {"watch": "true"}
        async with line.transport.stream(CONFIG_MAPS, query=query, idle_timeout=90) as (status, lines):
            assert status == 410
            assert json.loads(b"".join([one async for one in lines]))["reason"] == "Expired"

    online(play)


def test_duplicated_events_are_delivered_twice_and_none_is_missing() -> None:
    async def play(line: Line) -> None:
        seen: list[str] = []
        follow = asyncio.create_task(line.follow(seen))
        await asyncio.sleep(1)
        line.network.duplicates_permille = 1000
        for name in ("a", "b"):
            await line.create(name)
            await asyncio.sleep(1)
        assert seen == ["a", "a", "b", "b"]
        line.network.cut_watches()
        await follow

    online(play)


def test_the_received_revision_of_a_host_is_recorded() -> None:
    async def play(line: Line) -> None:
        seen: list[str] = []
        follow = asyncio.create_task(line.follow(seen))
        await asyncio.sleep(1)
        await line.create("a")
        await asyncio.sleep(1)
        assert line.network.received.versions["configmaps"] == line.server.store.revision
        line.network.cut_watches()
        await follow

    online(play)
