"""Every decider returns the same results, wherever its cycles run."""

import os
import signal
from collections.abc import Callable

import msgspec
import pytest
from msgspec.structs import replace
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Deleted, Event
from phalanx.deciders.inline import InlineDecider
from phalanx.deciders.port import Decider
from phalanx.deciders.process import DeciderDied, ProcessDecider
from phalanx.deciders.thread import ThreadDecider
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.model.api.core import Node, Pod
from phalanx.model.decisions import CycleResult
from phalanx.model.memory import Memory

from tests.assumed import assumed

CONFIG = SchedulerConfig()
NAME = CONFIG.scheduler_name
ADVICE = "Wait until pod team/a ends or 1 more cpu is free on n1"

Make = Callable[[Cache], Decider]

DECIDERS: dict[str, Make] = {
    "inline": lambda cache: InlineDecider(cache=cache, config=CONFIG),
    "thread": lambda cache: ThreadDecider(cache=cache, config=CONFIG),
    "process": lambda _: ProcessDecider(config=CONFIG),
}


def node(name: str, **fields: object) -> Applied:
    written = {
        "metadata": {"name": name, "uid": name},
        "status": {"allocatable": {"cpu": "2", "pods": "10"}},
        **fields,
    }
    return Applied(msgspec.convert(written, Node))


def pod(name: str) -> Applied:
    requests = {"requests": {"cpu": "1"}}
    written = {
        "metadata": {"name": name, "namespace": "team", "uid": name},
        "spec": {"schedulerName": NAME, "containers": [{"name": "main", "resources": requests}]},
        "status": {"phase": "Pending"},
    }
    return Applied(msgspec.convert(written, Pod))


FIRST: tuple[Event, ...] = (node("n1"), pod("a"), pod("b"), pod("c"))
SECOND: tuple[Event, ...] = (
    assumed("a", "n1"),
    assumed("b", "n1"),
    Deleted(kind="Pod", namespace="team", name="a"),
)


def without_memory(result: CycleResult) -> bytes:
    return msgspec.json.encode(replace(result, memory=Memory(records=result.memory.records)))


async def two_cycles(make: Make) -> list[bytes]:
    cache = Cache(scheduler_name=NAME)
    decider = make(cache)
    results = []
    try:
        for now_ms, events in enumerate((FIRST, SECOND)):
            for event in events:
                cache.apply(event)
            decider.feed(events)
            results.append(without_memory(await decider.decide(now_ms=now_ms)))
        last = await decider.last()
        assert last is not None
        assert last[2].memory.cycle == 2
        assert without_memory(last[2]) == results[-1]
    finally:
        await decider.close()
    return results


@pytest.mark.parametrize("name", ["thread", "process"])
async def test_every_decider_returns_the_results_of_the_inline_decider(name: str) -> None:
    expected = await two_cycles(DECIDERS["inline"])
    assert await two_cycles(DECIDERS[name]) == expected
    first, second = (msgspec.json.decode(result) for result in expected)
    assert len(first["placements"]) == 2
    assert [bind["name"] for placement in second["placements"] for bind in placement["binds"]] == ["c"]


@pytest.mark.parametrize("name", DECIDERS)
async def test_the_next_cycle_shows_the_advice_that_was_searched(name: str) -> None:
    cache = Cache(scheduler_name=NAME)
    decider = DECIDERS[name](cache)
    try:
        assert await decider.advise() is None, "no cycle has run"
        for event in FIRST:
            cache.apply(event)
        decider.feed(FIRST)
        first = await decider.decide(now_ms=0)
        advised = await decider.advise()
        assert advised is not None
        assert (advised.is_new, advised.errors, await decider.advise()) == (True, (), None)
        second = await decider.decide(now_ms=1)
        steps = [verdict.next_step for result in (first, second) for verdict in result.verdicts]
        assert steps == ["Wait: what is enough is being computed", ADVICE]
    finally:
        await decider.close()


@pytest.mark.parametrize("name", DECIDERS)
async def test_there_is_no_last_result_before_the_first_cycle(name: str) -> None:
    decider = DECIDERS[name](Cache(scheduler_name=NAME))
    try:
        assert await decider.last() is None
    finally:
        await decider.close()


async def test_the_death_of_the_decider_process_is_detected() -> None:
    decider = ProcessDecider(config=CONFIG)
    assert (await decider.decide(now_ms=0)).cycle == 1
    os.kill(decider.pid, signal.SIGKILL)
    with pytest.raises(DeciderDied):
        await decider.decide(now_ms=1)
    await decider.close()


class _Unreadable:
    """An object that raises FileNotFoundError where it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return open, ("no-such-file",)


async def test_an_os_error_in_the_decider_process_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    decider = ProcessDecider(config=CONFIG)
    decider.feed((_Unreadable(),))  # type: ignore[arg-type]
    with pytest.raises(DeciderDied, match=r"FileNotFoundError: .*no-such-file"):
        await decider.decide(now_ms=0)
    await decider.close()
    assert "Traceback" in capfd.readouterr().err


async def test_an_error_at_the_start_of_the_decider_process_is_reported() -> None:
    decider = ProcessDecider(config=SchedulerConfig(plugins=(PluginConfig(name="missing"),)))
    with pytest.raises(DeciderDied, match=r"ConfigError: plugins\[missing\]: there is no plugin missing"):
        await decider.decide(now_ms=0)
    await decider.close()


async def test_the_decider_process_ends_silently_with_its_parent(capfd: pytest.CaptureFixture[str]) -> None:
    decider = ProcessDecider(config=CONFIG)
    await decider.decide(now_ms=0)
    await decider.close()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", DECIDERS)
async def test_a_changed_configuration_is_used_from_the_next_cycle_on(name: str) -> None:
    cache = Cache(scheduler_name=NAME)
    decider = DECIDERS[name](cache)
    tainted = node("n1", spec={"taints": [{"key": "maintenance", "effect": "NoSchedule"}]})
    changed = SchedulerConfig(seed=7, plugins=(PluginConfig(name="taints", enabled=False),))
    try:
        for event in (tainted, pod("a")):
            cache.apply(event)
            decider.feed((event,))
        assert (await decider.decide(now_ms=0)).placements == ()
        first = await decider.last()
        decider.configure(changed)
        assert len((await decider.decide(now_ms=1)).placements) == 1
        second = await decider.last()
    finally:
        await decider.close()
    assert first is not None
    assert second is not None
    assert (first[0], first[1].seed) == (CONFIG, 0)
    assert (second[0], second[1].seed) == (changed, 7)
