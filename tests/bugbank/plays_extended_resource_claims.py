"""Plays with claims that the scheduler makes for extended resources of pods. S29 checks them."""

from phalanx.model.supplies.devices.extended_resources import (
    ContainerRequest,
    ExtendedRequests,
    extended_resource_claim,
)
from phalanx_simulator.embedded.manifests import pod, pod_group
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.hosts.network import Effect

from tests.bugbank.named_devices import Driver, played
from tests.bugbank.service_harness import Stage

GPU = "gpu.example.com/card"
CLASS = Key("deviceclasses.resource.k8s.io", "", "gpu")


def begin(stage: Stage, name: str, size: int) -> None:
    """The class of the devices gets the name of an extended resource, which a gang requests."""
    stage.world.client.update(
        CLASS, lambda item: {**item, "spec": {**item["spec"], "extendedResourceName": GPU}}
    )
    requests = {"cpu": "1", GPU: "1"}
    pods = [pod(f"{name}-{number}", group=name, requests=requests) for number in range(size)]
    stage.create(pod_group(name, min_member=size), *pods)


def extended_resource_claims(driver: Driver) -> list[Object]:
    return [each for each in driver.claims() if each["metadata"]["name"] != "shared"]


def claims_end_with_their_pods() -> str | None:
    """A gang gets its devices, and its claims are gone when it is deleted."""

    async def play(stage: Stage, driver: Driver) -> None:
        begin(stage, "train", 4)
        await stage.until(lambda: stage.bound("train") == 4, "the gang runs", within_s=30)
        stage.must(len(driver.allocated()) == 4, "each pod has a device")
        for one in stage.pods("train"):
            stage.delete("pods", one["metadata"]["name"], grace_s=0)
        await stage.until(lambda: not extended_resource_claims(driver), "its claims are deleted", within_s=30)

    return played(play)


def a_leader_ends_before_the_binds() -> str | None:
    """The next leader deletes the claims that it finds, and makes new ones."""

    async def play(stage: Stage, driver: Driver) -> None:
        rule = stage.meet(Effect.LOST, "POST", "/binding")
        begin(stage, "train", 4)
        await stage.until(lambda: len(driver.allocated()) == 4, "all have devices", within_s=30)
        stage.kill_leader()
        rule.times = 0
        await stage.until(lambda: stage.bound("train") == 4, "the gang runs", within_s=120)

    return played(play)


def init_containers_use_devices_one_after_the_other() -> str | None:
    """They need two and three devices, and the container needs one of these."""
    counts = {"first": 2, "second": 3, "main": 1}
    asked = ExtendedRequests(
        tuple(
            ContainerRequest(name, index, GPU, 0, count, ends_first=name != "main")
            for index, (name, count) in enumerate(counts.items())
        )
    )
    claim = extended_resource_claim(asked, (GPU,), {GPU: "gpu"})
    together = sum(each.count for each in claim.requests)
    return None if together == 3 else f"{together} devices are requested, and three are used at most"
