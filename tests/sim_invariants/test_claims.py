"""S26 to S29 and L14 report violations of a history, and nothing for a similar valid one."""

from typing import Any

import pytest
from phalanx_simulator.embedded.controllers.resource_claims import CLAIMS as DEVICE_CLAIMS
from phalanx_simulator.embedded.controllers.resource_claims import SLICES, serve
from phalanx_simulator.embedded.controllers.volumes import BIND_COMPLETED, CLAIMS, VOLUMES
from phalanx_simulator.embedded.manifests import node, pod
from phalanx_simulator.embedded.provisioned_volumes import SELECTED_NODE, on_host
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.faults.edits import with_metadata, with_spec
from phalanx_simulator.invariants.bounds import PREPARED_S, RESERVED_S, VOLUME_WAIT_S
from phalanx_simulator.invariants.claim_coverage import ClaimCoverage
from phalanx_simulator.invariants.devices import ClaimsAreGivenBack, DevicesHaveOneUser
from phalanx_simulator.invariants.volumes import NoEndlessVolumeWait, VolumesAreBound

from tests.sim_invariants.stage import Actor, Stage, play, violations

PATH = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


def claim(stage: Stage, name: str, *, volume: str = "", completed: bool = True) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    annotations = {BIND_COMPLETED: "yes"} if completed and volume else {}
    meta = {"name": name, "namespace": "default", "annotations": annotations}
    bound = {"volumeName": volume} if volume else {}
    made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": {**spec, **bound}}
    stage.client.create(CLAIMS, "default", made)


def volume(stage: Stage, name: str, host: str) -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "nodeAffinity": on_host(host)}
    made = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
    stage.client.create(VOLUMES, "", made)


def mounting(name: str, *claims: str) -> Object:
    mounts = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return pod(name, volumes=mounts)


@pytest.mark.parametrize(
    ("bound_to", "completed", "wrong"),
    [("v1", True, []), ("", False, ["S26"]), ("v1", False, ["S26"]), ("v2", True, ["S26"])],
)
def test_a_pod_is_bound_after_its_volume_and_where_it_is(
    bound_to: str, completed: bool, wrong: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), node("n2"), mounting("a", "c"))
        volume(stage, "v1", "n1")
        volume(stage, "v2", "n2")
        claim(stage, "c", volume=bound_to, completed=completed)
        host = await stage.leader()
        await host.bind("a", "n1")

    assert violations(history, VolumesAreBound) == wrong


def test_a_pod_without_its_claim_or_a_volume_with_two_violates() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), mounting("a", "gone"))
        volume(stage, "v1", "n1")
        claim(stage, "c", volume="v1")
        claim(stage, "d", volume="v1")
        host = await stage.leader()
        await host.bind("a", "n1")

    assert violations(history, VolumesAreBound) == ["S26", "S26"]


def device_claim(stage: Stage, name: str, *devices: str, users: tuple[str, ...] = (), on: str = "") -> None:
    """A ResourceClaim with these devices, reserved for these pods."""
    made = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {},
    }
    stage.client.create(DEVICE_CLAIMS, "default", made)
    allocate(stage, name, *devices, users=users, on=on)


def allocate(stage: Stage, name: str, *devices: str, users: tuple[str, ...] = (), on: str = "") -> None:
    results = [{"driver": "d", "pool": "p", "device": each, "request": "r"} for each in devices]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}
    selector = {"nodeSelector": {"nodeSelectorTerms": [term]}} if on else {}
    allocation = {"devices": {"results": results}, **selector} if devices else None
    reserved = [{"resource": "pods", "name": each, "uid": stage.uid(each)} for each in users]
    stage.client.update_status(
        Key(DEVICE_CLAIMS, "default", name), allocation=allocation, reservedFor=reserved
    )


def using(name: str, claim: str) -> Object:
    return pod(name, resourceClaims=[{"name": "r", "resourceClaimName": claim}])


def test_a_device_of_two_claims_violates_until_one_gives_it_back() -> None:
    async def history(stage: Stage) -> None:
        serve(stage.server)
        device_claim(stage, "c", "x")
        device_claim(stage, "d", "y")
        allocate(stage, "c")
        device_claim(stage, "e", "x")
        device_claim(stage, "f", "y")

    assert violations(history, DevicesHaveOneUser) == ["S27"]


def shared_device(stage: Stage, memory: str, *, generation: int = 1) -> None:
    """A slice with the device "x", which has this much memory."""
    device = {"name": "x", "allowMultipleAllocations": True, "capacity": {"memory": {"value": memory}}}
    made = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"s{generation}"},
        "spec": {"driver": "d", "pool": {"name": "p", "generation": generation}, "devices": [device]},
    }
    stage.client.create(SLICES, "", made)


def share(stage: Stage, name: str, amount: str, *, share_id: str = "") -> None:
    """A claim with a share of the device."""
    device_claim(stage, name)
    result = {"driver": "d", "pool": "p", "device": "x", "request": "r", "shareID": share_id or name}
    consumed = {"memory": amount, "other": "7"}
    allocation = {"devices": {"results": [{**result, "consumedCapacity": consumed}]}}
    stage.client.update_status(Key(DEVICE_CLAIMS, "default", name), allocation=allocation, reservedFor=[])


@pytest.mark.parametrize(
    ("memory", "amounts", "wrong"),
    [
        ("1Gi", ("512Mi", "512Mi"), []),
        ("1G", ("512Mi", "512Mi"), ["S27"]),
        ("1", ("300m", "600m", "101m"), ["S27"]),
        ("1", ("300m", "600m", "100m"), []),
    ],
)
def test_shares_consume_no_more_than_the_device_has(
    memory: str, amounts: tuple[str, ...], wrong: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        serve(stage.server)
        shared_device(stage, "9Ti")
        shared_device(stage, memory, generation=2)
        for index, amount in enumerate(amounts):
            share(stage, f"c{index}", amount)

    assert violations(history, DevicesHaveOneUser) == wrong


def test_a_share_beside_a_whole_device_and_a_second_share_of_one_id_violate() -> None:
    async def history(stage: Stage) -> None:
        serve(stage.server)
        shared_device(stage, "4")
        share(stage, "a", "1")
        share(stage, "b", "1", share_id="a")
        allocate(stage, "b")
        device_claim(stage, "c", "x")

    assert violations(history, DevicesHaveOneUser) == ["S27", "S27"]


@pytest.mark.parametrize(
    ("devices", "users", "on", "wrong"),
    [
        (("x",), ("a",), "n1", []),
        ((), (), "", ["S27"]),
        (("x",), (), "n1", ["S27"]),
        (("x",), ("b",), "n1", ["S27"]),
        (("x",), ("a",), "n2", ["S27"]),
    ],
)
def test_a_pod_is_bound_after_its_devices_are_reserved(
    devices: tuple[str, ...], users: tuple[str, ...], on: str, wrong: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        serve(stage.server)
        stage.create(node("n1"), node("n2"), using("a", "c"), pod("b"))
        device_claim(stage, "c", *devices, users=users, on=on)
        host = await stage.leader()
        await host.bind("a", "n1")

    assert violations(history, DevicesHaveOneUser) == wrong


def conditions(*true: str, device: str = "x") -> list[Object]:
    """What a driver says of a device of a claim."""
    said = [{"type": each, "status": "True"} for each in true] + [{"type": "linked", "status": "False"}]
    return [{"driver": "d", "pool": "p", "device": device, "conditions": said}]


def prepare(stage: Stage, name: str, *true: str) -> None:
    """Devices of the claim have binding conditions, of which these are true."""
    key = Key(DEVICE_CLAIMS, "default", name)
    allocation = stage.client.get(key)["status"]["allocation"]  # type: ignore[index]
    wanted = {"bindingConditions": ["attached", "linked"], "bindingFailureConditions": ["broken"]}
    results = [{**each, **wanted} for each in allocation["devices"]["results"]]
    changed = {**allocation, "devices": {"results": results}, "allocationTimestamp": "1"}
    stage.client.update_status(key, allocation=changed, devices=conditions(*true))


@pytest.mark.parametrize(
    ("true", "wrong"),
    [
        (("attached", "linked"), []),
        (("attached",), ["S27"]),
        ((), ["S27"]),
        (("attached", "linked", "broken"), ["S27"]),
    ],
)
def test_a_pod_is_bound_after_its_devices_are_prepared(true: tuple[str, ...], wrong: list[str]) -> None:
    async def history(stage: Stage) -> None:
        serve(stage.server)
        stage.create(node("n1"), using("a", "c"))
        device_claim(stage, "c", "x", users=("a",), on="n1")
        prepare(stage, "c", *true)
        host = await stage.leader()
        await host.bind("a", "n1")

    assert violations(history, DevicesHaveOneUser) == wrong


def test_an_allocation_has_the_binding_conditions_that_the_driver_publishes() -> None:
    async def history(stage: Stage) -> None:
        serve(stage.server)
        stage.create(node("n1"), using("a", "c"))
        published = [{"name": "x", "bindingConditions": ["attached"]}]
        spec = {"driver": "d", "pool": {"name": "p"}, "devices": published}
        made = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}}
        stage.client.create(SLICES, "", {**made, "spec": spec})
        device_claim(stage, "c", "x", users=("a",), on="n1")
        host = await stage.leader()
        await host.bind("a", "n1")

    assert violations(history, DevicesHaveOneUser) == ["S27"]


@pytest.mark.parametrize(("after_s", "wrong"), [(PREPARED_S, []), (PREPARED_S + RESERVED_S + 50, ["S28"])])
def test_a_claim_may_stay_reserved_for_long_while_its_devices_are_prepared(
    after_s: float, wrong: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        serve(stage.server)
        stage.create(node("n1"), using("a", "c"))
        await ready(stage)
        device_claim(stage, "c", "x", users=("a",))
        prepare(stage, "c", "attached")
        await stage.pass_time(after_s)

    assert violations(history, ClaimsAreGivenBack) == wrong


async def ready(stage: Stage) -> Actor:
    """A leader that has decided once."""
    host = await stage.leader()
    host.place({})
    await stage.pass_time(1)
    return host


@pytest.mark.parametrize(("after_s", "wrong"), [(RESERVED_S - 15, []), (RESERVED_S + 25, ["S28"])])
def test_a_claim_that_stays_reserved_for_a_waiting_pod_violates(after_s: float, wrong: list[str]) -> None:
    async def history(stage: Stage) -> None:
        serve(stage.server)
        stage.create(node("n1"), using("a", "c"))
        await ready(stage)
        device_claim(stage, "c", "x", users=("a",))
        await stage.pass_time(after_s)

    assert violations(history, ClaimsAreGivenBack) == wrong


def test_a_claim_of_a_pod_that_runs_may_stay_reserved() -> None:
    async def history(stage: Stage) -> None:
        serve(stage.server)
        stage.create(node("n1"), using("a", "c"))
        device_claim(stage, "c", "x", users=("a",))
        host = await ready(stage)
        await host.bind("a", "n1")
        await stage.pass_time(RESERVED_S + 25)
        stage.checks.at_rest()

    assert violations(history, ClaimsAreGivenBack) == []


def test_at_rest_no_claim_is_held_for_nobody_or_for_the_dead() -> None:
    async def history(stage: Stage) -> None:
        serve(stage.server)
        stage.create(using("a", "c"))
        device_claim(stage, "c", "x", users=("a",))
        device_claim(stage, "d", "y")
        stage.status("a", phase="Failed")
        stage.checks.at_rest()

    assert violations(history, ClaimsAreGivenBack) == ["S28", "S28"]


def test_at_the_end_no_claim_is_left() -> None:
    async def history(stage: Stage) -> None:
        serve(stage.server)
        device_claim(stage, "c")
        stage.checks.at_end()

    assert violations(history, ClaimsAreGivenBack) == ["S28"]


def select(stage: Stage, name: str, host: str | None) -> None:
    change = {SELECTED_NODE: host}
    stage.client.update(
        Key(CLAIMS, "default", name), lambda item: with_metadata(item, "annotations", **change)
    )


@pytest.mark.parametrize("given_up", [False, True])
def test_a_claim_does_not_wait_for_ever_for_a_volume(given_up: bool) -> None:
    async def history(stage: Stage) -> None:
        await ready(stage)
        claim(stage, "c")
        select(stage, "c", "n1")
        await stage.pass_time(VOLUME_WAIT_S / 2)
        if given_up:
            select(stage, "c", None)
            select(stage, "c", "n1")
        await stage.pass_time(VOLUME_WAIT_S / 2 + 5)

    assert violations(history, NoEndlessVolumeWait) == ([] if given_up else ["L14"])


def test_a_bound_claim_may_keep_its_selected_node() -> None:
    async def history(stage: Stage) -> None:
        await ready(stage)
        claim(stage, "c")
        select(stage, "c", "n1")
        stage.client.update(Key(CLAIMS, "default", "c"), lambda item: with_spec(item, volumeName="v"))
        await stage.pass_time(VOLUME_WAIT_S + 5)

    assert violations(history, NoEndlessVolumeWait) == []


def test_coverage_points_of_volumes() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), mounting("a", "c"))
        volume(stage, "v1", "n1")
        claim(stage, "c")
        select(stage, "c", "n1")
        select(stage, "c", None)
        await stage.pass_time(1)
        select(stage, "c", "n1")
        host = await stage.leader()
        body = {"metadata": {"annotations": {SELECTED_NODE: None}}}
        await host.request("PATCH", "/api/v1/namespaces/default/persistentvolumeclaims/c", body)
        select(stage, "c", "n1")
        await stage.pass_time(61)
        stage.client.update(Key(CLAIMS, "default", "c"), lambda item: with_spec(item, volumeName="v1"))
        await host.bind("a", "n1")

    counted = play(history, ClaimCoverage).coverage.counts
    assert counted == {
        "provisioner-failed": 1,
        "volume-given-up": 1,
        "volume-late": 1,
        "volume-reserved": 1,
    }


def published(*devices: Any, generation: int = 1) -> Object:
    pool = {"name": "p", "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": "d", "pool": pool, "devices": list(devices)}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": spec,
    }


def test_coverage_points_of_devices() -> None:
    async def history(stage: Stage) -> None:
        serve(stage.server)
        stage.create(node("n1"), using("a", "c"), using("b", "c"))
        stage.client.create(SLICES, "", published({"name": "x"}, {"name": "y"}))
        device_claim(stage, "c", "x", "y", users=("a", "b"))
        host = await ready(stage)
        await host.bind("a", "n1")
        tainted = published({"name": "x", "taints": [{"key": "broken", "effect": "NoSchedule"}]})
        stage.client.update(Key(SLICES, "", "s"), lambda item: {**item, "spec": tainted["spec"]})
        await stage.pass_time(6)
        await host.request("PATCH", f"{PATH}/c/status", {"status": {"allocation": None}})

    counted = play(history, ClaimCoverage).coverage.counts
    assert counted == {
        "claim-shared": 1,
        "claims-refused": 1,
        "device-tainted": 1,
        "device-withdrawn": 1,
        "devices-given-back": 1,
        "devices-left-by-leader": 1,
    }
