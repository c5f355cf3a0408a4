"""What happens to a workload, and what must be true then. Each event is one function for every workload."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.e2e.pod_history import Pod
from tests.kwok.manifests import RACK
from tests.kwok.site import GENEROUS_S, LOOK_S
from tests.workloads.trial import Trial

COPIES = 5
"""Of each tenant."""
TEN_S = 3 * GENEROUS_S
"""Only ends a test that would never end: those of Spark run two programs in Java for each copy."""

Event = Callable[[Trial], Awaitable[None]]


async def runs_to_its_end(trial: Trial) -> None:
    """Phalanx places all pods, the workload ends (or serves, if it has no end), and leaves nothing."""
    await trial.submit()
    pods = await trial.all_run()
    assert {pod.spec.scheduler_name for pod in pods} == {"phalanx"}
    if trial.workload.ends is not None:
        await trial.finish()
    await trial.done()
    await trial.delete()
    await trial.nothing_left()


async def is_deleted_while_it_runs(trial: Trial) -> None:
    """It leaves nothing."""
    await trial.submit()
    await trial.all_run()
    await trial.delete()
    await trial.nothing_left()


async def is_suspended_and_resumed(trial: Trial) -> None:
    """Its pods go, and come again."""
    if not trial.workload.suspend:
        pytest.skip(f"{trial.workload.name} cannot be suspended")
    await trial.submit()
    before = {pod.metadata.uid for pod in await trial.all_run()}
    await trial.change(trial.workload.suspend, True)
    await trial.site.until(lambda: not trial.site.pods(), "the pods to go")
    await trial.change(trial.workload.suspend, False)
    after = {pod.metadata.uid for pod in await trial.all_run()}
    assert not before & after
    await trial.delete()
    await trial.nothing_left()


async def waits_whole_on_a_full_cluster(trial: Trial) -> None:
    """One node is free, which is not enough: no pod is placed. When the others are free, all are."""
    waiting = trial.workload.waiting
    if not waiting:
        pytest.skip(f"{trial.workload.name} is no gang")
    async with trial.others_on(trial.nodes[1:]):
        await trial.submit()
        await trial.site.until(lambda: len(refused(trial)) == waiting, f"{waiting} pods to be refused")
        assert trial.site.placed("") == []
    await trial.all_run()
    await trial.delete()
    await trial.nothing_left()


async def loses_a_pod(trial: Trial) -> None:
    """One pod is evicted: the workload has all its pods again, by its own controller."""
    if trial.workload.replaced is None:
        pytest.skip(f"{trial.workload.name} ends with a lost pod")
    await trial.submit()
    lost = trial.replaceable(await trial.all_run())
    await trial.site.evict(lost.metadata.name)
    await trial.runs_without({lost.metadata.uid})
    await trial.delete()
    await trial.nothing_left()


async def loses_a_node(trial: Trial) -> None:
    """A node fails, and its pods are evicted as Kubernetes does after five minutes: they run elsewhere."""
    if trial.workload.replaced is None:
        pytest.skip(f"{trial.workload.name} ends with a lost pod")
    await trial.submit()
    node = trial.replaceable(await trial.all_run()).spec.node_name
    await trial.site.fail_node(node)
    lost = [pod for pod in trial.site.pods() if pod.spec.node_name == node]
    for pod in lost:
        await trial.environment.delete(f"{trial.site.pod_path(pod.metadata.name)}?gracePeriodSeconds=0")
    pods = await trial.runs_without({pod.metadata.uid for pod in lost})
    assert node not in {pod.spec.node_name for pod in pods}
    await trial.delete()
    await trial.nothing_left()


async def is_scaled(trial: Trial) -> None:
    """It has the other number of pods, and all of them run."""
    if trial.workload.scaled is None:
        pytest.skip(f"{trial.workload.name} keeps its number of pods")
    field, value, pods = trial.workload.scaled
    await trial.submit()
    await trial.all_run()
    await trial.change(field, value)
    await trial.all_run(pods)
    await trial.delete()
    await trial.nothing_left()


async def has_each_group_in_a_rack_of_its_own(trial: Trial) -> None:
    """With exclusive topology, the pods of a group are in one rack, and no other group is there."""
    apart = trial.workload.apart
    if apart is None:
        pytest.skip(f"{trial.workload.name} has no exclusive topology")
    trial = trial.changed(apart.ask)
    await trial.submit()
    groups: dict[str, set[str]] = {}
    for pod in await trial.all_run(apart.pods):
        node = await trial.site.node(pod.spec.node_name)
        groups.setdefault(pod.metadata.labels[apart.group], set()).add(node["metadata"]["labels"][RACK])
    assert sorted(map(sorted, groups.values())) == [["r0"], ["r1"]]
    await trial.delete()
    await trial.nothing_left()


async def starts_with_fewer_pods_and_grows(trial: Trial) -> None:
    """With capacity for the fewest pods these run, and the others wait. When all nodes are free, all run."""
    elastic = trial.workload.elastic
    if elastic is None:
        pytest.skip(f"{trial.workload.name} needs all of its pods")
    trial = trial.changed(elastic.allow)
    async with trial.others_on(trial.nodes[elastic.nodes :]):
        await trial.submit()
        await trial.site.until(lambda: len(trial.running()) == elastic.pods, f"{elastic.pods} pods to run")
        others = trial.workload.pods - elastic.pods
        await trial.site.until(lambda: len(refused(trial)) == others, f"{others} pods to be refused")
        assert len(trial.running()) == elastic.pods
    await trial.all_run()
    await trial.delete()
    await trial.nothing_left()


async def is_made_smaller_and_ends(trial: Trial) -> None:
    """With capacity for the fewest pods these run, and there are no others: not when all nodes are free, and
    all the work is done."""
    smaller = trial.workload.smaller
    if smaller is None:
        pytest.skip(f"{trial.workload.name} keeps its number of pods")
    trial = trial.changed(smaller.allow)
    async with trial.others_on(trial.nodes[smaller.nodes :]):
        await trial.submit()
        await trial.site.until(lambda: len(trial.running()) == smaller.pods, f"{smaller.pods} pods to run")
        await trial.all_run(smaller.pods)
    assert len(trial.site.pods()) == smaller.pods
    async with asyncio.timeout(GENEROUS_S):
        while not await trial.is_done():
            assert len(trial.site.pods()) <= smaller.pods
            await trial.finish()
            await asyncio.sleep(LOOK_S)
    await trial.delete()
    await trial.nothing_left()


async def ten_of_two_tenants_run_to_their_ends(trial: Trial) -> None:
    """Five in each of two namespaces, for which the nodes are too few at once: all end, and leave nothing."""
    if trial.workload.ends is None:
        pytest.skip(f"{trial.workload.name} has no end")
    async with trial.other_tenant() as other:
        copies = [each.copy(index) for each in (trial, other) for index in range(COPIES)]
        for copy in copies:
            await copy.submit()
        left = copies
        try:
            async with asyncio.timeout(TEN_S):
                while left := [copy for copy in left if not await copy.is_done()]:
                    for each in {copy.ending: copy for copy in left}.values():
                        await each.finish()
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise AssertionError(f"these do not end: {[str(copy) for copy in left]}") from None
        for copy in copies:
            await copy.delete()
        await trial.nothing_left()
        await other.nothing_left()


def refused(trial: Trial) -> list[Pod]:
    """The pods with a condition that says why they wait."""
    return [
        pod
        for pod in trial.site.pods()
        if any(each.type == "PodScheduled" and each.status == "False" for each in pod.status.conditions)
    ]


EVENTS: tuple[Event, ...] = (
    runs_to_its_end,
    waits_whole_on_a_full_cluster,
    is_deleted_while_it_runs,
    is_suspended_and_resumed,
    loses_a_pod,
    loses_a_node,
    is_scaled,
    has_each_group_in_a_rack_of_its_own,
    starts_with_fewer_pods_and_grows,
    is_made_smaller_and_ends,
    ten_of_two_tenants_run_to_their_ends,
)
