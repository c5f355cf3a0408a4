"""F15, and the driver that it affects: a device is prepared after its allocation, late, never, or fails."""

import asyncio

import pytest
from phalanx_simulator.campaigns.claims import DEVICE_DRIVER
from phalanx_simulator.embedded.controllers.device_driver import DeviceDriver
from phalanx_simulator.embedded.controllers.device_preparer import BINDING, DevicePreparer
from phalanx_simulator.embedded.controllers.resource_claims import CLAIMS, SLICES, serve
from phalanx_simulator.embedded.store import Key, Object

from tests.sim_faults.conftest import FaultCluster, Play

KEY = Key(CLAIMS, "default", "c")
DELAY_S = 10.0


def equipped(cluster: FaultCluster) -> None:
    serve(cluster.server)
    DevicePreparer(cluster.client, driver=DEVICE_DRIVER, delay_s=DELAY_S)
    DeviceDriver(cluster.client, driver=DEVICE_DRIVER, count=1, fields=BINDING)
    meta = {"name": "c", "namespace": "default"}
    made = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta, "spec": {}}
    cluster.client.create(CLAIMS, "default", made)


def allocate(cluster: FaultCluster, at: str) -> None:
    """Allocate the device of node "a" to the claim, and one of another driver."""
    ours = {"request": "r", "driver": DEVICE_DRIVER, "pool": "a", "device": "device-0", **BINDING}
    results = [ours, {**ours, "driver": "other"}]
    allocation = {"devices": {"results": results}, "allocationTimestamp": at}
    cluster.client.update_status(KEY, allocation=allocation, devices=None)


def reported(cluster: FaultCluster) -> list[str]:
    found: Object = cluster.client.get(KEY) or {}
    devices = found["status"].get("devices") or ()
    assert all(each["driver"] == DEVICE_DRIVER for each in devices)
    return [one["type"] for each in devices for one in each["conditions"] if one["status"] == "True"]


def test_a_device_is_prepared_step_by_step_after_its_allocation(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        equipped(cluster)
        allocate(cluster, "1")
        await asyncio.sleep(DELAY_S - 1)
        assert reported(cluster) == ["attached"]
        await asyncio.sleep(2)
        assert reported(cluster) == ["attached", "linked"]
        (device,) = [
            each
            for key in cluster.client.keys(SLICES)
            for each in (cluster.client.get(key) or {})["spec"]["devices"]
            if key.name.startswith("a-")
        ]
        assert {name: device[name] for name in BINDING} == BINDING
        allocate(cluster, "2")
        assert reported(cluster) == []
        await asyncio.sleep(DELAY_S + 1)
        assert reported(cluster) == ["attached", "linked"]

    play(scenario)


def test_an_allocation_that_is_given_back_is_not_prepared(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        equipped(cluster)
        allocate(cluster, "1")
        await asyncio.sleep(1)
        cluster.client.update_status(KEY, allocation=None, devices=None)
        await asyncio.sleep(DELAY_S)
        assert reported(cluster) == []

    play(scenario)


@pytest.mark.parametrize(
    ("kind", "settings", "then", "afterwards"),
    [
        ("devices-prepared-late", {"delay_s": 100}, [], ["attached", "linked"]),
        ("devices-never-prepared", {}, [], ["attached", "linked"]),
        ("devices-not-preparable", {}, ["broken"], ["broken"]),
    ],
)
def test_a_driver_is_slow_or_fails_for_a_while(
    play: Play, kind: str, settings: dict[str, int], then: list[str], afterwards: list[str]
) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        equipped(cluster)
        task = cluster.start(kind, "a", seconds=40, **settings)
        await asyncio.sleep(1)
        allocate(cluster, "1")
        await asyncio.sleep(30)
        assert reported(cluster) == then
        await task
        await asyncio.sleep(2 * DELAY_S)
        assert reported(cluster) == afterwards

    play(scenario)
