"""Plays with volumes: local ones that gangs compete for, and a provisioner that is slow or gives up.

The volume controller of the simulated cluster binds claims. S26 checks every bind.
"""

import asyncio
from collections.abc import Callable

from phalanx.cache.events import Applied
from phalanx_simulator.embedded.controllers.provisioner import Provisioner
from phalanx_simulator.embedded.controllers.volumes import CLAIMS, VOLUMES
from phalanx_simulator.embedded.manifests import node, pod, pod_group
from phalanx_simulator.embedded.provisioned_volumes import on_host
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.faults.edits import delete
from phalanx_simulator.runs.world import World

from tests.assumed import assumed
from tests.bugbank.worlds import GPU, node_of, opened, watched
from tests.plugins import test_static_volumes as decided
from tests.plugins.test_gang_volumes import ON_A, spaces

NO_PROVISIONER = "kubernetes.io/no-provisioner"
DRIVER = "disk.example.com"
HOST = "kubernetes.io/hostname"

Play = Callable[[], str | None]


def storage_class(provisioner: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "late"},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume(name: str, host: str, size: str = "10Gi") -> Object:
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
            "nodeAffinity": on_host(host),
        },
    }


def claim(name: str, size: str = "10Gi") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "resources": {"requests": {"storage": size}},
        },
    }


def members(name: str, size: int, *, gpus: int = 1, storage: str = "10Gi") -> list[Object]:
    """A gang whose members each mount a claim of their own."""
    found: list[Object] = [pod_group(name, min_member=size)]
    for index in range(size):
        made = pod(f"{name}-{index}", group=name, requests={GPU: str(gpus)})
        mounts = [{"name": "data", "persistentVolumeClaim": {"claimName": f"{name}-{index}"}}]
        spec = {**made["spec"], "volumes": mounts}
        found += [claim(f"{name}-{index}", storage), {**made, "spec": spec}]
    return found


def hosts(*names: str, gpus: int = 8) -> list[Object]:
    return [node(name, gpus=gpus, labels={HOST: name}) for name in names]


def running(world: World, name: str, size: int) -> int:
    return sum(bool(node_of(world, f"{name}-{index}")) for index in range(size))


def bound_claims(world: World) -> list[str]:
    found = [world.client.get(key) for key in world.client.keys(CLAIMS)]
    return [each["metadata"]["name"] for each in found if each and each["spec"].get("volumeName")]


def reserved(world: World) -> list[str]:
    """The volumes that name a claim."""
    found = [world.client.get(key) for key in world.client.keys(VOLUMES)]
    return [each["metadata"]["name"] for each in found if each and each["spec"].get("claimRef")]


async def until(so: Callable[[], bool], within_s: float = 120.0) -> bool:
    for _ in range(round(within_s * 10)):
        if so():
            return True
        await asyncio.sleep(0.1)
    return False


def a_gang_takes_local_volumes() -> str | None:
    """Two volumes for three members: nothing is bound or reserved. With the third, all run."""

    async def act(world: World) -> str | None:
        await opened(
            world, *hosts("a", "b"), storage_class(NO_PROVISIONER), volume("a1", "a"), volume("b1", "b")
        )
        world.create(members("g", 3))
        await asyncio.sleep(30)
        if reserved(world) or running(world, "g", 3):
            return f"reserved {reserved(world)} for a gang that does not fit"
        world.create([volume("a2", "a", "20Gi")])
        if not await until(lambda: running(world, "g", 3) == 3):
            return "the gang does not run"
        return None if len(set(bound_claims(world))) == 3 else "not all claims are bound"

    return watched(act)


def gangs_compete_for_local_volumes() -> str | None:
    """Two gangs of two and three volumes: one gang runs, and the other one holds nothing."""

    async def act(world: World) -> str | None:
        volumes = [volume("a1", "a"), volume("a2", "a"), volume("a3", "a", "30Gi")]
        await opened(world, *hosts("a"), storage_class(NO_PROVISIONER), *volumes)
        world.create([*members("x", 2), *members("y", 2, storage="5Gi")])
        if not await until(lambda: running(world, "x", 2) + running(world, "y", 2) == 2):
            return "no gang runs"
        await asyncio.sleep(30)
        if len(reserved(world)) != 2:
            return f"{reserved(world)} are reserved"
        return None if running(world, "x", 2) + running(world, "y", 2) == 2 else "half a gang runs"

    return watched(act)


def the_smallest_volume_is_taken() -> str | None:
    """A small claim leaves the large volume to a large claim that comes later."""

    async def act(world: World) -> str | None:
        volumes = [volume("big", "a", "50Gi"), volume("small", "a", "12Gi")]
        await opened(world, *hosts("a"), storage_class(NO_PROVISIONER), *volumes)
        world.create(members("x", 1))
        if not await until(lambda: running(world, "x", 1) == 1):
            return "the first pod does not run"
        world.create(members("y", 1, storage="40Gi"))
        return None if await until(lambda: running(world, "y", 1) == 1) else "the large claim has no volume"

    return watched(act)


def leaders_die_while_volumes_are_bound() -> str | None:
    """The next leader goes on: in the end the gang runs, and only its volumes are taken."""

    async def act(world: World) -> str | None:
        volumes = [volume(f"{host}{number}", host) for host in "ab" for number in range(2)]
        await opened(world, *hosts("a", "b"), storage_class(NO_PROVISIONER), *volumes)
        world.create(members("g", 3))
        for wait_s in (0.2, 0.7, 1.2):
            await asyncio.sleep(wait_s)
            leader = world.leader()
            if leader is not None:
                leader.kill()
        if not await until(lambda: running(world, "g", 3) == 3, within_s=240):
            return "the gang does not run"
        return None if len(reserved(world)) == 3 else f"{reserved(world)} are reserved"

    return watched(act, kills=True)


def a_gang_that_ends_gives_its_volumes_back() -> str | None:
    """All pods are deleted before the volume controller has bound a claim: the volumes are free again."""

    async def act(world: World) -> str | None:
        await opened(world, *hosts("a"), storage_class(NO_PROVISIONER), volume("a1", "a"), volume("a2", "a"))
        world.create(members("g", 2))
        if not await until(lambda: len(reserved(world)) == 2):
            return "no volume is reserved"
        for index in range(2):
            delete(world.client, Key("pods", "default", f"g-{index}"))
        await asyncio.sleep(30)
        return f"{reserved(world)} remain reserved" if reserved(world) else None

    return watched(act)


def a_provisioner_is_slow_and_gives_up() -> str | None:
    """It gives up on one node: the whole gang goes elsewhere, and no pod is bound before its claim."""

    async def act(world: World) -> str | None:
        await opened(world, *hosts("a", "b"), storage_class(DRIVER))
        made = Provisioner(
            world.client, driver=DRIVER, delay_s=5.0, gives_up=lambda name: name == "a" and made.failures < 3
        )
        world.controllers.callback(made.close)
        world.create(members("g", 2, gpus=4))
        return (
            None
            if await until(lambda: running(world, "g", 2) == 2, within_s=600)
            else "the gang does not run"
        )

    return watched(act)


# --- decisions ----------------------------------------------------------------------------------------------


def a_decided_volume_is_taken() -> str | None:
    """The only volume was decided for a pod whose bind is under way: another pod does not get it."""
    made = decided.World(decided.claim("x"), decided.user("x", "x"), decided.volume("v"))
    made.cache.apply(assumed("x", "n", volumes=(("team/x", "v"),)))
    made.cache.apply_all(map(Applied, (decided.claim("y"), decided.user("y", "y"))))
    return "the volume is decided twice" if made.chosen() else None


def claims_share_the_space() -> str | None:
    """Each of two claims has enough space, and both together have not."""
    objects = (*spaces((ON_A, "15Gi")), decided.claim("x"), decided.claim("y"), decided.user("p", "x", "y"))
    return "the space is promised twice" if decided.World(*objects, nodes="a").chosen() else None


def space_is_promised_once() -> str | None:
    """The volume of an assumed pod will take most of the space, and the driver has not published that yet."""
    pods = [decided.user(name, name) for name in "xy"]
    made = decided.World(*spaces((ON_A, "15Gi")), decided.claim("x"), decided.claim("y"), *pods, nodes="a")
    made.cache.apply(assumed("x", "a"))
    return "the space is promised again" if made.chosen() else None


def a_small_volume_names_the_claim() -> str | None:
    """Its `claimRef` names a claim that is larger: the claim takes another volume."""
    reference = {"namespace": "team", "name": "c", "uid": "uid-c"}
    small = decided.volume("small", size="1Gi", claimRef=reference)
    made = decided.World(small, decided.volume("v"), decided.claim("c"), decided.user("p", "c"))
    return (
        None
        if made.chosen() == {"p": ("n", {"c": "v"})}
        else "the claim does not get the volume that suffices"
    )
