"""Headline faults on real etcd, kube-apiserver, kube-controller-manager and KWOK.

All scenarios that were selected begin at once, each on nodes of its own; a test waits for the end of one. So
each fails by itself and under its own name.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio

from tests.e2e.audit_log import AuditLog
from tests.e2e.findings import bound_twice
from tests.kwok import scenarios_gangs, scenarios_members, scenarios_nodes
from tests.kwok.site import Ground, Scenario, Site

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.xdist_group("kwok"),
    pytest.mark.asyncio(loop_scope="module"),
]

SCENARIOS: tuple[Scenario, ...] = (
    *scenarios_nodes.SCENARIOS,
    *scenarios_members.SCENARIOS,
    *scenarios_gangs.SCENARIOS,
)

Played = Mapping[Scenario, asyncio.Task[None]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played(request: pytest.FixtureRequest, ground: Ground) -> AsyncIterator[Played]:
    """The selected scenarios, all under way."""
    chosen = {
        item.callspec.params["scenario"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item, "callspec")
    }
    tasks = {
        each: asyncio.create_task(_play(each, Site(ground, f"s{number}")))
        for number, each in enumerate(SCENARIOS)
        if each in chosen
    }
    yield tasks
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


async def _play(scenario: Scenario, site: Site) -> None:
    await site.open()
    await scenario(site)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_on_real_components(scenario: Scenario, played: Played) -> None:
    await played[scenario]


async def test_no_pod_was_bound_twice_and_nothing_was_forbidden(
    ground: Ground, played: Played, audit: AuditLog
) -> None:
    """In all of the scenarios together."""
    await asyncio.wait(played.values())
    assert bound_twice(ground.history.events, audit.binds()) == []
    assert audit.denied() == []
