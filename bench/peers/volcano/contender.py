"""Volcano's scheduler in the two configurations of its chart."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import aiohttp
from phalanx_controlplane.controlplane import ControlPlane

from bench.harness.contenders import Contender, Running, program
from bench.peers.volcano.dialect import (
    API_VERSION,
    CI_CONFIGURATION,
    CONFIGURATION,
    PROGRAM,
    QUEUES,
    VolcanoDialect,
    hyper_nodes,
)
from tests.fake_objects import create_many

FLAGS = ("--leader-elect=false", "--kube-api-qps=5000", "--kube-api-burst=5000")
_DEVIATION = (
    "client limits of 5,000 requests a second; no controllers or webhooks, "
    "the harness does their work in advance; logs errors only"
)


async def open_queues(session: aiohttp.ClientSession) -> None:
    """Set the queue state as the queue controller does; otherwise nothing is allocated in a queue."""
    headers = {"Content-Type": "application/merge-patch+json"}
    for name in QUEUES:
        path = f"/apis/{API_VERSION}/queues/{name}/status"
        async with session.patch(path, json={"status": {"state": "Open"}}, headers=headers) as answer:
            answer.raise_for_status()


async def make_hyper_nodes(session: aiohttp.ClientSession) -> None:
    """Create HyperNodes from the labels of nodes, as the HyperNode controller does."""
    async with session.get("/api/v1/nodes", raise_for_status=True) as answer:
        nodes = (await answer.json())["items"]
    await create_many(session, hyper_nodes(node["metadata"]["labels"] for node in nodes))


@asynccontextmanager
async def _run(plane: ControlPlane, configuration: str) -> AsyncIterator[Running]:
    built = PROGRAM.built()
    async with plane.session() as session:
        await open_queues(session)
        if configuration == CI_CONFIGURATION:
            await make_hyper_nodes(session)
    folder = plane.run_folder / "volcano"
    folder.mkdir(exist_ok=True)
    path = folder / "volcano-scheduler.conf"
    path.write_bytes((built.files / configuration).read_bytes())
    command = (
        *("env", f"DEBUG_SOCKET_DIR={folder}", str(built.program)),
        *(f"--kubeconfig={plane.kubeconfig_path}", f"--scheduler-conf={path}", f"--cache-dump-dir={folder}"),
        *FLAGS,
    )
    async with program(*command, log=plane.logs_folder / "volcano.log") as running:
        yield running


def _by_default(plane: ControlPlane) -> AbstractAsyncContextManager[Running]:
    return _run(plane, CONFIGURATION)


def _with_everything(plane: ControlPlane) -> AbstractAsyncContextManager[Running]:
    return _run(plane, CI_CONFIGURATION)


VOLCANO = Contender(
    name="volcano",
    dialect=VolcanoDialect(),
    start=_by_default,
    deviation=_DEVIATION,
    build=PROGRAM.build,
    version=PROGRAM.version,
)
VOLCANO_CI = Contender(
    name="volcano (topology, reclaim)",
    dialect=VolcanoDialect(),
    start=_with_everything,
    deviation=f"{_DEVIATION}; the configuration of its own tests, with preemption, reclaim and topology",
    only_with=("level", "queue"),
    build=PROGRAM.build,
    version=PROGRAM.version,
)
