"""WaitForFirstConsumer on a real control plane, where kube-controller-manager binds claims.

A fake provisioner creates the volumes.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from phalanx_controlplane.controlplane import ControlPlane
from phalanx_simulator.embedded.provisioned_volumes import (
    SELECTED_NODE,
    on_host,
    provisioned_volume,
    selected_node,
)

from tests.e2e.conftest import Cluster
from tests.e2e.pod_history import PodHistory, watching
from tests.e2e.scheduler_process import scheduler
from tests.e2e.workloads import Manifest, create, create_cluster, listed, members, pod_group

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("e2e")]

DRIVER = "disk.example.com"
SPACE = "volumes"
CLAIMS = f"/api/v1/namespaces/{SPACE}/persistentvolumeclaims"
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "late"},
    "provisioner": DRIVER,
    "volumeBindingMode": "WaitForFirstConsumer",
}
MERGE = {"Content-Type": "application/merge-patch+json"}


def gang(name: str, size: int) -> list[Manifest]:
    """A gang whose members each mount a claim of their own and fill half a node."""
    pods = members(name, space=SPACE, size=size, requests={"cpu": "2"})
    claims = []
    for pod in pods:
        claim = f"data-{pod['metadata']['name']}"
        pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        meta = {"name": claim, "namespace": SPACE}
        claims.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec})
    return [*claims, pod_group(name, space=SPACE, size=size), *pods]


class Provisioner:
    """Creates a local volume for the selected node of each claim, as an external provisioner does."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self.holds: Callable[[str], bool] = lambda _: False
        """Whether the volume of a claim has to wait."""
        self.breaks_next = False
        """Whether no volume can be created for the next node that it is asked for, from now on."""
        self.broken: set[str] = set()

    async def run(self) -> None:
        while True:
            for claim in await self.claims():
                node = selected_node(claim)
                if node and not self.holds(claim["metadata"]["name"]):
                    await self._serve(claim, node)
            await asyncio.sleep(0.05)

    async def claims(self) -> list[Manifest]:
        async with self._session.get(CLAIMS, raise_for_status=True) as answer:
            items: list[Manifest] = (await answer.json())["items"]
            return items

    async def _serve(self, claim: Manifest, node: str) -> None:
        meta = claim["metadata"]
        if self.breaks_next:
            self.breaks_next, self.broken = False, {node}
        if node in self.broken:
            body = {"metadata": {"uid": meta["uid"], "annotations": {SELECTED_NODE: None}}}
            path = f"{CLAIMS}/{meta['name']}"
            async with self._session.patch(path, json=body, headers=MERGE, raise_for_status=True):
                return
        volume = provisioned_volume(claim, node, DRIVER)
        async with self._session.post("/api/v1/persistentvolumes", json=volume) as answer:
            assert answer.status in (201, 409), await answer.text()


@asynccontextmanager
async def provisioner(plane: ControlPlane) -> AsyncIterator[Provisioner]:
    async with plane.session() as session:
        made = Provisioner(session)
        task = asyncio.create_task(made.run())
        try:
            yield made
            assert not task.done(), "the provisioner has crashed"
        finally:
            task.cancel()
            await asyncio.wait((task,))


async def until(so: Callable[[], Any]) -> None:
    async with asyncio.timeout(120):
        while not await so():
            await asyncio.sleep(0.05)


async def bound_on(plane: ControlPlane, history: PodHistory, name: str) -> dict[str, str]:
    """The node of each member; its claim is bound to a volume of the same node."""
    volumes = {each["metadata"]["name"]: each for each in await listed(plane, "/api/v1/persistentvolumes")}
    claims = {each["metadata"]["name"]: each for each in await listed(plane, CLAIMS)}
    found = {}
    for pod in history.members(f"{SPACE}/{name}"):
        claim = claims[f"data-{pod.metadata.name}"]
        assert claim["status"]["phase"] == "Bound"
        term = volumes[claim["spec"]["volumeName"]]["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][
            0
        ]
        assert term["matchExpressions"][0]["values"] == [pod.spec.node_name]
        found[pod.metadata.name] = pod.spec.node_name
    return found


async def test_a_gang_waits_for_its_volumes_and_goes_where_they_can_be_made(
    shared_cluster: Cluster,
) -> None:
    plane = shared_cluster.plane
    await create_cluster(plane, count=4, cpu=4, space=SPACE)
    await create(plane, CLASS)
    async with (
        watching(plane) as history,
        provisioner(plane) as made,
        scheduler(plane, shared_cluster.kubeconfig) as process,
    ):
        # No pod is bound while one claim is not.
        made.holds = lambda claim: claim == "data-slow-1"
        await create(plane, *gang("slow", 2))

        async def all_but_one_are_bound() -> bool:
            phases = [claim["status"]["phase"] for claim in await made.claims()]
            return sorted(phases) == ["Bound", "Pending"]

        await until(all_but_one_are_bound)
        assert not history.bound

        # The next leader goes on with the nodes that this one has selected.
        selected = {
            claim["metadata"]["name"]: claim["metadata"]["annotations"][SELECTED_NODE]
            for claim in await made.claims()
        }
        await process.kill()
        async with scheduler(plane, shared_cluster.kubeconfig):
            made.holds = lambda _: False
            await history.until_bound(2, timeout=120)
            nodes = await bound_on(plane, history, "slow")
            assert {f"data-{pod}": node for pod, node in nodes.items()} == selected

            # Where a provisioner gives up, the whole gang goes elsewhere.
            made.breaks_next = True
            await create(plane, *gang("picky", 3))
            await history.until_bound(5, timeout=120)
            nodes = await bound_on(plane, history, "picky")
            assert made.broken
            assert made.broken.isdisjoint(nodes.values())
    assert shared_cluster.audit.denied() == []


# --- volumes that exist already -----------------------------------------------------------------------------

LOCAL = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "late"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def local_volume(name: str, node: str, size: str = "1Gi") -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/mnt/disk"},
            "nodeAffinity": on_host(node),
        },
    }


async def test_a_gang_takes_local_volumes_as_a_whole(shared_cluster: Cluster) -> None:
    """Three members need three volumes. With two, nothing is bound: neither a pod nor a claim."""
    plane = shared_cluster.plane
    await create_cluster(plane, count=4, cpu=4, space=SPACE)
    nodes = [each["metadata"]["name"] for each in await listed(plane, "/api/v1/nodes")]
    await create(plane, LOCAL, local_volume("v1", nodes[0]), local_volume("v2", nodes[1], "5Gi"))
    async with watching(plane) as history, scheduler(plane, shared_cluster.kubeconfig):
        await create(plane, *gang("local", 3))

        async def is_refused() -> bool:
            found = await listed(plane, f"/apis/scheduling.phalanx.dev/v1alpha1/namespaces/{SPACE}/podgroups")
            return "2 volumes of StorageClass late available" in str(found)

        await until(is_refused)
        phases = {each["status"]["phase"] for each in await listed(plane, CLAIMS)}
        assert phases == {"Pending"}
        assert not history.bound
        await create(plane, local_volume("v3", nodes[1]))
        await history.until_bound(3, timeout=120)
        assert sorted((await bound_on(plane, history, "local")).values()) == sorted(
            [nodes[0], nodes[1], nodes[1]]
        )
    assert shared_cluster.audit.denied() == []
