"""Runs the scenarios of one module at the same time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.kwok.site import Environment, Site

Scenario = Callable[..., Awaitable[None]]
"""Takes its site, and the arguments that all scenarios of the module share."""

Played = Mapping[Scenario, asyncio.Task[None]]


@asynccontextmanager
async def playing(
    request: pytest.FixtureRequest, environment: Environment, scenarios: Sequence[Scenario], *more: Any
) -> AsyncIterator[Played]:
    """Start the selected scenarios; each has its own site."""
    chosen = {
        item.callspec.params["scenario"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.module is request.module
        and "scenario" in getattr(item, "fixturenames", ())
        and hasattr(item, "callspec")
    }
    tasks = {
        each: asyncio.create_task(_play(each, Site(environment, f"s{number}"), *more))
        for number, each in enumerate(scenarios)
        if each in chosen
    }
    try:
        yield tasks
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


async def _play(scenario: Scenario, site: Site, *more: Any) -> None:
    await site.open()
    await scenario(site, *more)


async def all_ended(played: Played) -> None:
    """Wait for the end of all scenarios, successful or not."""
    if played:
        await asyncio.wait(played.values())
