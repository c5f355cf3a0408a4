"""Claims of a template, from the API server to the bind and back, with Kubernetes' own claim controller."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from phalanx.kube.binding import Bound
from phalanx.kube.connect import connect
from phalanx.model.api import core
from phalanx.model.conversion.nodes import read_node
from phalanx.model.conversion.pods import read_pod_claims
from phalanx.model.decisions import Bind
from phalanx.model.names import NodeName, PodUid
from phalanx.model.supplies.devices import api
from phalanx.model.supplies.devices.cluster import ClusterDevices, DeviceState, grants
from phalanx.model.supplies.devices.matching import Matcher
from phalanx.model.supplies.devices.pod_claims import Unresolved
from phalanx.model.supplies.devices.read import (
    read_device_class,
    read_resource_claim,
    read_slice,
)

from tests.e2e.conftest import Cluster
from tests.fake_objects import fake_node, fake_pod
from tests.kube.faults import FaultyTransport
from tests.kube.test_binder import binding, placement
from tests.kube.world import World

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("e2e")]

DRIVER = "gpu.example.com"
RESOURCES = "/apis/resource.k8s.io/v1"


async def until(done: Callable[[], Awaitable[Any]]) -> Any:
    """Ask again until the answer is true."""
    async with asyncio.timeout(120):
        while not (found := await done()):
            await asyncio.sleep(0.05)
    return found


async def publish(world: World) -> None:
    """A node with four devices, a class, a template for two devices of one NUMA node, and two pods."""
    await world.create("/api/v1/nodes", fake_node("n1"))
    devices = [{"name": f"gpu-{n}", "attributes": {"example.com/numa": {"int": n % 2}}} for n in range(4)]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": devices}
    await world.create(f"{RESOURCES}/resourceslices", {"metadata": {"name": "s"}, "spec": spec})
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    await world.create(
        f"{RESOURCES}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}
    )
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}
    wanted = {"devices": {"requests": [request], "constraints": [{"matchAttribute": "example.com/numa"}]}}
    await world.create(
        f"{RESOURCES}/namespaces/{world.namespace}/resourceclaimtemplates",
        {"metadata": {"name": "two"}, "spec": {"spec": wanted}},
    )
    for name in ("a", "b"):
        pod = fake_pod(name, namespace=world.namespace)
        pod["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "two"}]
        await world.create(world.path("Pod"), pod)


async def listed(world: World, path: str, struct: type[Any]) -> list[Any]:
    return [msgspec.convert(each, struct) for each in (await world.get(path))["items"]]


async def decided(world: World) -> list[Bind]:
    """Place both pods on the node, each with devices of its own."""
    devices = ClusterDevices(
        slices=tuple(map(read_slice, await listed(world, f"{RESOURCES}/resourceslices", api.ResourceSlice))),
        classes={
            each.metadata.name: read_device_class(each)
            for each in await listed(world, f"{RESOURCES}/deviceclasses", api.DeviceClass)
        },
        claims=tuple(
            map(read_resource_claim, await listed(world, world.path("ResourceClaim"), api.ResourceClaim))
        ),
    )
    state = DeviceState(devices, Matcher())
    (node,) = [read_node(each) for each in await listed(world, "/api/v1/nodes", core.Node)]
    first, second = (each.spec for each in devices.claims)
    assert first == second
    slots = state.slots([first]).count(state.on(node), 9)
    assert (slots.count, slots.is_exact) == (2, True)
    binds, used = [], frozenset[tuple[str, str, str]]()
    for pod in await listed(world, world.path("Pod"), core.Pod):
        uid = PodUid(pod.metadata.uid)
        claims = state.claims_of(read_pod_claims(pod), namespace=world.namespace, pod_uid=uid)
        assert not isinstance(claims, Unresolved)
        answer = state.allocate(claims, state.on(node, besides=used))
        used |= {each.device for claim in answer.claims or () for each in claim}
        granted = grants(claims, answer, node)
        binds.append(Bind(uid, world.namespace, pod.metadata.name, NodeName("n1"), grants=granted))
    return binds


async def test_claims_of_a_template_are_allocated_and_given_back(
    shared_cluster: Cluster,
) -> None:
    async with connect(kubeconfig=str(shared_cluster.plane.kubeconfig_path)) as cluster:
        transport = cluster.transport(connections=8)
        world = World(transport, namespace="claims")
        await world.create_namespace()
        await publish(world)

        async def are_made() -> bool:
            pods = [await world.get_pod(name) for name in ("a", "b")]
            return all(pod["status"].get("resourceClaimStatuses") for pod in pods)

        await until(are_made)
        binds = await decided(world)
        async with binding(world, FaultyTransport(transport)) as bench:
            bench.binder.submit(replace(placement(*binds), level="", domain=""))
            await bench.settled()
            assert all(isinstance(each, Bound) for each in bench.outcomes.values())
        claims = await listed(world, world.path("ResourceClaim"), api.ResourceClaim)
        used = [sorted(each.device for each in claim.status.allocation.devices.results) for claim in claims]
        assert sorted(used) == [["gpu-0", "gpu-2"], ["gpu-1", "gpu-3"]]
        for name in ("a", "b"):
            await world.delete_pod(name)

        async def are_gone() -> bool:
            return not (await world.get(world.path("ResourceClaim")))["items"]

        await until(are_gone)
        await transport.close()
