"""A real API server accepts every field of the manifests for other schedulers."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio
from phalanx_controlplane.controlplane import ControlPlane
from phalanx_controlplane.programs import ProgramMissing

from bench.harness import cluster
from bench.harness.contenders import Contender
from bench.harness.gangs import LEVELS, NAMESPACE, Gang, Manifest, Role, pods
from bench.peers import PEERS
from bench.peers.kube_scheduler.contender import KUBE_SCHEDULER_TOPOLOGY
from bench.peers.volcano.contender import VOLCANO_CI, make_hyper_nodes, open_queues
from tests.bench.builders import workload
from tests.controlplane_fixture import require_binaries
from tests.fake_objects import collection_path, create_many, fake_node, namespace

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("peers")]

GANG = Gang(
    "gang-7",
    (Role("worker", 2, {"cpu": "1", "memory": "1Gi"}), Role("chief", 1, {"cpu": "500m", "memory": "1Gi"})),
    level="rack",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane() -> AsyncIterator[ControlPlane]:
    """An API server with the feature gates of the peer that needs most."""
    require_binaries()
    flags = cluster.settings(KUBE_SCHEDULER_TOPOLOGY.feature_gates, workload())["apiserver_flags"]
    async with ControlPlane.start(kwok=False, controller_manager=False, apiserver_flags=flags) as started:
        async with started.session() as session:
            await create_many(session, [namespace(NAMESPACE)])
        yield started


async def create(session: aiohttp.ClientSession, manifest: Manifest) -> Manifest:
    """Create an object and return it as stored; unknown fields are errors."""
    path = collection_path(manifest)
    async with session.post(path, json=manifest, params={"fieldValidation": "Strict"}) as answer:
        assert answer.ok, await answer.text()
        found: Manifest = await answer.json()
        return found


async def serve(session: aiohttp.ClientSession, contender: Contender) -> None:
    """Create the CRDs of a peer once; skip the test when it is not built."""
    try:
        wanted = contender.dialect.crds()
    except ProgramMissing as missing:
        pytest.skip(str(missing))
    for crd in wanted:
        async with session.post(collection_path(crd), json=crd) as answer:
            assert answer.status in (201, 409), await answer.text()
    await cluster.served(session, wanted, path=contender.dialect.ready_path())


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("contender", PEERS, ids=lambda each: each.name)
async def test_the_api_server_accepts_every_field(plane: ControlPlane, contender: Contender) -> None:
    number = PEERS.index(contender)
    gang = Gang(f"gang-{number}", GANG.roles, level="rack")
    async with plane.session() as session:
        await serve(session, contender)
        [group] = contender.dialect.group(gang)
        kept = await create(session, group)
        assert kept["spec"].items() >= group["spec"].items()
        for plain in pods(gang):
            pod = contender.dialect.pod(gang, plain)
            kept = await create(session, pod)
            assert kept["spec"].get("schedulingGroup") == pod["spec"].get("schedulingGroup")


@pytest.mark.asyncio(loop_scope="module")
async def test_queues_open_and_hyper_nodes_follow_the_labels(plane: ControlPlane) -> None:
    labels = {label: f"{level}-0" for level, label in LEVELS.items()}
    async with plane.session() as session:
        await serve(session, VOLCANO_CI)
        for made in VOLCANO_CI.dialect.setup():
            await create(session, made)
        await open_queues(session)
        async with session.get("/apis/scheduling.volcano.sh/v1beta1/queues/default") as answer:
            assert (await answer.json())["status"] == {"state": "Open"}
        await create_many(session, [fake_node("peers-0", labels=labels)])
        await make_hyper_nodes(session)
        async with session.get("/apis/topology.volcano.sh/v1alpha1/hypernodes") as answer:
            found = {
                each["metadata"]["name"]: each["spec"]["tier"] for each in (await answer.json())["items"]
            }
        assert found == {"rack-0": 1, "spine-0": 2, "zone-0": 3}
