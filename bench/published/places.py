"""The two kinds of clusters: the simulated one in virtual time, and a real control plane with KWOK."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
from msgspec import Struct
from phalanx.model.names import API_VERSION
from phalanx.ports import Response
from phalanx_controlplane.components import KubeScheduler
from phalanx_controlplane.controlplane import ControlPlane
from phalanx_simulator.embedded.apiserver.requests import Request
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.controllers.pod_by_pod_scheduler import SCHEDULER_NAME, PodByPodScheduler
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World, WorldSettings, in_world

from bench.harness.cluster import served
from bench.harness.contenders import PHALANX
from bench.harness.dialects import LEASE_NAMESPACE
from bench.published.site import NODES_PATH, PODS_PATH, Api, Listed, Pace, Play, Played, Site
from tests.fake_objects import create_many, namespace

STAGES: Final = (
    *("node/fast", "pod/fast/pod-ready", "pod/fast/pod-delete"),
    str(Path(__file__).parents[2] / "tests" / "kwok" / "stages"),
)
"""Without KWOK's stage that ends every pod of a Job at once: cases end pods, or an annotation says when."""

REAL_PACE: Final = Pace(second=0.05, look_s=0.1, patience_s=120.0)
"""A minute of a case takes 3 s."""

_LEFT: Final = (
    "/apis/batch/v1/namespaces/default/jobs",
    PODS_PATH,
    f"/apis/{API_VERSION}/namespaces/default/podgroups",
    NODES_PATH,
)
_CLEAR_WITHIN_S: Final = 60.0
_SETTLED_S: Final = 5.0
_LEADS_WITHIN_S: Final = 300.0
_LEASE_PATH: Final = f"/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases/phalanx"


class Scheduler(Struct, frozen=True):
    """Who places the pods. `name`: in `schedulerName` of pods. `knows_gangs`: the pods name PodGroups."""

    title: str
    name: str
    knows_gangs: bool


OURS: Final = Scheduler("Phalanx", "phalanx", knows_gangs=True)
POD_BY_POD: Final = Scheduler("kube-scheduler", SCHEDULER_NAME, knows_gangs=False)
"""On the real control plane it is kube-scheduler; the simulator has a model of it."""


def _embedded(server: ApiServer) -> Api:
    """An API server in this process."""

    async def send(request: Request) -> Response:
        return server.handle(request)

    return send


def _remote(session: aiohttp.ClientSession) -> Api:
    """An API server that is reached over HTTP."""

    async def send(request: Request) -> Response:
        headers = {"Content-Type": request.content_type} if request.body else {}
        sent = session.request(
            request.method, request.path, params=request.query, data=request.body or None, headers=headers
        )
        async with sent as answer:
            return Response(answer.status, await answer.read(), dict(answer.headers))

    return send


def simulated(play: Play, scheduler: Scheduler) -> Played:
    """Play a case in virtual time; for Phalanx with all checks of the simulator."""
    played: list[Played] = []

    async def run(world: World) -> None:
        acting = None if scheduler.name == OURS.name else PodByPodScheduler(world.client)
        world.start()
        await asyncio.sleep(_SETTLED_S)
        api = _embedded(world.server)
        site = Site(api, scheduler=scheduler.name, knows_gangs=scheduler.knows_gangs, pace=Pace())
        played.append(await play(site))
        if acting is not None:
            acting.close()

    ours = scheduler.name == OURS.name
    settings = WorldSettings(seed=1, replicas=int(ours), checks=ALL_CHECKS if ours else ())
    world = in_world(settings, run)
    (found,) = played
    violations = world.violations.count
    if not violations:
        return found
    return Played(figures=found.figures, wrong=(*found.wrong, f"{violations} violations of invariants"))


async def real(play: Play, scheduler: Scheduler) -> Played:
    """Play a case on a control plane of its own."""
    async with real_site(scheduler) as site:
        return await play(site)


@asynccontextmanager
async def real_site(scheduler: Scheduler) -> AsyncIterator[Site]:
    """A control plane with this scheduler, ready, and without nodes."""
    kube_scheduler = None if scheduler.name == OURS.name else KubeScheduler()
    async with (
        ControlPlane.start(stages=STAGES, kube_scheduler=kube_scheduler) as plane,
        plane.session() as session,
    ):
        api = _remote(session)
        site = Site(api, scheduler=scheduler.name, knows_gangs=scheduler.knows_gangs, pace=REAL_PACE)
        await _add_crds(session)
        if scheduler.name != OURS.name:
            yield site
            return
        async with PHALANX.start(plane):
            await _leads(site)
            yield site


async def clear(site: Site) -> None:
    """Delete all that a case leaves in the cluster, so that the next one finds it empty."""
    for path in _LEFT:
        await site.delete(path)
    async for _ in site.looks(for_s=_CLEAR_WITHIN_S):
        if not any([(await site.read(path, Listed)).items for path in _LEFT]):
            return
    raise TimeoutError("the cluster was not empty in time")


async def _add_crds(session: aiohttp.ClientSession) -> None:
    """Also for kube-scheduler, which does not read these kinds, so that both play the same files."""
    definitions = PHALANX.dialect.crds()
    await create_many(session, definitions)
    await create_many(session, [namespace(LEASE_NAMESPACE)])
    await served(session, definitions, path=PHALANX.dialect.ready_path())


async def _leads(site: Site) -> None:
    async for _ in site.looks(for_s=_LEADS_WITHIN_S):
        lease = await site.find(_LEASE_PATH)
        if lease is not None and lease["spec"].get("holderIdentity"):
            return
    raise TimeoutError("Phalanx did not become leader")
