"""S29 reports violations of a history with claims for extended resources, and nothing for a valid one."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, NodeState
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.devices.cluster import ClusterDevices
from phalanx_simulator.embedded.controllers.resource_claims import CLAIMS, serve
from phalanx_simulator.embedded.manifests import node, pod
from phalanx_simulator.embedded.pod_claims import EXTENDED
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.invariants.binds import NodeCapacityIsRespected
from phalanx_simulator.invariants.bounds import RESERVED_S
from phalanx_simulator.invariants.claim_coverage import ClaimCoverage
from phalanx_simulator.invariants.claim_facts import is_of_devices
from phalanx_simulator.invariants.extended_resource_claims import ExtendedResourceClaimsFollowPods

from tests.sim_invariants.stage import Actor, Stage, play, violations

NIC = "sim.example/nic"
PATH = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
REQUEST = "container-0-request-0"
MAPPING = {"containerName": "main", "resourceName": NIC, "requestName": REQUEST}


async def ready(stage: Stage, *, offers: str = "0") -> Actor:
    """A class for the resource, a node, the pod `a` that requests two, and a leader that has decided."""
    serve(stage.server)
    spec = {"extendedResourceName": NIC, "selectors": []}
    made = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "nic"},
        "spec": spec,
    }
    stage.client.create("deviceclasses.resource.k8s.io", "", made)
    stage.create(node("n1", **{NIC: offers}), pod("a", requests={"cpu": "1", NIC: "2"}))
    host = await stage.leader()
    host.place({})
    await stage.pass_time(1)
    return host


def document(name: str, uid: str, **fields: Any) -> Object:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": uid, "controller": True}
    request = {"name": REQUEST, "exactly": {"deviceClassName": "nic", "count": 2}}
    meta = {"name": name, "annotations": {EXTENDED: "true"}, "ownerReferences": [owner]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {**meta, **fields},
        "spec": {"devices": {"requests": [request]}},
    }


def claim(stage: Stage, name: str = "special", *, devices: int = 2, **fields: Any) -> None:
    """The claim of the pod `a` with so many devices; `fields` replace some of its metadata."""
    stage.client.create(CLAIMS, "default", document(name, stage.uid("a"), **fields))
    results = [{"request": REQUEST, "driver": "d", "pool": "p", "device": f"{n}"} for n in range(devices)]
    stage.client.update_status(Key(CLAIMS, "default", name), allocation={"devices": {"results": results}})


def name_it(stage: Stage, name: str = "special", *mappings: Object) -> None:
    """The status of the pod `a` names the claim."""
    stage.status("a", extendedResourceClaimStatus={"resourceClaimName": name, "requestMappings": [*mappings]})


def named(stage: Stage, **options: Any) -> None:
    claim(stage, **options)
    name_it(stage, "special", MAPPING)


def two_claims(stage: Stage) -> None:
    named(stage)
    stage.client.create(CLAIMS, "default", document("more", stage.uid("a")))


def of_another_request(stage: Stage) -> None:
    claim(stage)
    name_it(stage, "special", {**MAPPING, "requestName": "container-1-request-0"})


def unmapped(stage: Stage) -> None:
    claim(stage)
    name_it(stage)


@pytest.mark.parametrize(
    ("prepare", "wrong"),
    [
        (named, []),
        (lambda _: None, ["S29"]),
        (claim, ["S29"]),
        (lambda stage: name_it(stage, "gone", MAPPING), ["S29"]),
        (lambda stage: named(stage, annotations={}), ["S29"]),
        (lambda stage: named(stage, ownerReferences=[]), ["S29", "S29"]),
        (lambda stage: named(stage, devices=1), ["S29"]),
        (lambda stage: named(stage, devices=3), ["S29"]),
        (of_another_request, ["S29"]),
        (unmapped, ["S29"]),
        (two_claims, ["S29"]),
    ],
)
def test_a_pod_is_bound_after_it_has_its_devices(prepare: Callable[[Stage], None], wrong: list[str]) -> None:
    async def history(stage: Stage) -> None:
        host = await ready(stage)
        prepare(stage)
        await host.bind("a", "n1")

    assert violations(history, ExtendedResourceClaimsFollowPods) == wrong


def test_a_node_that_offers_the_resource_needs_no_claim() -> None:
    async def history(stage: Stage) -> None:
        host = await ready(stage, offers="2")
        await host.bind("a", "n1")

    assert violations(history, ExtendedResourceClaimsFollowPods, NodeCapacityIsRespected) == []


@pytest.mark.parametrize(("offers", "wrong"), [("0", []), ("1", ["S2"])])
def test_devices_count_only_where_the_node_offers_the_resource(offers: str, wrong: list[str]) -> None:
    async def history(stage: Stage) -> None:
        host = await ready(stage, offers=offers)
        await host.bind("a", "n1")

    found = violations(history, NodeCapacityIsRespected)
    assert sorted({*found}) == wrong


async def bound(stage: Stage, host: Actor) -> None:
    await host.bind("a", "n1")


async def ended(stage: Stage, host: Actor) -> None:
    await host.bind("a", "n1")
    stage.status("a", phase="Succeeded")


async def gone(stage: Stage, host: Actor) -> None:
    stage.delete("a")


async def waiting(stage: Stage, host: Actor) -> None:
    """The claim was made, and the pod was not bound."""


@pytest.mark.parametrize(
    ("what", "after_s", "wrong"),
    [
        (bound, RESERVED_S + 25, []),
        (ended, RESERVED_S - 15, []),
        (ended, RESERVED_S + 25, ["S29"]),
        (gone, RESERVED_S + 25, ["S29"]),
        (waiting, RESERVED_S - 15, []),
        (waiting, RESERVED_S + 25, ["S29"]),
    ],
)
def test_a_claim_does_not_outlive_its_use(
    what: Callable[[Stage, Actor], Awaitable[None]], after_s: float, wrong: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        host = await ready(stage)
        named(stage)
        await what(stage, host)
        await stage.pass_time(after_s)

    assert violations(history, ExtendedResourceClaimsFollowPods) == wrong


@pytest.mark.parametrize(("what", "wrong"), [(bound, []), (ended, ["S29"]), (gone, ["S29"])])
def test_at_rest_a_claim_has_its_pod(
    what: Callable[[Stage, Actor], Awaitable[None]], wrong: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        host = await ready(stage)
        named(stage)
        await what(stage, host)
        stage.checks.at_rest()

    assert violations(history, ExtendedResourceClaimsFollowPods) == wrong


def test_at_rest_a_pod_has_its_devices() -> None:
    async def history(stage: Stage) -> None:
        host = await ready(stage)
        named(stage)
        await host.bind("a", "n1")
        key = Key(CLAIMS, "default", "special")
        stage.client.update_status(key, allocation=None)
        stage.checks.at_rest()

    assert violations(history, ExtendedResourceClaimsFollowPods) == ["S29"]


def test_coverage_points() -> None:
    async def history(stage: Stage) -> None:
        host = await ready(stage)
        for name in ("", "special", "special"):
            await host.request("POST", PATH, document(name, stage.uid("a")))
        (found,) = stage.client.keys(CLAIMS)
        uid = (stage.client.get(found) or {})["metadata"]["uid"]
        await host.request("DELETE", f"{PATH}/special", {"preconditions": {"uid": uid}})
        named(stage)
        other = stage.hosts[1]
        other.place({})
        await other.bind("a", "n1")

    counted = play(history, ClaimCoverage).coverage.counts
    assert counted == {
        "devices-left-by-leader": 1,
        "devices-reserved": 1,
        "special-claim-given-back": 1,
        "special-claim-left-by-leader": 1,
        "special-claim-made-before": 1,
        "special-claim-refused": 1,
        "special-claim-used": 1,
    }


def test_amounts_of_devices_are_compared_only_on_nodes_that_offer_the_resource() -> None:
    offers = {"a": {}, "b": {NIC: 2}}
    nodes = {
        NodeName(each): NodeState(Node(NodeName(each), each, {}, allocatable=offers[each])) for each in offers
    }
    devices = ClusterDevices(extended={NIC: "nic"})
    snapshot = Snapshot(now=0, seed=0, nodes=nodes, supplies={devices.supply: devices})
    assert [is_of_devices(NIC, NodeName(each), snapshot) for each in offers] == [True, False]
    assert not is_of_devices("cpu", NodeName("a"), snapshot)
