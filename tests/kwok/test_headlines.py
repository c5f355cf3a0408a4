"""Headline faults on real etcd, kube-apiserver, kube-controller-manager and KWOK.

All scenarios that were selected begin at once, each on nodes of its own; a test waits for the end of one. So
each fails by itself and under its own name.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.audit_log import AuditLog
from tests.e2e.findings import bound_twice
from tests.kwok import scenarios_evictions, scenarios_gangs, scenarios_members, scenarios_nodes
from tests.kwok.playing import Played, Scenario, all_ended, playing
from tests.kwok.site import Ground, Site

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.xdist_group("kwok"),
    pytest.mark.asyncio(loop_scope="module"),
]

SCENARIOS: tuple[Scenario, ...] = (
    *scenarios_nodes.SCENARIOS,
    *scenarios_members.SCENARIOS,
    *scenarios_gangs.SCENARIOS,
    *scenarios_evictions.SCENARIOS,
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played(request: pytest.FixtureRequest, ground: Ground) -> AsyncIterator[Played]:
    """The selected scenarios, under way."""
    async with playing(request, ground, SCENARIOS) as tasks:
        yield tasks


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_on_real_components(scenario: Scenario, played: Played) -> None:
    await played[scenario]


async def test_in_all_of_them_no_pod_was_bound_twice(ground: Ground, played: Played, audit: AuditLog) -> None:
    await all_ended(played)
    assert bound_twice(ground.history.events, audit.binds()) == []
    assert audit.denied() == []


async def test_an_api_server_that_restarts_moves_no_running_gang(ground: Ground, played: Played) -> None:
    """A gang of before runs on, and one of after is placed."""
    await all_ended(played)
    site = await Site(ground, "restart").open()
    await site.add_nodes("r1", "r1", "r1")
    await site.add_gang("before", size=2)
    await site.runs("before", 2)
    members = site.uids("before")
    await ground.plane.restart_apiserver(kill=True)
    await site.add_gang("after", size=1)
    await site.runs("after", 1)
    await site.runs("before", 2)
    assert site.uids("before") == members
    assert not set(site.placed("before")) & set(site.placed("after"))
