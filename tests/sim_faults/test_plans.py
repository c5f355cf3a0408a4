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
from phalanx_simulator.faults.profiles import PROFILES, REMOTE_FAMILIES, plan
from phalanx_simulator.faults.site import site_of

from tests.hash_seeds import printed
from tests.sim_faults.conftest import RACK, Play, Town, run

LEVELS = {
    "topology.kubernetes.io/zone": 2,
    "network.topology.nvidia.com/block": 3,
    "kubernetes.io/hostname": 4,
}
TREE = tree_of_nodes(LEVELS)
LASTING = ("node-delete", "group-delete", "queue-delete", "node-recreate")


def test_every_kind_can_be_injected_here_or_by_the_world() -> None:
    assert {*KINDS} - {*REMOTE} | {"pod-gpu-failure"} == {*INJECTORS}
    assert {kind.family for kind in REMOTE.values()} == {*REMOTE_FAMILIES}
    assert not {*REMOTE} & {*INJECTORS}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_plan_is_in_order_and_of_its_families(profile: str) -> None:
    faults = plan(profile, random=seeded_random(1), nodes=TREE, hours=5)
    times = [fault.at_s for fault in faults]
    assert times == sorted(times)
    assert all(0 <= at_s < 5 * 3600 for at_s in times)
    assert {fault.family for fault in faults} <= {*PROFILES[profile]}
    names = {one["metadata"]["name"] for one in TREE}
    assert all(names >= {*fault.targets} for fault in faults)


def test_a_plan_brings_what_its_profile_says() -> None:
    hours = 500
    counts = Counter(fault.family for fault in plan("all", random=seeded_random(2), nodes=TREE, hours=hours))
    for family, rate in PROFILES["all"].items():
        expected = rate * hours
        assert abs(counts[family] - expected) < 6 * expected**0.5, family


def test_every_kind_of_a_family_comes() -> None:
    faults = plan("all", random=seeded_random(3), nodes=TREE, hours=300)
    assert {fault.kind for fault in faults} == {*KINDS}


def test_there_is_nothing_without_nodes_time_or_faults() -> None:
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

    async def story(town: Town) -> None:
        town.client.subscribe(None, lambda change: digest.update(msgspec.json.encode(change.entry.data)))
        furnish(town)
        faults = plan("storm", random=seeded_random(seed), nodes=nodes_of(town), hours=0.1)
        await live_through(town, tuple(fault for fault in faults if fault.kind != "foreign-load"))

    run(story, seed)
    return digest.hexdigest()


def nodes_of(town: Town) -> list[Any]:
    return [town.node(name) for name in town.names("Node")]


def furnish(town: Town) -> None:
    town.create(
        queue("red"), queue("blue"), pod_group("g", min_member=2, queue="red"), pod_group("h", min_member=1)
    )


def everything(town: Town) -> dict[str, object]:
    """What faults change of nodes, and the specs that they change.

    A PodGroup of competing work that another fault recreates while it is deleted is left.
    """
    names = [name for name in town.names("PodGroup") if not name.startswith(("gang-", "storm-"))]
    groups = {name: town.get("PodGroup", name, "default")["spec"] for name in names}
    queues = {name: town.get("Queue", name)["spec"] for name in town.names("Queue")}
    return {"nodes": {name: whole(town, name) for name in town.names("Node")}, **groups, **queues}


async def live_through(town: Town, faults: tuple[Fault, ...]) -> None:
    """Inject all that is injected into objects, each at its time, on a cluster with work."""
    for name, place in (("p", "a"), ("q", "b"), ("r", "c")):
        await town.running(name, place, group="g", restartPolicy="OnFailure")
    async with asyncio.TaskGroup() as group:
        for fault in faults:
            if fault.kind in INJECTORS:
                group.create_task(later(town, fault))
    await asyncio.sleep(100)


async def later(town: Town, fault: Fault) -> None:
    await asyncio.sleep(fault.at_s)
    await inject(fault, replace(town.context, random=seeded_random(int(fault.at_s * 1000))))


@pytest.mark.parametrize("seed", range(6))
def test_a_cluster_is_whole_again_after_everything_at_once(seed: int) -> None:
    async def story(town: Town) -> None:
        furnish(town)
        before = everything(town)
        faults = plan("storm", random=seeded_random(seed), nodes=nodes_of(town), hours=0.5)
        await live_through(town, tuple(fault for fault in faults if fault.kind not in LASTING))
        assert everything(town) == before
        assert [name for name in town.names("Pod") if "foreign" in name or "filler" in name] == []

    run(story, seed)


def whole(town: Town, name: str) -> dict[str, object]:
    """What faults change of a node; conditions that say nothing bad do not count."""
    found = town.node(name)
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
def test_no_kind_minds_an_empty_cluster(play: Play, kind: str) -> None:
    async def story(town: Town) -> None:
        await town.inject("node-delete", "a", "b", "c", "d")
        fault = drawn(kind, at_s=0, random=seeded_random(1), site=site_of([node("a", labels={RACK: "r"})]))
        await inject(fault, town.context)

    play(story)


def test_a_site_knows_its_domains_from_the_widest_to_the_narrowest() -> None:
    site = site_of(TREE)
    assert list(site.levels) == ["topology.kubernetes.io/zone", "network.topology.nvidia.com/block"]
    assert site.domain_of("n2-3-1", 0) == tuple(one for one in site.nodes if one.startswith("n2"))
    assert site.domain_of("n2-3-1", -1) == ("n2-3-1", "n2-3-2", "n2-3-3", "n2-3-4")
    assert site.domain_of("n2-3-1", 7) == site.domain_of("n2-3-1", -1)
    assert len(site.share(seeded_random(1), 30)) == 7
    assert site_of([node("lone")]).domain_of("lone", 0) == ("lone",)


def test_racks_of_one_name_in_two_blocks_are_two() -> None:
    places = [(block, rack) for block in ("b0", "b1", "b2") for rack in ("r0", "r1")]
    labels = [{"example.com/topology-rack": rack, "nvidia.com/block": block} for block, rack in places]
    site = site_of([node(f"n{place}", labels=one) for place, one in enumerate(labels)])
    assert list(site.levels) == ["nvidia.com/block", "example.com/topology-rack"]
    assert site.levels["example.com/topology-rack"] == tuple((name,) for name in site.nodes)
    assert site.domain_of("n3", 0) == ("n2", "n3")


@pytest.mark.parametrize("label", ["kubernetes.io/hostname", "nvidia.com/nvswitch.count", "tracker"])
def test_other_labels_are_no_levels(label: str) -> None:
    assert site_of([node("a", labels={label: "x"})]).levels == {}
