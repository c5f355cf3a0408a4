"""The event loop in virtual time: the seed determines the order of ready tasks."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from phalanx.clock import SystemClock
from phalanx_simulator.hosts.event_loop import Deadlock, VirtualLoop

from tests.sim_engine.running import in_virtual_time


def test_a_simulated_year_passes_at_once() -> None:
    year = 365 * 24 * 3600

    async def program(loop: VirtualLoop) -> float:
        await asyncio.sleep(year)
        return loop.time()

    began = SystemClock().monotonic()
    assert in_virtual_time(program) == year
    assert SystemClock().monotonic() - began < year


def order_of_arrival(seed: int) -> list[int]:
    async def program(_loop: VirtualLoop) -> list[int]:
        order: list[int] = []

        async def one(number: int) -> None:
            await asyncio.sleep(1)
            order.append(number)

        await asyncio.gather(*(one(number) for number in range(20)))
        return order

    return in_virtual_time(program, seed=seed)


def test_the_same_seed_gives_the_same_order_and_another_seed_another() -> None:
    assert order_of_arrival(1) == order_of_arrival(1)
    assert order_of_arrival(1) != order_of_arrival(2)
    assert sorted(order_of_arrival(2)) == list(range(20))


def test_timers_fire_in_order_of_their_times() -> None:
    async def program(loop: VirtualLoop) -> list[float]:
        fired: list[float] = []
        for delay in (3.0, 1.0, 2.0):
            loop.call_later(delay, lambda: fired.append(loop.time()))
        await asyncio.sleep(5)
        return fired

    assert in_virtual_time(program) == [1.0, 2.0, 3.0]


def test_what_runs_in_a_thread_elsewhere_takes_no_virtual_time() -> None:
    def refuse() -> None:
        raise ValueError("refused")

    async def program(loop: VirtualLoop) -> tuple[int, str, float]:
        loop.call_later(1.0, loop.stop)
        answer = await asyncio.to_thread(lambda: 42)
        try:
            await asyncio.to_thread(refuse)
        except ValueError as error:
            return answer, str(error), loop.time()
        raise AssertionError("the error was lost")

    assert in_virtual_time(program) == (42, "refused", 0.0)


def test_thousands_of_cancelled_timers_are_dropped() -> None:
    async def program(loop: VirtualLoop) -> int:
        for _ in range(5_000):
            loop.call_later(1e9, print).cancel()
            await asyncio.sleep(0.001)
        return len(loop._scheduled)

    assert in_virtual_time(program) < 1_000


def test_a_timeout_ends_a_wait_in_simulated_time() -> None:
    async def program(loop: VirtualLoop) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(90):
                await asyncio.Event().wait()
        return loop.time()

    assert in_virtual_time(program) == 90


def test_a_program_without_a_timer_that_wakes_it_raises_deadlock() -> None:
    async def program(_loop: VirtualLoop) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        in_virtual_time(program)


def test_sets_of_tasks_iterate_in_order_of_creation() -> None:
    """A TaskGroup cancels the tasks of a set: ordered by address, two runs in one process would differ."""

    async def program(loop: VirtualLoop) -> list[int]:
        cancelled: list[int] = []

        async def one(number: int) -> None:
            try:
                await asyncio.sleep(10)
            finally:
                cancelled.append(number)

        tasks = [loop.create_task(one(number)) for number in range(40)]
        await asyncio.sleep(1)
        order = [tasks.index(task) for task in set(tasks)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert sorted(cancelled) == list(range(40))
        return order

    assert in_virtual_time(program) == list(range(40))


def test_garbage_collection_runs_no_code() -> None:
    async def program(loop: VirtualLoop) -> list[str]:
        seen: list[str] = []

        async def numbers() -> AsyncIterator[int]:
            try:
                yield 1
                yield 2
            finally:
                seen.append("closed")

        async for _ in numbers():
            break
        await asyncio.sleep(1)
        before = list(seen)
        await loop.close_abandoned()
        return [*before, "end", *seen]

    assert in_virtual_time(program) == ["end", "closed"]
