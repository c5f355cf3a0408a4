"""Faults that need their own control plane: nodes without heartbeats, a faulty proxy, a mass fault."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from phalanx_controlplane.controlplane import ControlPlane

from tests.controlplane_fixture import require_binaries
from tests.e2e.audit_log import AuditLog
from tests.e2e.findings import bound_twice
from tests.e2e.scheduler_process import install
from tests.kwok.conftest import STAGES, environment_of
from tests.kwok.manifests import recovery
from tests.kwok.playing import Played, Scenario, all_ended, playing
from tests.kwok.proxy import Proxy, proxying
from tests.kwok.scenarios_apart import SCENARIOS
from tests.kwok.site import Environment, Site

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.xdist_group("kwok-apart"),
    pytest.mark.asyncio(loop_scope="module"),
]

NODE_LEASE_S = 20
NODES_OF_THE_MANY = 24


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def control_plane(audit: AuditLog) -> AsyncIterator[ControlPlane]:
    """A control plane whose nodes send heartbeats."""
    require_binaries()
    async with ControlPlane.start(
        stages=STAGES, apiserver_flags=audit.flags, node_lease_seconds=NODE_LEASE_S
    ) as plane:
        yield plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(control_plane: ControlPlane) -> AsyncIterator[Proxy]:
    """The scheduler's connection to the API server."""
    async with proxying(control_plane) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def environment(
    control_plane: ControlPlane, proxy: Proxy, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Environment]:
    """Replaces the environment that the other module shares."""
    original = await install(control_plane)
    kubeconfig = proxy.kubeconfig(original, tmp_path_factory.mktemp("proxied"))
    async with environment_of(control_plane, kubeconfig) as made:
        await made.prepare(idle_nodes=0)
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played(
    request: pytest.FixtureRequest, environment: Environment, proxy: Proxy
) -> AsyncIterator[Played]:
    """The selected scenarios, running."""
    async with playing(request, environment, SCENARIOS, proxy) as tasks:
        yield tasks


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_on_real_components(scenario: Scenario, played: Played) -> None:
    await played[scenario]


async def test_a_mass_fault_of_nodes_evicts_no_pod(environment: Environment, played: Played) -> None:
    """The breaker counts nodes that were healthy when the scheduler started, so it is restarted here."""
    await all_ended(played)
    site = await Site(environment, "many").open()
    names = await site.add_nodes(*["r1"] * NODES_OF_THE_MANY)
    await site.add_gang("gang", size=2, spec={"recovery": recovery(node_loss="Restart")})
    await site.until(lambda: len(site.placed("gang")) == 2, "the gang to be placed")
    members, held = site.uids("gang"), site.placed("gang")
    await environment.restart_scheduler()
    await environment.nodes_are_known()

    free = [name for name in names if name not in held]
    faulty = free[2:]
    await asyncio.gather(*map(site.fail_node, faulty))
    await environment.metric_until("phalanx_breaker_open", lambda value: value == 1)
    await site.fail_node(held[0])
    await environment.nodes_are_known()
    (untried,) = await site.add_nodes("r1", gpus=16)
    await site.add_gang("large", size=1, gpus=16)
    await site.waits("large", "BreakerOpen")
    await site.add_gang("small", size=2)
    await site.until(lambda: site.placed("small") == sorted(free[:2]), "nodes that stayed healthy")
    assert site.uids("gang") == members, "a pod was evicted"

    await site.heal_node(held[0])
    await environment.nodes_are_known()
    await asyncio.gather(*map(site.heal_node, faulty))
    await environment.metric_until("phalanx_breaker_open", lambda value: value == 0)
    await site.until(lambda: site.placed("large") == [untried], "the new node to be trusted")
    assert site.uids("gang") == members
    assert site.evicted("gang") == set()


async def test_no_pod_was_bound_twice(environment: Environment, played: Played, audit: AuditLog) -> None:
    await all_ended(played)
    assert bound_twice(environment.history.events, audit.binds()) == []
    assert audit.denied() == []
