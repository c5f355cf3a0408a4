"""Defragmentation: the complete scheduler, controllers and kubelets in virtual time."""

import asyncio
from collections import Counter

from phalanx.framework.config import ActionName, ConsolidationConfig, SchedulerConfig
from phalanx.model.decisions import MovePlan
from phalanx_simulator.campaigns.claims import DEVICES
from phalanx_simulator.campaigns.claims import manifests as equipment
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.equipment import equip
from phalanx_simulator.runs.world import World, WorldSettings, in_world

ACTIONS = (ActionName.RELEASE, ActionName.RECOVER, ActionName.CONSOLIDATE, ActionName.PREEMPT)
REST_S = 60
ONE_DEVICE = "one-nic"


def play(
    *,
    grouped: bool,
    dry_run: bool = False,
    spread: tuple[Object, ...] = (),
    with_devices: bool = False,
) -> tuple[World, dict[str, Counter[str]], list[MovePlan]]:
    """Two Jobs each use half of a node; then a Job arrives that needs a complete node.

    Returns pods by node for each Job, under `before/NAME` as they were before that Job arrived.
    `with_devices`: each pod has a device too, and the last Job needs all devices of a node and few GPUs.
    """
    found: dict[str, Counter[str]] = {}
    plans: list[MovePlan] = []

    def create(world: World, name: str, members: int, gpus: int) -> None:
        group = name if grouped else ""
        if grouped:
            world.create([manifests.pod_group(name, min_member=members)])
        requests = {"nvidia.com/gpu": str(gpus)}
        job = manifests.job(name, members=members, group=group, requests=requests)
        template = job["spec"]["template"]
        if spread and name in ("stays", "also"):
            template["metadata"]["labels"] = {**template["metadata"].get("labels", {}), "app": "x"}
            template["spec"]["topologySpreadConstraints"] = list(spread)
        if with_devices:
            claim = "all-devices" if name == "large" else ONE_DEVICE
            template["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": claim}]
        world.create([job])

    def where(world: World, prefix: str = "") -> None:
        keys = [key for key in world.client.keys("pods") if world.client.get(key) is not None]
        for pod in [world.client.get(key) or {} for key in keys]:
            node = pod["spec"].get("nodeName", "")
            found.setdefault(prefix + owner(pod), Counter())[node] += 1

    async def story(world: World) -> None:
        world.listen(lambda _, result: plans.extend(result.plans))
        nodes = [manifests.node(f"n{index}", gpus=8, labels={"block": "b"}) for index in range(2)]
        if with_devices:
            equip(world)
            world.create([*equipment(nodes, block="block"), all_devices()])
        world.create(nodes)
        world.start()
        await asyncio.sleep(5)
        for name in ("stays", "gone", "also"):
            create(world, name, 1 if not grouped else 2, 4 if not grouped else 2)
            await asyncio.sleep(5)
        key = Key("jobs.batch", "default", "gone")
        job = world.client.get(key)
        assert job is not None
        world.client.delete(key, uid=job["metadata"]["uid"])
        await asyncio.sleep(REST_S)
        where(world, "before/")
        create(world, "large", 1, 1 if with_devices else 8)
        await asyncio.sleep(180)
        where(world)

    settings = WorldSettings(
        seed=1,
        replicas=1,
        checks=ALL_CHECKS,
        config=SchedulerConfig(
            actions=ACTIONS, consolidation=ConsolidationConfig(rest_minutes=1, dry_run=dry_run)
        ),
    )
    return in_world(settings, story), found, plans


def all_devices() -> Object:
    """The template of a claim to all devices of a node."""
    exactly = {"deviceClassName": "nic", "count": DEVICES}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "all-devices", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [{"name": "all", "exactly": exactly}]}}},
    }


def owner(pod: Object) -> str:
    (reference,) = pod["metadata"]["ownerReferences"]
    return str(reference["name"])


def test_a_gang_is_moved_for_a_gang_that_needs_a_complete_node() -> None:
    world, found, plans = play(grouped=True)
    assert world.violations.kept == []
    assert len(found["before/stays"] | found["before/also"]) == 2
    assert [plan.pods for plan in plans] == [2]
    assert found["stays"] == found["also"]
    assert found["large"].keys().isdisjoint({*found["stays"], ""})


def test_a_pod_without_a_group_is_moved_too() -> None:
    world, found, plans = play(grouped=False)
    assert world.violations.kept == []
    assert [plan.pods for plan in plans] == [1]
    assert found["stays"] == found["also"]
    assert found["large"].keys().isdisjoint({*found["stays"], ""})


def test_a_pod_with_a_spread_constraint_is_moved_if_the_constraint_allows_it() -> None:
    """The scheduler keeps the constraints of running pods. The two pods are on one node afterwards."""
    for skew in (1, 2):
        constraint = {
            "maxSkew": skew,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
        world, found, plans = play(grouped=False, spread=(constraint,))
        assert world.violations.kept == []
        assert [plan.pods for plan in plans] == [1] * (skew == 2)
        assert (found["stays"] == found["also"]) == (skew == 2)


def test_a_gang_with_claims_is_moved_for_one_that_needs_all_devices_of_a_node() -> None:
    """The claims of the old pods end after these; the checks find no device that two claims have."""
    world, found, plans = play(grouped=True, with_devices=True)
    assert world.violations.kept == []
    assert len(found["before/stays"] | found["before/also"]) == 2
    assert [plan.pods for plan in plans] == [2]
    assert found["stays"] == found["also"]
    assert found["large"].keys().isdisjoint({*found["stays"], ""})


def test_a_dry_run_moves_no_gang() -> None:
    world, found, plans = play(grouped=True, dry_run=True)
    assert world.violations.kept == []
    assert [plan.is_executed for plan in plans] == [False]
    assert found["large"] == {"": 1}
    assert found["stays"] == found["before/stays"]
