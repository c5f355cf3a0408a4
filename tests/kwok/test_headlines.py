"""Headline faults on real etcd, kube-apiserver, kube-controller-manager and KWOK.

All selected scenarios start at once, each on its own nodes; a test waits for the end of one. So each fails
separately and under its own name.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.audit_log import AuditLog
from tests.e2e.findings import bound_twice
from tests.kwok import scenarios_evictions, scenarios_gangs, scenarios_members, scenarios_nodes
from tests.kwok.playing import Played, Scenario, all_ended, playing
from tests.kwok.site import Environment, Site

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
async def played(request: pytest.FixtureRequest, environment: Environment) -> AsyncIterator[Played]:
    """The selected scenarios, running."""
    async with playing(request, environment, SCENARIOS) as tasks:
        yield tasks


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_on_real_components(scenario: Scenario, played: Played) -> None:
    await played[scenario]


async def test_no_pod_was_bound_twice_in_any_scenario(
    environment: Environment, played: Played, audit: AuditLog
) -> None:
    await all_ended(played)
    assert bound_twice(environment.history.events, audit.binds()) == []
    assert audit.denied() == []


async def test_a_restart_of_the_api_server_moves_no_running_gang(
    environment: Environment, played: Played
) -> None:
    """A gang that ran before keeps running, and a gang submitted afterwards is placed."""
    await all_ended(played)
    site = await Site(environment, "restart").open()
    await site.add_nodes("r1", "r1", "r1")
    await site.add_gang("before", size=2)
    await site.runs("before", 2)
    members = site.uids("before")
    await environment.plane.restart_apiserver(kill=True)
    await site.add_gang("after", size=1)
    await site.runs("after", 1)
    await site.runs("before", 2)
    assert site.uids("before") == members
    assert not set(site.placed("before")) & set(site.placed("after"))
