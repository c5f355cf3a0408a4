"""A host runs, freezes, thaws or dies between any two steps of its program."""

import asyncio

from phalanx_simulator.hosts.event_loop import VirtualLoop
from phalanx_simulator.hosts.host import EPOCH_MS, Host, HostClock, WorldClock

from tests.sim_engine.running import in_virtual_time


async def tick(seen: list[float], loop: VirtualLoop) -> None:
    while True:
        await asyncio.sleep(1)
        seen.append(loop.time())


async def end(host: Host, task: "asyncio.Task[object]") -> None:
    host.bury()
    task.cancel()
    await asyncio.wait((task,))


def test_a_frozen_host_continues_when_it_thaws() -> None:
    async def program(loop: VirtualLoop) -> list[float]:
        host, seen = Host("one"), []
        task = host.spawn(tick(seen, loop))
        await asyncio.sleep(2.5)
        host.freeze()
        await asyncio.sleep(10)
        host.thaw()
        await asyncio.sleep(2)
        await end(host, task)
        return seen

    assert in_virtual_time(program) == [1.0, 2.0, 12.5, 13.5]


def test_a_dead_host_runs_no_cleanup() -> None:
    async def program(loop: VirtualLoop) -> list[str]:
        host, seen = Host("one"), []

        async def careful() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                seen.append("cleaned up")

        task = host.spawn(careful())
        await asyncio.sleep(1)
        host.die()
        task.cancel()
        await asyncio.sleep(200)
        found = list(seen)
        await end(host, task)
        return found

    assert in_virtual_time(program) == []


def test_every_part_of_a_program_belongs_to_its_host() -> None:
    async def program(loop: VirtualLoop) -> list[float]:
        host, seen = Host("one"), []

        async def main() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(tick(seen, loop))

        task = host.spawn(main())
        await asyncio.sleep(1.5)
        host.freeze()
        await asyncio.sleep(5)
        found = list(seen)
        await end(host, task)
        return found

    assert in_virtual_time(program) == [1.0]


def test_a_host_can_be_stopped_before_any_step() -> None:
    async def steps(kill_at: int | None) -> tuple[int, int]:
        host, done = Host("one"), [0]

        async def main() -> None:
            for _ in range(10):
                await asyncio.sleep(0)
                done[0] += 1

        def before_step(number: int) -> None:
            if number == kill_at:
                host.die()

        host.before_step = before_step
        task = host.spawn(main())
        await asyncio.sleep(1)
        found = done[0]
        host.before_step = None
        await end(host, task)
        return host.steps, found

    whole, _ = in_virtual_time(lambda _loop: steps(None))
    progress = [in_virtual_time(lambda _loop, at=at: steps(at))[1] for at in range(whole)]
    assert progress == sorted(progress)
    assert {0, 1, 5, 9} <= set(progress)


def test_a_wrong_clock_affects_only_its_host() -> None:
    async def program(loop: VirtualLoop) -> None:
        world = WorldClock(loop)
        clock = HostClock(world)
        clock.jump(3_600_000)
        assert clock.now_ms() - EPOCH_MS == 3_600_000
        assert clock.monotonic() == 0
        clock.run_at(1.1)
        await asyncio.sleep(100)
        assert round(clock.monotonic(), 6) == 110
        clock.run_at(0.9)
        await asyncio.sleep(100)
        assert round(clock.monotonic(), 6) == 200
        assert world.monotonic() == 200
        assert world.now_ms() == EPOCH_MS + 200_000

    in_virtual_time(program)
