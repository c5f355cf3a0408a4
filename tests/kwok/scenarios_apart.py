"""Faults that need nodes with heartbeats, or a proxy between the scheduler and the API server."""

import asyncio
from collections import Counter

from tests.e2e.findings import allocatable, ever_overcommitted
from tests.e2e.workloads import nodes_of, pod_group
from tests.kwok.manifests import pod, recovery
from tests.kwok.proxy import Delivery, Proxy, Request
from tests.kwok.site import Site


async def members_on_a_node_without_heartbeats_are_replaced_in_their_rack(site: Site, _: Proxy) -> None:
    """Ready becomes Unknown. No stage does that, but KWOK stops when another client holds the node's Lease.

    Usually no kubelet is left that could end the old pod, so it stays terminating and is no member. On a busy
    machine KWOK may still end it: its view of the Lease lags behind.
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


async def lost_or_late_responses_bind_no_pod_twice(site: Site, proxy: Proxy) -> None:
    """Kubernetes #106361: each pod's first bind is applied, and its response is lost or too late."""
    binds: Counter[str] = Counter()

    async def inject(request: Request) -> Delivery | None:
        if not request.path.endswith("/binding") or f"/namespaces/{site.name}/" not in request.path:
            return None
        binds[request.path] += 1
        if binds[request.path] > 1:
            return None
        return Delivery.LOST if len(binds) % 2 else Delivery.HELD

    proxy.rules.append(inject)
    await site.add_nodes("r1", "r1")
    for name in ("a", "b"):
        await site.add_gang(name, size=8, gpus=1, by="")
    await site.until(lambda: all(len(site.placed(name)) == 8 for name in "ab"), "both gangs to be placed")
    await site.add_gang("c", size=1, gpus=1, by="")
    await site.waits("c", "InsufficientCapacity")
    assert len(binds) == 16
    capacity = allocatable(await nodes_of(site.environment.plane))
    assert ever_overcommitted(capacity, [*site.events("a"), *site.events("b")]) == []
    for name in "ab":
        await site.group_until(name, lambda found: found["status"]["phase"] == "Running")


async def a_cordon_between_decision_and_bind_stops_the_complete_gang(site: Site, proxy: Proxy) -> None:
    """The decision is written to its PodGroup first; that write waits until the cordon has been observed."""
    first, _second = await site.add_nodes("r1", "r1")
    cordon: list[asyncio.Task[int]] = []

    async def cordon_first() -> int:
        version = await site.set_node(first, spec={"unschedulable": True})
        await site.environment.nodes_are_known()
        return version

    async def hold(request: Request) -> Delivery | None:
        if f"/namespaces/{site.name}/podgroups/" in request.path and b"placementEpoch" in request.body:
            if not cordon:
                cordon.append(asyncio.create_task(cordon_first()))
            await asyncio.shield(cordon[0])
        return None

    proxy.rules.append(hold)
    await site.add_gang("gang", size=2)
    await site.waits("gang", "NodesUnavailable")
    assert cordon, "no decision was made before the cordon"
    await site.add_nodes("r1")
    await site.until(lambda: len(site.placed("gang")) == 2, "the gang to be placed elsewhere")
    assert first not in site.placed("gang")
    assert site.first_bind("gang") > await cordon[0]
    assert len({seen.pod.metadata.uid for seen in site.events("gang")}) == 2, "members were recreated"


async def raising_min_member_while_binds_are_sent_leaves_no_partial_gang(site: Site, proxy: Proxy) -> None:
    """Volcano #6010: after a few of 24 binds minMember becomes 32, for which the capacity is insufficient.

    The other binds wait until the scheduler has seen the change: PodGroup events arrive in commit order.
    """
    sent: list[str] = []
    known = asyncio.Event()

    async def hold(request: Request) -> Delivery | None:
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
    await site.until(lambda: len(site.placed("later")) == 1, "a later PodGroup to be placed")
    assert len(site.placed("gang")) == 5
    known.set()
    await site.until(lambda: len(site.placed("gang")) in (0, 24), "the complete planned gang, or no member")
    await site.add_nodes("r1")
    await site.until(lambda: len(site.placed("gang")) == 32, "the complete gang")
    assert len({seen.pod.metadata.uid for seen in site.events("gang")}) == 32, "members were recreated"


SCENARIOS = (
    raising_min_member_while_binds_are_sent_leaves_no_partial_gang,
    members_on_a_node_without_heartbeats_are_replaced_in_their_rack,
    lost_or_late_responses_bind_no_pod_twice,
    a_cordon_between_decision_and_bind_stops_the_complete_gang,
)
