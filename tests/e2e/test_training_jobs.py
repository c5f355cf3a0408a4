"""Act 1 of the demo: training jobs whose pods are created interleaved, on too few slots for all."""

import asyncio
from collections.abc import Callable, Iterable
from itertools import chain

import pytest
from phalanx_controlplane.controlplane import ControlPlane

from tests.e2e.conftest import Cluster
from tests.e2e.findings import allocatable, ever_overcommitted, partial, spans
from tests.e2e.pod_history import PodHistory, watching
from tests.e2e.scheduler_process import scheduler
from tests.e2e.workloads import create, create_cluster, create_in_order, nodes_of, succeed, training_job
from tests.fake_objects import namespace

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("e2e")]

SIZE, SLOTS = 6, 9
REPEATS = 5


async def submit(plane: ControlPlane, *, space: str, jobs: int, by: str = "phalanx") -> dict[str, int]:
    """Create the first pod of each job, then the second of each, and so on; the number of members by gang."""
    names = [f"job-{i}" for i in range(jobs)]
    groups, pods = zip(*(training_job(name, space=space, scheduler=by) for name in names), strict=True)
    await create(plane, *groups)
    await create_in_order(plane, list(chain(*zip(*pods, strict=True))))
    return {f"{space}/{name}": SIZE for name in names}


async def finish(plane: ControlPlane, history: PodHistory, jobs: Iterable[str]) -> None:
    """Let a job's pods succeed once all of them run, as in distributed training; until all have ended."""
    waiting = set(jobs)
    async with plane.session() as session:
        while waiting:
            await history.until(lambda: any(runs(history, job) for job in waiting), timeout=60)
            for job in [each for each in waiting if runs(history, each)]:
                waiting.remove(job)
                pods = [pod.metadata for pod in history.members(job)]
                await asyncio.gather(*(succeed(session, namespace=p.namespace, name=p.name) for p in pods))


def runs(history: PodHistory, job: str) -> bool:
    return sum(pod.status.phase == "Running" for pod in history.members(job)) == SIZE


async def test_one_two_and_five_jobs_finish_and_no_gang_is_ever_partial(
    shared_cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    plane = shared_cluster.plane
    await create_cluster(plane, count=3, cpu=3, space="jobs")
    sizes: dict[str, int] = {}
    async with watching(plane) as history, scheduler(plane, shared_cluster.kubeconfig):
        for repeat in range(REPEATS):
            for jobs in (1, 2, 5):
                space = f"jobs-{repeat}-{jobs}"
                await create(plane, namespace(space))
                submitted = await submit(plane, space=space, jobs=jobs)
                await finish(plane, history, submitted)
                sizes |= submitted
    found = spans(history.events, sizes=sizes)
    assert sorted(span.gang for span in found) == sorted(sizes)
    assert [span for span in found if span.others > 0 or span.together > 1] == []
    assert ever_overcommitted(allocatable(await nodes_of(plane)), history.events) == []
    assert shared_cluster.audit.denied() == []
    record_property("jobs", len(sizes))
    record_property("longest bind round in ms", round(1000 * max(span.seconds for span in found)))


async def test_the_same_jobs_block_each_other_when_scheduled_pod_by_pod(shared_cluster: Cluster) -> None:
    plane = shared_cluster.plane
    await create_cluster(plane, count=3, cpu=3, space="jobs")
    async with watching(plane) as history:
        sizes = await submit(plane, space="jobs", jobs=5, by="default-scheduler")
        await history.until_bound(SLOTS, timeout=60)
    assert len(partial(history.pods.values(), sizes=sizes)) == 5
