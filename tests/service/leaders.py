"""Leaders that die at a request, in virtual time."""

import asyncio
from collections.abc import Callable

from phalanx_simulator.hosts.network import Exchange
from phalanx_simulator.runs.world import World


async def kill_the_leader_at(world: World, step: Callable[[Exchange], bool]) -> None:
    """Wait until a request of this kind has been applied, and kill the leader then."""
    killed = asyncio.Event()
    leader = world.leader()
    assert leader is not None

    def observe(exchange: Exchange) -> None:
        if exchange.landed_at is not None and not killed.is_set() and step(exchange):
            killed.set()
            leader.kill()

    world.observe(observe)
    async with asyncio.timeout(120):
        await killed.wait()
