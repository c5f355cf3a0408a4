"""Bugs of claims to devices that users of other schedulers reported; each is named after its issue.

A driver publishes devices, and a controller makes claims and takes devices back. No device may be allocated
twice at any time. At the end no claim may be held for a pod that is gone or waits.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from phalanx_simulator.embedded.controllers.resource_claims import CLAIMS, SLICES, ResourceClaims, serve
from phalanx_simulator.embedded.manifests import node, pod, pod_group
from phalanx_simulator.embedded.store import Change, Key, Object
from phalanx_simulator.hosts.network import Effect

from tests.bugbank.service_harness import Stage, seen

DRIVER = "gpu.example.com"
VERSION = "resource.k8s.io/v1"
REQUEST = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
OWN = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
SHARED = {"name": "shared", "resourceClaimName": "shared"}


class Driver:
    """Publishes the devices of nodes, and watches that no device is allocated twice."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        serve(stage.world.server)
        self.controller = ResourceClaims(stage.world.client)
        self.twice: list[str] = []
        stage.world.client.subscribe(CLAIMS, self._check)
        made = [
            (
                "DeviceClass",
                "gpu",
                "",
                {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
            ),
            ("ResourceClaimTemplate", "one-gpu", "default", {"spec": REQUEST}),
            ("ResourceClaim", "shared", "default", REQUEST),
        ]
        for kind, name, namespace, spec in made:
            meta = {"name": name, **({"namespace": namespace} if namespace else {})}
            stage.create({"apiVersion": VERSION, "kind": kind, "metadata": meta, "spec": spec})

    def publish(self, on: str, count: int, *, generation: int = 1, **fields: Any) -> None:
        """All devices of a node, in the place of what it published before."""
        pool = {"name": on, "generation": generation, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{index}", **fields} for index in range(count)]
        spec = {"driver": DRIVER, "nodeName": on, "pool": pool, "devices": devices}
        key = Key(SLICES, "", on)
        if self.stage.world.client.get(key) is None:
            meta = {"name": on}
            self.stage.create(
                {"apiVersion": VERSION, "kind": "ResourceSlice", "metadata": meta, "spec": spec}
            )
        else:
            self.stage.world.client.update(key, lambda item: {**item, "spec": spec})

    def claims(self) -> list[Object]:
        client = self.stage.world.client
        return [found for key in client.keys(CLAIMS) if (found := client.get(key)) is not None]

    def allocated(self) -> Counter[tuple[str, str]]:
        """How often each device is allocated: pool and name."""
        return Counter(
            (each["pool"], each["device"])
            for claim in self.claims()
            for each in (claim.get("status", {}).get("allocation") or {})
            .get("devices", {})
            .get("results", ())
        )

    def _check(self, _change: Change) -> None:
        self.twice += [f"{pool}/{device}" for (pool, device), count in self.allocated().items() if count > 1]

    async def end(self) -> None:
        """All is given back: wait until no claim is held for a pod that has no node. Raises Unmet."""
        await self.stage.until(self._is_settled, "no claim is held for a pod without a node", within_s=30)
        self.stage.must(not self.twice, f"no device is allocated twice: {self.twice[:3]}")

    def _is_settled(self) -> bool:
        bound = {one["metadata"]["uid"] for one in self.stage.pods() if one["spec"].get("nodeName")}
        return all(
            user["uid"] in bound
            for claim in self.claims()
            for user in claim.get("status", {}).get("reservedFor") or ()
        )


def gang(name: str, size: int, *claims: Object) -> list[Object]:
    """A gang whose pods have these claims."""
    pods = [
        pod(f"{name}-{number}", group=name, requests={"cpu": "1"}, resourceClaims=list(claims))
        for number in range(size)
    ]
    return [pod_group(name, min_member=size), *pods]


def played(play: Callable[[Stage, Driver], Coroutine[Any, Any, None]]) -> str | None:
    """The first finding of a play on two nodes with four devices each."""

    async def run(stage: Stage) -> None:
        driver = Driver(stage)
        for name in ("n1", "n2"):
            driver.publish(name, 4)
        await stage.open(node("n1"), node("n2"))
        await play(stage, driver)
        await driver.end()

    return seen(run)


def kubernetes_133602() -> str | None:
    """Gangs come and go fast, and one device is allocated to two claims."""

    async def play(stage: Stage, driver: Driver) -> None:
        for number in range(12):
            stage.create(*gang(f"g{number:02}", 4, OWN))
            if number >= 2:
                await _run_and_delete(stage, f"g{number - 2:02}-")
        for number in (10, 11):
            await _run_and_delete(stage, f"g{number:02}-")

    return played(play)


async def _run_and_delete(stage: Stage, prefix: str) -> None:
    await stage.until(lambda: stage.bound(prefix) == 4, f"{prefix}* run", within_s=30)
    for one in stage.pods(prefix):
        stage.delete("pods", one["metadata"]["name"], grace_s=0)


def kubernetes_140269() -> str | None:
    """Pods of a group that share a claim wait for ever, since an old state of the claim is restored."""

    async def play(stage: Stage, driver: Driver) -> None:
        stage.meet(Effect.APPLIED_BUT_REFUSED, "PATCH", "resourceclaims/shared", times=2)
        stage.meet(Effect.REFUSED, "POST", "first-1/binding", times=3)
        stage.create(*gang("first", 4, SHARED))
        await stage.until(lambda: stage.bound("first") == 4, "all members share the claim", within_s=60)
        stage.create(*gang("second", 2, SHARED))
        await stage.until(lambda: stage.bound("second") == 2, "a second gang joins", within_s=30)
        stage.must(len(stage.nodes_of("")) == 1, "all run where the device is")
        for one in stage.pods():
            stage.delete("pods", one["metadata"]["name"], grace_s=0)
        await stage.until(lambda: not driver.allocated(), "the device is given back", within_s=30)

    return played(play)


def kubernetes_118613() -> str | None:
    """Claims stay allocated for pods that never run: a leader ends between its writes."""

    async def play(stage: Stage, driver: Driver) -> None:
        rule = stage.meet(Effect.LOST, "POST", "/binding")
        stage.create(*gang("train", 8, OWN))
        await stage.until(lambda: len(driver.allocated()) == 8, "all claims are allocated", within_s=30)
        stage.kill_leader()
        rule.times = 0
        stage.delete("pods", "train-0", grace_s=0)
        stage.create(*gang("other", 8, OWN))
        await stage.until(lambda: stage.bound("other") == 8, "its devices are free again", within_s=120)

    return played(play)


def devices_that_vanish() -> str | None:
    """A driver taints devices and publishes fewer of them while gangs start; nothing of it is ever used."""

    async def play(stage: Stage, driver: Driver) -> None:
        driver.publish("n1", 4, generation=2, taints=[{"key": "broken", "effect": "NoSchedule"}])
        stage.create(*gang("train", 5, OWN))
        await asyncio.sleep(5)
        stage.must(stage.bound("train") == 0, "four devices are too few for five")
        driver.publish("n2", 3, generation=2)
        driver.publish("n1", 2, generation=3)
        await stage.until(lambda: stage.bound("train") == 5, "three and two are enough", within_s=30)
        stage.must(
            set(driver.allocated())
            == {("n1", f"gpu-{n}") for n in range(2)} | {("n2", f"gpu-{n}") for n in range(3)},
            "only published devices are allocated",
        )

    return played(play)


DEVICE_PLAYS = (kubernetes_133602, kubernetes_140269, kubernetes_118613, devices_that_vanish)
"""All of them; each returns what is wrong, or None."""
