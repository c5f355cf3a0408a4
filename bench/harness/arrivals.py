"""Creates the gangs of a workload in the cluster, all at once or at a constant rate."""

import asyncio
from collections.abc import Iterator
from itertools import repeat, zip_longest

import aiohttp

from bench.harness.cluster import POLL_S, RUN_TIME_ANNOTATION
from bench.harness.gangs import PODS_PATH, UNOBSERVED_LABEL, Dialect, Gang, Manifest, Role, claims, pods
from bench.harness.workloads import Workload
from tests.fake_objects import CreateFailed, collection_path, create_many


def pods_in_order(workload: Workload, dialect: Dialect) -> Iterator[tuple[Gang, Manifest]]:
    """Every pod to place, as the manifest that the scheduler needs."""
    columns = [[(gang, pod) for pod in pods(gang)] for gang in workload.arriving()]
    if workload.arrival.interleaved:
        columns = [[each for each in row if each is not None] for row in zip_longest(*columns)]
    for column in columns:
        for gang, plain in column:
            yield gang, _with_run_time(dialect.pod(gang, plain), workload.run_seconds)


def _with_run_time(pod: Manifest, seconds: float) -> Manifest:
    if not seconds:
        return pod
    metadata = pod["metadata"]
    annotations = {**metadata.get("annotations", {}), RUN_TIME_ANNOTATION: f"{seconds:g}s"}
    return {**pod, "metadata": {**metadata, "annotations": annotations}}


async def arrive(session: aiohttp.ClientSession, workload: Workload, dialect: Dialect) -> float:
    """Create all gangs; returns the greatest delay of a creation in seconds."""
    if workload.arrival.per_second:
        return await _at_a_rate(session, workload, dialect)
    await create_many(session, [group for gang in workload.arriving() for group in dialect.group(gang)])
    await create_many(session, [claim for gang in workload.arriving() for claim in claims(gang)])
    await create_many(session, [pod for _, pod in pods_in_order(workload, dialect)])
    return 0.0


def due_after(workload: Workload) -> Iterator[float]:
    """The time of each creation, in seconds since the first. Pods of a gang are created together unless
    they are interleaved."""
    rate = workload.arrival.per_second
    if workload.arrival.interleaved:
        yield from (number / rate for number in range(workload.pods))
        return
    before = 0
    for gang in workload.arriving():
        yield from repeat(before / rate, gang.size)
        before += gang.size


async def _at_a_rate(session: aiohttp.ClientSession, workload: Workload, dialect: Dialect) -> float:
    """Create without waiting for answers, so that a slow API server does not delay arrivals. Groups first."""
    loop = asyncio.get_running_loop()
    begin, latest = loop.time(), 0.0
    grouped: set[str] = set()
    ordered = pods_in_order(workload, dialect)
    async with asyncio.TaskGroup() as tasks:
        for after, (gang, pod) in zip(due_after(workload), ordered, strict=True):
            due = begin + after
            await asyncio.sleep(due - loop.time())
            if gang.name not in grouped:
                grouped.add(gang.name)
                for group in (*dialect.group(gang), *claims(gang)):
                    await _create(session, group)
            latest = max(latest, loop.time() - due)
            tasks.create_task(_create(session, pod))
    return latest


async def _create(session: aiohttp.ClientSession, manifest: Manifest) -> None:
    async with session.post(collection_path(manifest), json=manifest) as answer:
        if not answer.ok:
            raise CreateFailed(f"{manifest['kind']} {manifest['metadata']['name']}: {await answer.text()}")
        await answer.read()


async def place_one(session: aiohttp.ClientSession, dialect: Dialect) -> None:
    """Wait until the scheduler has placed a single pod, so that it is ready, and delete the pod."""
    gang = Gang("probe", (Role("only", 1, {"cpu": "1", "memory": "1Gi"}),))
    [plain] = pods(gang)
    pod = dialect.pod(gang, plain)
    pod["metadata"]["labels"][UNOBSERVED_LABEL] = "true"
    made = [*dialect.group(gang), pod]
    for manifest in made:
        await _create(session, manifest)
    path = f"{PODS_PATH}/{pod['metadata']['name']}"
    while not (await _get(session, path))["spec"].get("nodeName"):
        await asyncio.sleep(POLL_S)
    for manifest in reversed(made):
        async with session.delete(f"{collection_path(manifest)}/{manifest['metadata']['name']}") as answer:
            await answer.read()
    while await _get(session, path):
        await asyncio.sleep(POLL_S)


async def _get(session: aiohttp.ClientSession, path: str) -> Manifest:
    """The object; empty when it does not exist."""
    async with session.get(path) as answer:
        found: Manifest = await answer.json() if answer.ok else {}
        return found
