"""Act 1: five training jobs, submitted at once, on slots for one and a half of them."""

import asyncio

from phalanx.limits import DEMO_FRAME_S, DEMO_STEP_TIMEOUT_S
from phalanx.model.names import DEFAULT_SCHEDULER_NAME
from rich.console import Group
from rich.live import Live
from rich.text import Text

from phalanx_simulator.demos.environment import Stage
from phalanx_simulator.demos.failure import DemoFailed
from phalanx_simulator.demos.jobs import JOBS, NODES, PODS, SIZE, SLOTS, TrainingJobs
from phalanx_simulator.demos.timeline import Panel, legend, side_by_side
from phalanx_simulator.embedded.controllers.pod_by_pod_scheduler import SCHEDULER_NAME

TITLE = "Five training jobs on nine slots"

_STORY = (
    f"Each job is 2 parameter servers and 4 workers and trains only while all {SIZE} pods run. {len(NODES)} "
    f"nodes have room for {SLOTS} pods. Two clusters get the same {PODS} pods at the same time, one pod of "
    "each job in turn."
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
