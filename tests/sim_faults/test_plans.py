"""Profiles and plans: rates, determinism, and that a cluster is whole again after everything at once."""

import asyncio
import hashlib
from collections import Counter
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from phalanx.clock import seeded_random
from phalanx_simulator.embedded.manifests import node, pod_group, queue, tree_of_nodes
from phalanx_simulator.faults.fault import Fault
from phalanx_simulator.faults.kinds import INJECTORS, KINDS, REMOTE, drawn, inject
from phalanx_simulator.faults.node_conditions import HEALTHY_STATUS
from phalanx_simulator.faults.profiles import PROFILES, REMOTE_FAMILIES, claim_faults, driver_faults, plan
from phalanx_simulator.faults.site import site_of

from tests.hash_seeds import printed
from tests.sim_faults.conftest import RACK, FaultCluster, Play, run

LEVELS = {
    "topology.kubernetes.io/zone": 2,
    "network.topology.nvidia.com/block": 3,
    "kubernetes.io/hostname": 4,
}
TREE = tree_of_nodes(LEVELS)
LASTING = ("node-delete", "group-delete", "queue-delete", "node-recreate")


def test_every_kind_has_an_injector() -> None:
    assert {*KINDS} - {*REMOTE} | {"pod-gpu-failure"} == {*INJECTORS}
    assert {kind.family for kind in REMOTE.values()} == {*REMOTE_FAMILIES, "F14"}
    assert not {*REMOTE} & {*INJECTORS}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_plan_is_sorted_and_has_only_its_families(profile: str) -> None:
    faults = plan(profile, random=seeded_random(1), nodes=TREE, hours=5)
    times = [fault.at_s for fault in faults]
    assert times == sorted(times)
    assert all(0 <= at_s < 5 * 3600 for at_s in times)
    assert {fault.family for fault in faults} <= {*PROFILES[profile]}
    names = {one["metadata"]["name"] for one in TREE}
    assert all(names >= {*fault.targets} for fault in faults)


def test_a_plan_has_the_rates_of_its_profile() -> None:
    hours = 500
    counts = Counter(fault.family for fault in plan("all", random=seeded_random(2), nodes=TREE, hours=hours))
    for family, rate in PROFILES["all"].items():
        expected = rate * hours
        assert abs(counts[family] - expected) < 6 * expected**0.5, family


def test_a_plan_contains_every_kind_of_a_family() -> None:
    faults = plan("all", random=seeded_random(3), nodes=TREE, hours=300)
    more = claim_faults("all", random=seeded_random(3), nodes=TREE, hours=30)
    assert {fault.family for fault in more} == {"F14"}
    drivers = driver_faults("all", random=seeded_random(3), nodes=TREE, hours=3)
    assert {fault.family for fault in drivers} == {"F15"}
    assert {fault.kind for fault in (*faults, *more, *drivers)} == {*KINDS}
    assert claim_faults("none", random=seeded_random(3), nodes=TREE, hours=30) == ()


def test_plans_without_hours_or_rates_are_empty() -> None:
    assert plan("none", random=seeded_random(1), nodes=TREE, hours=100) == ()
    assert plan("all", random=seeded_random(1), nodes=TREE, hours=0) == ()
    assert plan("all", random=seeded_random(1), nodes=[], hours=1) != ()
    with pytest.raises(KeyError):
        plan("chaos", random=seeded_random(1), nodes=TREE, hours=1)


def test_the_same_seed_gives_the_same_plan_in_any_process() -> None:
    script = "from tests.sim_faults.test_plans import fingerprint\nprint(fingerprint(1), fingerprint(2))"
    outputs = [printed("-c", script, hash_seed=seed) for seed in ("1", "2")]
    assert outputs[0] == outputs[1]
    first, second = outputs[0].split()
    assert first != second


def fingerprint(seed: int) -> str:
    """Of a plan, and of all that it does to a cluster."""
    digest = hashlib.sha256(repr(plan("all", random=seeded_random(seed), nodes=TREE, hours=5)).encode())

    async def scenario(cluster: FaultCluster) -> None:
        cluster.client.subscribe(None, lambda change: digest.update(msgspec.json.encode(change.entry.data)))
        create_objects(cluster)
        faults = plan("storm", random=seeded_random(seed), nodes=nodes_of(cluster), hours=0.1)
        await inject_all(cluster, tuple(fault for fault in faults if fault.kind != "foreign-load"))

    run(scenario, seed)
    return digest.hexdigest()


def nodes_of(cluster: FaultCluster) -> list[Any]:
    return [cluster.node(name) for name in cluster.names("Node")]


def create_objects(cluster: FaultCluster) -> None:
    cluster.create(
        queue("red"), queue("blue"), pod_group("g", min_member=2, queue="red"), pod_group("h", min_member=1)
    )


def everything(cluster: FaultCluster) -> dict[str, object]:
    """What faults change of nodes, and the specs that they change.

    A PodGroup of competing work that another fault recreates while it is deleted is left.
    """
    names = [name for name in cluster.names("PodGroup") if not name.startswith(("gang-", "storm-"))]
    groups = {name: cluster.get("PodGroup", name, "default")["spec"] for name in names}
    queues = {name: cluster.get("Queue", name)["spec"] for name in cluster.names("Queue")}
    return {"nodes": {name: state_of(cluster, name) for name in cluster.names("Node")}, **groups, **queues}


async def inject_all(cluster: FaultCluster, faults: tuple[Fault, ...]) -> None:
    """Inject all that is injected into objects, each at its time, on a cluster with work."""
    for name, place in (("p", "a"), ("q", "b"), ("r", "c")):
        await cluster.running(name, place, group="g", restartPolicy="OnFailure")
    async with asyncio.TaskGroup() as group:
        for fault in faults:
            if fault.kind in INJECTORS:
                group.create_task(later(cluster, fault))
    await asyncio.sleep(100)


async def later(cluster: FaultCluster, fault: Fault) -> None:
    await asyncio.sleep(fault.at_s)
    await inject(fault, replace(cluster.context, random=seeded_random(int(fault.at_s * 1000))))


@pytest.mark.parametrize("seed", range(6))
def test_all_faults_together_are_undone(seed: int) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        create_objects(cluster)
        before = everything(cluster)
        faults = plan("storm", random=seeded_random(seed), nodes=nodes_of(cluster), hours=0.5)
        await inject_all(cluster, tuple(fault for fault in faults if fault.kind not in LASTING))
        assert everything(cluster) == before
        assert [name for name in cluster.names("Pod") if "foreign" in name or "filler" in name] == []

    run(scenario, seed)


def state_of(cluster: FaultCluster, name: str) -> dict[str, object]:
    """What faults change of a node; conditions that say nothing bad do not count."""
    found = cluster.node(name)
    labels = {key: value for key, value in found["metadata"]["labels"].items() if "uncordon" not in key}
    bad = [
        one["type"]
        for one in found["status"]["conditions"]
        if one["status"] != HEALTHY_STATUS.get(one["type"], "False")
    ]
    return {
        "labels": labels,
        "spec": found["spec"],
        "allocatable": found["status"]["allocatable"],
        "annotations": found["metadata"].get("annotations") or {},
        "bad": bad,
    }


@pytest.mark.parametrize("kind", sorted({*KINDS} - {*REMOTE}))
def test_every_kind_accepts_an_empty_cluster(play: Play, kind: str) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        await cluster.inject("node-delete", "a", "b", "c", "d")
        fault = drawn(kind, at_s=0, random=seeded_random(1), site=site_of([node("a", labels={RACK: "r"})]))
        await inject(fault, cluster.context)

    play(scenario)


def test_domains_of_a_site_are_ordered_from_widest_to_narrowest() -> None:
    site = site_of(TREE)
    assert list(site.levels) == ["topology.kubernetes.io/zone", "network.topology.nvidia.com/block"]
    assert site.domain_of("n2-3-1", 0) == tuple(one for one in site.nodes if one.startswith("n2"))
    assert site.domain_of("n2-3-1", -1) == ("n2-3-1", "n2-3-2", "n2-3-3", "n2-3-4")
    assert site.domain_of("n2-3-1", 7) == site.domain_of("n2-3-1", -1)
    assert len(site.share(seeded_random(1), 30)) == 7
    assert site_of([node("lone")]).domain_of("lone", 0) == ("lone",)


def test_racks_with_the_same_name_in_two_blocks_are_two_domains() -> None:
    places = [(block, rack) for block in ("b0", "b1", "b2") for rack in ("r0", "r1")]
    labels = [{"example.com/topology-rack": rack, "nvidia.com/block": block} for block, rack in places]
    site = site_of([node(f"n{place}", labels=one) for place, one in enumerate(labels)])
    assert list(site.levels) == ["nvidia.com/block", "example.com/topology-rack"]
    assert site.levels["example.com/topology-rack"] == tuple((name,) for name in site.nodes)
    assert site.domain_of("n3", 0) == ("n2", "n3")


@pytest.mark.parametrize("label", ["kubernetes.io/hostname", "nvidia.com/nvswitch.count", "tracker"])
def test_other_labels_are_not_levels(label: str) -> None:
    assert site_of([node("a", labels={label: "x"})]).levels == {}
