"""The training jobs of act 1: manifests, and the controller that completes whole jobs."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct
from phalanx.limits import DEMO_POLL_S
from phalanx.model.api.core import Pod
from phalanx.model.names import DEFAULT_SCHEDULER_NAME

from phalanx_simulator.demos.cluster import DemoCluster, Manifest
from phalanx_simulator.demos.failure import DemoFailed
from phalanx_simulator.demos.slots import PodOnNode, SlotHistory
from phalanx_simulator.embedded import manifests as workloads

NODES: Final = ("node-1", "node-2", "node-3")
SLOTS_PER_NODE: Final = 3
SLOTS: Final = len(NODES) * SLOTS_PER_NODE
JOBS: Final = ("a", "b", "c", "d", "e")
ROLES: Final = {"ps": 2, "worker": 4}
SIZE: Final = sum(ROLES.values())
PODS: Final = len(JOBS) * SIZE

_CPU: Final = {"cpu": "1"}
_TRAINING_S: Final = 1.0
_ENDED: Final = ("Succeeded", "Failed")


class JobTimes(Struct):
    """When a job began to train and when all its pods had succeeded, in seconds."""

    started: float | None = None
    finished: float | None = None


class TrainingJobs:
    """Five jobs on one cluster.

    A job trains while all its pods run; its pods succeed after a second.
    """

    def __init__(self, cluster: DemoCluster, *, scheduler: str) -> None:
        self.cluster = cluster
        self.history = SlotHistory(nodes=NODES, per_node=SLOTS_PER_NODE)
        self.times = {job: JobTimes() for job in JOBS}
        self.deadlocked_at: float | None = None
        """Seconds after which nothing could happen any more."""
        self._scheduler = scheduler
        self._began = 0.0

    @property
    def seconds(self) -> float:
        """Since the first pod was about to be created."""
        return asyncio.get_running_loop().time() - self._began

    @property
    def finished(self) -> int:
        """Number of jobs that have succeeded."""
        return sum(times.finished is not None for times in self.times.values())

    def pods_of(self, job: str) -> list[Pod]:
        """The pods of a job."""
        return [pod for pod in self.cluster.pods() if _job_of(pod) == job]

    def running(self, job: str) -> int:
        """How many pods of a job run now."""
        return sum(pod.status.phase == "Running" for pod in self.pods_of(job))

    @property
    def is_settled(self) -> bool:
        """Whether nothing more will happen."""
        return self.finished == len(JOBS) or self.deadlocked_at is not None

    async def prepare(self) -> None:
        """Create three nodes of three slots and, for Phalanx, a PodGroup for each job."""
        await self.cluster.create_nodes(*(workloads.node(name, gpus=0, cpu="3") for name in NODES))
        if self._knows_gangs:
            await self.cluster.create(*(_pod_group(job) for job in JOBS))

    async def run(self, *, until: Callable[[], bool]) -> None:
        """Create all pods, and complete jobs, until `until` holds.

        Raises DemoFailed.
        """
        self._began = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.cluster.create(*self._pods()))
            while not until():
                self._look(tasks)
                why = self.cluster.why_down()
                if why is not None:
                    raise DemoFailed(why)
                await self.cluster.changed(within=DEMO_POLL_S)

    @property
    def _knows_gangs(self) -> bool:
        return self._scheduler == DEFAULT_SCHEDULER_NAME

    def _pods(self) -> Iterator[Manifest]:
        """The first pod of each job, then the second of each, as five users who submit at once."""
        members = [f"{role}-{index}" for role, count in ROLES.items() for index in range(count)]
        for member in members:
            for job in JOBS:
                yield workloads.pod(
                    f"{job}-{member}",
                    group=_group_of(job) if self._knows_gangs else "",
                    role=member.partition("-")[0],
                    scheduler=self._scheduler,
                    requests=_CPU,
                )

    def _look(self, tasks: asyncio.TaskGroup) -> None:
        for job, times in self.times.items():
            if times.started is None and self.running(job) == SIZE:
                times.started = self.seconds
                tasks.create_task(self._train(job))
            if times.finished is None and self._has_succeeded(job):
                times.finished = self.seconds
        training = {job: times for job, times in self.times.items() if times.started is not None}
        self.history.note(self.seconds, self._on_nodes(), training=training)
        if self.deadlocked_at is None and self._is_deadlocked():
            self.deadlocked_at = self.seconds

    def _is_deadlocked(self) -> bool:
        """Whether incomplete jobs hold every slot and each waiting pod was refused.

        No job gives back a slot before it is whole, and none can become whole: so it stays.
        """
        pods = self.cluster.pods()
        waiting = [pod for pod in pods if not pod.spec.node_name]
        return (
            len(pods) == PODS
            and None not in self.history.now
            and all(self.running(job) < SIZE for job in JOBS)
            and sum(self.running(job) for job in JOBS) == SLOTS
            and all(_is_refused(pod) for pod in waiting)
        )

    def _has_succeeded(self, job: str) -> bool:
        return sum(pod.status.phase == "Succeeded" for pod in self.pods_of(job)) == SIZE

    def _on_nodes(self) -> list[PodOnNode]:
        return [
            PodOnNode(name=pod.metadata.name, node=pod.spec.node_name, job=_job_of(pod))
            for pod in self.cluster.pods()
            if pod.spec.node_name and pod.status.phase not in _ENDED
        ]

    async def _train(self, job: str) -> None:
        await asyncio.sleep(_TRAINING_S)
        done = {"status": {"phase": "Succeeded"}}
        async with asyncio.TaskGroup() as tasks:
            for pod in self.pods_of(job):
                tasks.create_task(self.cluster.patch("Pod", pod.metadata.name, done, subresource="status"))


def _job_of(pod: Pod) -> str:
    return pod.metadata.name.partition("-")[0]


def _group_of(job: str) -> str:
    return f"job-{job}"


def _pod_group(job: str) -> Manifest:
    roles = [{"name": name, "count": count} for name, count in ROLES.items()]
    return workloads.pod_group(_group_of(job), min_member=SIZE, roles=roles)


def _is_refused(pod: Pod) -> bool:
    return any(one.type == "PodScheduled" and one.status == "False" for one in pod.status.conditions)
