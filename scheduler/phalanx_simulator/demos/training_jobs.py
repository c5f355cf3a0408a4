"""Act 1: five training jobs, submitted at once, on slots for one and a half of them."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct
from phalanx.model.api.core import Pod
from phalanx.model.names import DEFAULT_SCHEDULER_NAME
from rich.console import Group
from rich.live import Live
from rich.text import Text

from phalanx_simulator.demos.cluster import DemoCluster, DemoFailed, Manifest
from phalanx_simulator.demos.environment import Stage
from phalanx_simulator.demos.limits import DEMO_FRAME_S, DEMO_POLL_S, DEMO_STEP_TIMEOUT_S
from phalanx_simulator.demos.timeline import Panel, PodOnNode, SlotHistory, legend, side_by_side
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.controllers.pod_by_pod_scheduler import SCHEDULER_NAME

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
        await self.cluster.create_nodes(*(manifests.node(name, gpus=0, cpu="3") for name in NODES))
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
                yield manifests.pod(
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
    return manifests.pod_group(_group_of(job), min_member=SIZE, roles=roles)


def _is_refused(pod: Pod) -> bool:
    return any(
        condition.type == "PodScheduled" and condition.status == "False"
        for condition in pod.status.conditions
    )


TITLE = "Five training jobs on nine slots"

_STORY = (
    f"Each job is 2 parameter servers and 4 workers and trains only while all {SIZE} pods run. {len(NODES)} "
    f"nodes have capacity for {SLOTS} pods. Two clusters get the same {PODS} pods at the same time, one pod "
    "of each job in turn."
)


async def play(stage: Stage) -> str:
    """Run the jobs on two clusters side by side.

    Raises DemoFailed.
    """
    if stage.pod_by_pod is None:
        raise DemoFailed("there is no cluster with a pod-by-pod scheduler")
    one_by_one = TrainingJobs(stage.pod_by_pod, scheduler=SCHEDULER_NAME)
    whole = TrainingJobs(stage.phalanx, scheduler=DEFAULT_SCHEDULER_NAME)
    stage.console.print(_STORY, end="\n\n")
    await asyncio.gather(one_by_one.prepare(), whole.prepare())
    screen = _Screen(stage, one_by_one, whole)
    try:
        async with asyncio.timeout(DEMO_STEP_TIMEOUT_S):
            await screen.show_while_running()
    except TimeoutError:
        raise DemoFailed(f"after {DEMO_STEP_TIMEOUT_S:.0f} s {verdict(one_by_one, whole)}") from None
    _check(one_by_one, whole)
    return verdict(one_by_one, whole)


def verdict(one_by_one: TrainingJobs, whole: TrainingJobs) -> str:
    """Both outcomes in one line."""
    took = max((times.finished or whole.seconds for times in whole.times.values()), default=0.0)
    return (
        f"pod by pod: {one_by_one.finished} of {len(JOBS)} jobs finished, {_held(one_by_one)} of {SLOTS} "
        f"slots held by incomplete jobs; Phalanx: {whole.finished} of {len(JOBS)} in {took:.1f} s"
    )


def _check(one_by_one: TrainingJobs, whole: TrainingJobs) -> None:
    stuck = one_by_one.deadlocked_at is not None and one_by_one.finished == 0
    if not stuck or whole.finished < len(JOBS):
        raise DemoFailed(verdict(one_by_one, whole))


class _Screen:
    """Both clusters' charts: live on a terminal, else the last frame."""

    def __init__(self, stage: Stage, one_by_one: TrainingJobs, whole: TrainingJobs) -> None:
        self._console = stage.console
        self._title = stage.pod_by_pod_name
        self._runs = (one_by_one, whole)

    async def show_while_running(self) -> None:
        """Run the jobs on both clusters until both have settled."""
        with Live(console=self._console, auto_refresh=False, get_renderable=self._picture) as film:
            async with asyncio.TaskGroup() as tasks:
                runs = [tasks.create_task(run.run(until=self._over)) for run in self._runs]
                while not all(run.done() for run in runs):
                    film.refresh()
                    await asyncio.sleep(DEMO_FRAME_S)
        if not self._console.is_terminal:
            self._console.print()  # only on a terminal does a film end its last line

    def _over(self) -> bool:
        return all(run.is_settled for run in self._runs)

    def _picture(self) -> Group:
        one_by_one, whole = self._runs
        return Group(
            side_by_side(
                _panel(one_by_one, title=self._title),
                _panel(whole, title="Phalanx, whole gangs or nothing"),
                end=max(run.seconds for run in self._runs),
                width=self._console.width,
            ),
            Text(),
            legend(),
        )


def _panel(run: TrainingJobs, *, title: str) -> Panel:
    return Panel(
        title=title,
        history=run.history,
        jobs={job: _progress(run, job) for job in JOBS},
        outcome=_outcome(run),
        well=run.deadlocked_at is None,
    )


def _outcome(run: TrainingJobs) -> str:
    if run.deadlocked_at is not None:
        return f"deadlock at {run.deadlocked_at:.2f} s: all slots held, no job whole"
    return f"{run.finished} of {len(JOBS)} jobs finished"


def _progress(run: TrainingJobs, job: str) -> str:
    times = run.times[job]
    if times.finished is not None:
        return f"finished at {times.finished:.1f} s"
    if times.started is not None:
        return "trains"
    return f"{run.running(job)} of {SIZE} pods run, so it waits"


def _held(run: TrainingJobs) -> int:
    """Slots that are held by jobs that do not train."""
    return sum(held is not None and not held.trains for held in run.history.now)
