"""The cluster of a run: settings of its control plane, its nodes, and the pods that run already."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
from msgspec import Struct
from phalanx.model.resources import GPU, request_amount
from phalanx_controlplane.components import DEFAULT_STAGES

from bench.harness import rules
from bench.harness.gangs import LEVELS, NAMESPACE, PODS_PATH, UNOBSERVED_LABEL, Dialect, Gang, Manifest, pods
from bench.harness.workloads import Workload
from tests.fake_objects import create_many, fake_node, namespace

RUN_TIME_ANNOTATION: Final = "bench/run-time"
"""The run time of a pod as a Go duration, which our own KWOK stage reads."""

RUN_STAGE: Final = str(Path(__file__).parent / "stages" / "pod-run")
"""That stage, as an argument of `ControlPlane.start`."""

POLL_S = 0.2


class _Spec(Struct, frozen=True):
    taints: tuple[msgspec.Raw, ...] = ()


class _Node(Struct, frozen=True):
    spec: _Spec = _Spec()


class _Nodes(Struct, frozen=True):
    items: tuple[_Node, ...] = ()


async def nodes_usable(session: aiohttp.ClientSession, *, expected: int) -> None:
    """Wait until `expected` nodes have no taint: every new node starts with not-ready."""
    decode = msgspec.json.Decoder(_Nodes).decode
    while True:
        async with session.get("/api/v1/nodes") as answer:
            nodes = decode(await answer.read()).items
        if sum(not node.spec.taints for node in nodes) >= expected:
            return
        await asyncio.sleep(POLL_S)


async def served(session: aiohttp.ClientSession, crds: Iterable[Manifest], *, path: str) -> None:
    """Wait until the API server serves all kinds of these CRDs, and `path`."""
    paths = [_path(crd) for crd in crds] + ([path] if path else [])
    for each in paths:
        while not await _answers(session, each):
            await asyncio.sleep(POLL_S)


def _path(crd: Manifest) -> str:
    spec = crd["spec"]
    version = next(each["name"] for each in spec["versions"] if each["served"])
    return f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"


async def _answers(session: aiohttp.ClientSession, path: str) -> bool:
    async with session.get(path) as answer:
        return answer.ok


def settings(gates: Sequence[str], workload: Workload) -> dict[str, Any]:
    """Arguments of ControlPlane.start. `gates`: `Gate=true`, and API versions as `group/version=true`."""
    versions = ",".join(each for each in gates if "/" in each)
    features = ",".join(each for each in gates if "/" not in each)
    both = (f"--feature-gates={features}",) if features else ()
    runtime = (f"--runtime-config={versions}",) if versions else ()
    return {
        "apiserver_flags": (*both, *runtime),
        "controller_manager_flags": both,
        "stages": (*DEFAULT_STAGES, RUN_STAGE) if workload.run_seconds else DEFAULT_STAGES,
    }


async def prepare(session: aiohttp.ClientSession, dialect: Dialect, workload: Workload) -> None:
    """Create everything that exists before the pods to place."""
    definitions = dialect.crds()
    await create_many(session, definitions)
    await create_many(session, [namespace(NAMESPACE)])
    await served(session, definitions, path=dialect.ready_path())
    await create_many(session, priority_classes(workload))
    await create_many(session, dialect.setup())
    await create_many(session, nodes(workload))
    await create_many(session, needed_by_rules(workload))
    await nodes_usable(session, expected=workload.nodes.count)
    existing = workload.existing()
    await create_many(session, [group for gang in existing for group in dialect.group(gang)])
    await create_many(session, running_pods(workload, dialect))
    await _all_run(session)


def nodes(workload: Workload) -> list[Manifest]:
    """Nodes with individual hostnames and slightly different memory, as in real clusters."""
    shape = workload.nodes
    gpus = {GPU: str(shape.gpus)} if shape.gpus else {}
    return [
        fake_node(
            f"node-{i:05d}",
            labels={
                LEVELS["zone"]: f"zone-{i // shape.zone}",
                LEVELS["spine"]: f"spine-{i // shape.spine}",
                LEVELS["rack"]: f"rack-{i // shape.rack}",
            },
            allocatable={
                "cpu": str(shape.cores),
                "memory": f"{shape.memory_gib * 1024**2 - 4 * (i % 97)}Ki",
                **gpus,
            },
        )
        for i in range(shape.count)
    ]


def needed_by_rules(workload: Workload) -> list[Manifest]:
    """Classes, and the devices of each node, if pods ask for them."""
    names = [node["metadata"]["name"] for node in nodes(workload)]
    return rules.setup({kind.rule for kind in workload.gangs}, nodes=names)


def priority_classes(workload: Workload) -> list[Manifest]:
    """A PriorityClass for each priority in use."""
    gangs = [*workload.arriving(), *workload.existing()]
    used = {gang.priority_class: gang.priority for gang in gangs if gang.priority}
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return [{**kind, "metadata": {"name": name}, "value": value} for name, value in used.items()]


class DoesNotFit(Exception):
    """The existing gangs do not fit on the nodes of a workload."""


def running_pods(workload: Workload, dialect: Dialect) -> list[Manifest]:
    """Build the existing pods, each on the first node where it fits. Raises DoesNotFit."""
    offered = workload.nodes.allocatable
    node, free = 0, dict(offered)
    made = []
    for gang, plain, amounts in _with_amounts(workload.existing()):
        while any(free[resource] < amount for resource, amount in amounts.items()):
            node, free = node + 1, dict(offered)
            if node == workload.nodes.count:
                raise DoesNotFit(f"workload {workload.name}: {gang.name} and the gangs after it do not fit")
        for resource, amount in amounts.items():
            free[resource] -= amount
        pod = dialect.pod(gang, plain)
        pod["metadata"]["labels"][UNOBSERVED_LABEL] = "true"
        pod["spec"]["nodeName"] = f"node-{node:05d}"
        made.append(pod)
    return made


def _with_amounts(gangs: Iterable[Gang]) -> Iterable[tuple[Gang, Manifest, dict[str, int]]]:
    for gang in gangs:
        for plain in pods(gang):
            requests = plain["spec"]["containers"][0]["resources"]["requests"]
            yield gang, plain, {name: request_amount(name, written) for name, written in requests.items()}


async def _all_run(session: aiohttp.ClientSession) -> None:
    while await _count(session, {"fieldSelector": "status.phase!=Running"}):
        await asyncio.sleep(POLL_S)


async def existing_pods_left(session: aiohttp.ClientSession) -> int:
    """The number of existing pods that were not evicted."""
    return await _count(session, {"labelSelector": UNOBSERVED_LABEL})


class _ListMeta(Struct, frozen=True, rename="camel"):
    remaining_item_count: int = 0


class _Names(Struct, frozen=True):
    items: tuple[msgspec.Raw, ...] = ()
    metadata: _ListMeta = _ListMeta()


async def _count(session: aiohttp.ClientSession, query: dict[str, str], path: str = PODS_PATH) -> int:
    async with session.get(path, params=query, raise_for_status=True) as answer:
        return len(msgspec.json.decode(await answer.read(), type=_Names).items)


async def events(session: aiohttp.ClientSession) -> int:
    """The number of Events of pods and groups."""
    path = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
    async with session.get(path, params={"limit": "1"}, raise_for_status=True) as answer:
        found = msgspec.json.decode(await answer.read(), type=_Names)
    return len(found.items) + found.metadata.remaining_item_count
