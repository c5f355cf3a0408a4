"""What happens to a workload, and what must be true then. Each event is one function for every workload."""

from collections.abc import Awaitable, Callable

import pytest

from tests.e2e.pod_history import Pod
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
)
