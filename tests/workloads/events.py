"""What happens to a workload, and what must be true then. Each event is one function for every workload."""

from collections.abc import Awaitable, Callable

from tests.workloads.trial import Trial

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


EVENTS: tuple[Event, ...] = (runs_to_its_end,)
