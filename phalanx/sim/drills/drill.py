"""Plays an act once, with one fault, and says whether it came to its end as it should."""

import asyncio
from collections.abc import Callable, Mapping

from msgspec import Struct

from phalanx.sim.drills.acts import Act
from phalanx.sim.invariants.check import Check
from phalanx.sim.network import Exchange
from phalanx.sim.world import World, WorldSettings, in_world

_LOOK_S = 0.25


class Outcome(Struct, frozen=True):
    """`problem` is None when the act came to its end and no check was violated.

    `steps` and `requests` (method, path) are those of the process that led when the act began, during it;
    `marks` are rare paths, with the times that they were reached.
    """

    problem: str | None
    steps: int
    requests: tuple[tuple[str, str], ...]
    marks: Mapping[str, int]


Arm = Callable[[World], None]
"""Sets the fault up, right before the act begins."""


def play(
    act: Act,
    *,
    seed: int,
    arm: Arm = lambda _world: None,
    checks: tuple[type[Check], ...],
    watched_s: float = 0.0,
) -> Outcome:
    """Once, in a world of its own that goes on for `watched_s` simulated seconds after the act."""
    performance = _Performance(act, arm, watched_s)
    world = in_world(WorldSettings(seed=seed, checks=checks, config=act.config), performance.play)
    problem = performance.problem
    if world.violations.kept:
        first = world.violations.kept[0]
        problem = f"{first.check} {first.subject}: {first.message}"
    return Outcome(problem, performance.steps, tuple(performance.requests), world.marks.counts)


class _Performance:
    def __init__(self, act: Act, arm: Arm, watched_s: float) -> None:
        self.problem: str | None = None
        self.steps = 0
        self.requests: list[tuple[str, str]] = []
        self._act = act
        self._arm = arm
        self._watched_s = watched_s

    async def play(self, world: World) -> None:
        await self._act.prepare(world)
        leader = world.leader()
        if leader is None or leader.process is None:
            self.problem = "nobody leads before the act begins"
            return
        host = leader.process.host
        world.observe(self._hear(host.name))
        self._arm(world)
        before = host.steps
        done = self._act.begin(world)
        try:
            async with asyncio.timeout(self._act.within_s):
                while not done():
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            self.problem = f"not done after {self._act.within_s} s"
        self.steps = host.steps - before
        await asyncio.sleep(self._watched_s)
        if self.problem is None:
            self.problem = await self._act.afterwards(world)

    def _hear(self, host: str) -> Callable[[Exchange], None]:
        def hear(exchange: Exchange) -> None:
            if exchange.host == host and exchange.landed_at is None and exchange.told is None:
                self.requests.append((exchange.method, exchange.path))

        return hear
