"""Knavigator's gang benchmark on etcd, kube-apiserver and KWOK, with shorter run times.

All jobs are created in a held queue before the scheduler becomes leader; the clock starts when the queue is
opened. KWOK starts the pods, and a stage of the benchmark harness ends them after their run time.
"""

import asyncio
import time
from collections import Counter
from contextlib import suppress
from typing import Any, Final

import aiohttp
import msgspec
from msgspec import Struct
from phalanx.model.names import LABEL_POD_GROUP
from phalanx_controlplane.controlplane import ControlPlane
from phalanx_simulator.embedded.manifests import Manifest, pod_group, queue

from bench.harness.cluster import RUN_STAGE, RUN_TIME_ANNOTATION, nodes_usable, served
from bench.harness.contenders import PHALANX
from bench.harness.dialects import LEASE_NAMESPACE
from bench.harness.gangs import NAMESPACE, PODS_PATH
from bench.knavigator_jobs import GPUS, Played, Times, lower_bound_s, played
from tests.fake_objects import create_many, fake_node, fake_pod, namespace

STAGES: Final = ("node/fast", "pod/fast/pod-ready", "pod/fast/pod-delete", RUN_STAGE)
POD_GROUPS_PATH: Final = "/apis/scheduling.phalanx.dev/v1alpha1/podgroups"
QUEUES_PATH: Final = "/apis/scheduling.phalanx.dev/v1alpha1/queues"

_LOOK_S: Final = 0.2
_PATIENCE_S: Final = 120.0


class _Meta(Struct, rename="camel", frozen=True):
    name: str = ""
    resource_version: str = ""


class _Spec(Struct, rename="camel", frozen=True):
    node_name: str = ""


class _Status(Struct, frozen=True):
    phase: str = ""


class _Pod(Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Line(Struct, frozen=True):
    type: str
    object: _Pod


class _Watch:
    """Follows the pods by a watch."""

    def __init__(self) -> None:
        self.times = Times(submitted=0.0)
        self.shared = 0
        self._on: dict[str, str] = {}
        self._version = ""

    async def follow(self, session: aiohttp.ClientSession) -> None:
        """Watch until cancelled; resume a watch that the API server closes."""
        while True:
            params = {"watch": "true", "resourceVersion": self._version}
            endless = aiohttp.ClientTimeout(total=None)
            async with session.get(PODS_PATH, params=params, timeout=endless) as answer:
                async for line in answer.content:
                    self._take(msgspec.json.decode(line, type=_Line).object)

    async def begin(self, session: aiohttp.ClientSession) -> None:
        """Take the resource version from which the watch starts."""
        async with session.get(PODS_PATH) as answer:
            self._version = (await answer.json())["metadata"]["resourceVersion"]

    def _take(self, pod: _Pod) -> None:
        name, node, phase = pod.metadata.name, pod.spec.node_name, pod.status.phase
        self._version = pod.metadata.resource_version
        self.times.saw(name, phase, time.monotonic())
        if node and phase not in ("Succeeded", "Failed"):
            if name not in self._on:
                self.shared += Counter(self._on.values())[node] > 0
            self._on[name] = node
        else:
            self._on.pop(name, None)


async def play_real(jobs: list[int], *, nodes: int, ordering: str, run_s: float) -> Played:
    """One run on a separate control plane, for at most three times the ideal plus two minutes."""
    async with ControlPlane.start(stages=STAGES) as plane, plane.session() as session:
        definitions = PHALANX.dialect.crds()
        await create_many(session, definitions)
        await create_many(session, [namespace(NAMESPACE), namespace(LEASE_NAMESPACE)])
        gpus = {"nvidia.com/gpu": str(GPUS)}
        await create_many(session, [fake_node(f"n{index:02}", allocatable=gpus) for index in range(nodes)])
        await nodes_usable(session, expected=nodes)
        await served(session, definitions, path=POD_GROUPS_PATH)
        await create_many(session, [queue("bench", ordering=ordering, state="Held")])
        await create_many(session, _work(jobs, run_s))
        async with PHALANX.start(plane):
            await _all_are_held(session, len(jobs))
            watch = _Watch()
            await watch.begin(session)
            following = asyncio.create_task(watch.follow(session))
            watch.times.submitted = time.monotonic()
            await _open(session)
            with suppress(TimeoutError):
                async with asyncio.timeout(3 * lower_bound_s(jobs, nodes, run_s) + _PATIENCE_S):
                    while len(watch.times.ended) < sum(jobs) and not following.done():
                        await asyncio.sleep(_LOOK_S)
            following.cancel()
    return played(watch.times, jobs, nodes=nodes, run_s=run_s, ordering=ordering, violations=watch.shared)


def _work(jobs: list[int], run_s: float) -> list[Manifest]:
    """PodGroups, each followed by its pods."""
    made: list[Manifest] = []
    for index, size in enumerate(jobs):
        name = f"job-{index:02}"
        made.append(pod_group(name, min_member=size, namespace=NAMESPACE, queue="bench"))
        made += [_pod(name, member, run_s) for member in range(size)]
    return made


def _pod(gang: str, member: int, run_s: float) -> Manifest:
    requests = {"nvidia.com/gpu": str(GPUS)}
    labels = {LABEL_POD_GROUP: gang}
    made = fake_pod(f"{gang}-{member}", namespace=NAMESPACE, labels=labels, requests=requests)
    made["metadata"]["annotations"] = {RUN_TIME_ANNOTATION: f"{run_s:g}s"}
    return made


async def _all_are_held(session: aiohttp.ClientSession, count: int) -> None:
    """Wait until each PodGroup reports that its queue is held, so that the scheduler knows all of them."""
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            async with session.get(POD_GROUPS_PATH) as answer:
                groups: list[dict[str, Any]] = (await answer.json())["items"]
            if sum(each.get("status", {}).get("reason") == "QueueHeld" for each in groups) == count:
                return
            await asyncio.sleep(_LOOK_S)


async def _open(session: aiohttp.ClientSession) -> None:
    headers = {"Content-Type": "application/merge-patch+json"}
    body = {"spec": {"state": "Open"}}
    async with session.patch(f"{QUEUES_PATH}/bench", json=body, headers=headers) as answer:
        answer.raise_for_status()
