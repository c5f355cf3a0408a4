"""Plays with absurd objects, and with objects that imitate others."""

import json
from typing import Any

from phalanx.cache.events import Relisted
from phalanx.kube.decode import KindDecoder
from phalanx.model.api.kinds import KINDS
from phalanx_simulator.embedded.manifests import gang, job, namespace, node, pod, pod_group
from phalanx_simulator.embedded.store import Key
from phalanx_simulator.runs.world import World

from tests.bugbank.worlds import FULL, GPU, CycleRunner, assignments, at_rest, opened, watched
from tests.model import written

IN_GROUP = written.label("pod-group")


def a_negative_request_adds_no_capacity() -> str | None:
    """A foreign pod whose overhead is -8 GPUs runs on a node of eight: the node does not have sixteen."""
    return _beside({}, [8, 8], at_most=1, overhead={GPU: "-8"})


def an_invalid_amount_is_not_zero() -> str | None:
    """A foreign pod that requests 1e400 GPUs: its node counts as full."""
    return _beside({GPU: "1e400"}, [1], at_most=0)


def _beside(theirs: dict[str, str], ours: list[int], *, at_most: int, **spec: Any) -> str | None:
    foreign = written.pod("x", requests=theirs, schedulerName="default-scheduler", nodeName="n", **spec)
    pods = [written.pod(f"p{n}", requests={GPU: gpus}) for n, gpus in enumerate(ours)]
    placed = assignments(CycleRunner(written.node("n"), foreign, *pods).cycle())
    return (
        f"{len(placed)} pods are placed beside one with {theirs or spec}" if len(placed) > at_most else None
    )


def a_huge_request_does_not_wrap() -> str | None:
    """2^32 + 1 and 2^64 + 1 GPUs are more than eight, and twice 2^63 is more than zero."""
    for amount in (2**32 + 1, 2**64 + 1):
        pod = written.pod("p", requests={GPU: str(amount)})
        if assignments(CycleRunner(written.node("n"), pod).cycle()):
            return f"a pod that asks for {amount} GPUs is placed"
    return None


def a_pod_group_with_min_member_0_is_refused() -> str | None:
    """minMember 0 and below: the pods wait, and their verdict names the error."""
    for least in (0, -1):
        members = [written.pod(f"p{n}", labels={IN_GROUP: "g"}, requests={GPU: 1}) for n in range(2)]
        runner = CycleRunner(written.node("n"), written.pod_group("g", minMember=least), *members)
        result = runner.cycle()
        if assignments(result) or runner.reason(result, "uid-g") != "InconsistentGang":
            return f"a group with minMember {least} is taken as it is"
    return None


def one_bad_object_in_a_list() -> str | None:
    """Two pods are readable, one is not: the cache has the two, and the third is reported."""
    good = [{"metadata": {"name": name, "namespace": "team", "uid": name}} for name in "ab"]
    bad = {"metadata": {"name": "bad", "namespace": "team"}, "spec": {"containers": 7}}
    body = json.dumps({"metadata": {"resourceVersion": "5"}, "items": [good[0], bad, good[1]]}).encode()
    page = KindDecoder(KINDS["Pod"]).page(body)
    names = [each.metadata.name for each in page.objects]
    unreadable = [each.name for each in page.unreadable]
    return None if (names, unreadable) == (["a", "b"], ["bad"]) else f"read: {names}, named: {unreadable}"


def a_pod_that_becomes_unreadable() -> str | None:
    """It still runs: a new list in which it is unreadable does not free its capacity."""
    running = written.pod("old", requests={GPU: 8}, nodeName="n")
    runner = CycleRunner(written.node("n"), running)
    runner.cache.apply(Relisted("Pod", (), unreadable=(("team", "old"),)))
    runner.put(written.pod("new", requests={GPU: 1}))
    return "the capacity of a pod that cannot be read is given away" if assignments(runner.cycle()) else None


def many_shapes_stay_distinct() -> str | None:
    """Four hundred pods, each with a different amount: each keeps it."""
    pods = [written.pod(f"p{n}", requests={"cpu": f"{n}m"}) for n in range(1, 401)]
    runner = CycleRunner(*pods)
    asked = [runner.cache.pod(pod.metadata.uid) for pod in pods]  # type: ignore[arg-type]
    wrong = [each for n, each in enumerate(asked, 1) if each is None or each.shape.requests["cpu"] != n]
    return f"{len(wrong)} pods have requests of others" if wrong else None


def a_foreign_pod_names_a_pod_group() -> str | None:
    """A Job's PodGroup: a pod of another owner names it too, to run as part of that gang."""

    async def act(world: World) -> str | None:
        await opened(world, *(node(f"n{n}") for n in range(3)))
        world.create([job("g", members=2, group="g", requests=FULL)])
        owner = world.client.get(Key("jobs.batch", "default", "g")) or {}
        group = pod_group("g", min_member=2)
        uid = owner["metadata"]["uid"]
        group["metadata"]["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "g", "uid": uid, "controller": True}
        ]
        world.create([group, pod("stranger", group="g", requests=FULL)])
        await at_rest(world, 20.0)
        return None

    return watched(act)


def a_group_of_another_namespace() -> str | None:
    """A pod in one namespace names a PodGroup that only exists in another."""

    async def act(world: World) -> str | None:
        await opened(world, node("n0"), namespace("other"))
        world.create([pod_group("g", min_member=2), *gang("g", {"w": 1})])
        world.create([pod("stranger", namespace="other", group="g", role="w")])
        await at_rest(world, 20.0)
        return None

    return watched(act)
