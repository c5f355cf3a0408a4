"""Faults that need nodes with heartbeats, or a proxy between the scheduler and the API server."""

import asyncio
from collections import Counter

from tests.e2e.findings import allocatable, ever_overcommitted
from tests.e2e.workloads import nodes_of, pod_group
from tests.kwok.manifests import pod, recovery
from tests.kwok.proxy import Fate, Proxy, Request
from tests.kwok.site import Site


async def members_on_a_node_that_fell_silent_are_replaced_in_their_rack(site: Site, _: Proxy) -> None:
    """Ready becomes Unknown: no stage does that, but KWOK stops at once when another holds the node's Lease.

    As a rule nobody is left there who could end the old pod, so it hangs in deletion and is no member. On
    a busy machine KWOK may still end it: its view of the Lease lags.
    """
    await site.add_nodes("r1", "r2", "r2", "r2")
    spec = {"topology": {"name": "racks", "required": "rack"}, "recovery": recovery(node_loss="Replace")}
    await site.add_gang("gang", size=2, spec=spec)
    await site.until(lambda: len(site.placed("gang")) == 2, "the gang to be placed")
    lost, stays = site.pods("gang")
    await site.silence_node(lost.spec.node_name)
    await site.until(lambda: lost.metadata.uid not in site.uids("gang"), "the lost member to be given up")
    await site.until(lambda: len(site.placed("gang")) == 2, "a new member beside the other")
    assert stays.metadata.uid in site.uids("gang")
    assert lost.spec.node_name not in site.placed("gang")
    assert f"{site.name}-0" not in site.placed("gang"), "a member left the rack of its gang"
    assert site.evicted("gang") == {"MemberReplaced"}


async def answers_that_are_lost_or_late_bind_no_pod_twice(site: Site, proxy: Proxy) -> None:
    """Kubernetes #106361: each pod's first bind is applied, and its answer is lost or comes too late."""
    binds: Counter[str] = Counter()

    async def meddle(request: Request) -> Fate | None:
        if not request.path.endswith("/binding") or f"/namespaces/{site.name}/" not in request.path:
            return None
        binds[request.path] += 1
        if binds[request.path] > 1:
            return None
        return Fate.LOST if len(binds) % 2 else Fate.HELD

    proxy.rules.append(meddle)
    await site.add_nodes("r1", "r1")
    for name in ("a", "b"):
        await site.add_gang(name, size=8, gpus=1, by="")
    await site.until(lambda: all(len(site.placed(name)) == 8 for name in "ab"), "both gangs to be placed")
    await site.add_gang("c", size=1, gpus=1, by="")
    await site.waits("c", "InsufficientCapacity")
    assert len(binds) == 16
    room = allocatable(await nodes_of(site.ground.plane))
    assert ever_overcommitted(room, [*site.events("a"), *site.events("b")]) == []
    for name in "ab":
        await site.group_until(name, lambda found: found["status"]["phase"] == "Running")


async def a_cordon_between_plan_and_bind_stops_the_whole_gang(site: Site, proxy: Proxy) -> None:
    """A plan is first written to its PodGroup: that is held up until the scheduler knows of the cordon."""
    first, _second = await site.add_nodes("r1", "r1")
    cordon: list[asyncio.Task[int]] = []

    async def cordon_first() -> int:
        version = await site.set_node(first, spec={"unschedulable": True})
        await site.ground.nodes_are_known()
        return version

    async def hold(request: Request) -> Fate | None:
        if f"/namespaces/{site.name}/podgroups/" in request.path and b"placementEpoch" in request.body:
            if not cordon:
                cordon.append(asyncio.create_task(cordon_first()))
            await asyncio.shield(cordon[0])
        return None

    proxy.rules.append(hold)
    await site.add_gang("gang", size=2)
    await site.waits("gang", "NodesUnavailable")
    assert cordon, "no plan was made before the cordon"
    await site.add_nodes("r1")
    await site.until(lambda: len(site.placed("gang")) == 2, "the gang to be placed elsewhere")
    assert first not in site.placed("gang")
    assert site.first_bind("gang") > await cordon[0]
    assert len({seen.pod.metadata.uid for seen in site.events("gang")}) == 2, "members were made anew"


async def a_minimum_that_grows_while_binds_are_sent_leaves_no_gang_in_part(site: Site, proxy: Proxy) -> None:
    """Volcano #6010: after a few of 24 binds the minimum goes to 32, for which there is no room.

    The other binds are held up until the scheduler knows: PodGroups come in the order of commits.
    """
    sent: list[str] = []
    known = asyncio.Event()

    async def hold(request: Request) -> Fate | None:
        if request.path.startswith(site.pod_path("gang-")) and request.path.endswith("/binding"):
            sent.append(request.path)
            if len(sent) > 5:
                await known.wait()
        return None

    proxy.rules.append(hold)
    await site.add_nodes("r1", "r1", "r1")
    await site.create(pod_group("gang", space=site.name, size=24))
    await site.create(*(pod(site.name, f"gang-{i}", gang="gang", gpus=1) for i in range(32)))
    await site.until(lambda: len(site.placed("gang")) == 5, "the first binds")
    await site.change_group("gang", minMember=32)
    await site.add_gang("later", size=1, gpus=0)
    await site.until(lambda: len(site.placed("later")) == 1, "a PodGroup of after the change to be placed")
    assert len(site.placed("gang")) == 5
    known.set()
    await site.until(lambda: len(site.placed("gang")) in (0, 24), "the gang as it was planned, or nothing")
    await site.add_nodes("r1")
    await site.until(lambda: len(site.placed("gang")) == 32, "the whole gang")
    assert len({seen.pod.metadata.uid for seen in site.events("gang")}) == 32, "members were made anew"


SCENARIOS = (
    a_minimum_that_grows_while_binds_are_sent_leaves_no_gang_in_part,
    members_on_a_node_that_fell_silent_are_replaced_in_their_rack,
    answers_that_are_lost_or_late_bind_no_pod_twice,
    a_cordon_between_plan_and_bind_stops_the_whole_gang,
)
