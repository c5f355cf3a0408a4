"""One run of one scheduler on one workload, on a separate control plane."""

import asyncio
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
from msgspec import Struct
from phalanx_controlplane.controlplane import ControlPlane

from bench.harness import cluster
from bench.harness.arrivals import arrive, place_one
from bench.harness.contenders import Contender
from bench.harness.figures import Figures, figures, why_not_finished
from bench.harness.machine import busy_share
from bench.harness.observation import Observation
from bench.harness.processes import Meter, Used, metering
from bench.harness.provisioner import provisioning
from bench.harness.watching import Observer, observing
from bench.harness.workloads import Clock, Until, Workload

Report = Callable[[str], None]

PREPARED_WITHIN_S: Final = 600.0
READY_WITHIN_S: Final = 120.0
_AFTER_ITS_END_S: Final = 5.0
"""Time for the last writes of an ended scheduler to reach the observer."""

SCHEDULER: Final = "scheduler"
_OTHERS: Final = ("kube-apiserver", "etcd")


class Run(Struct, frozen=True, rename="camel"):
    """`trouble` is empty for a finished run; otherwise it says why the run did not finish.

    `used` is the usage until the end of the run, `used_when_calm` until the scheduler is idle after writing
    its Events; both by process, since the clock started. `evicted`: the number of evicted existing pods.
    """

    workload: str
    contender: str
    round: int
    trouble: str
    figures: Figures | None = None
    used: dict[str, Used] = {}
    used_when_calm: dict[str, Used] = {}
    events: int = 0
    evicted: int = 0
    creation_late_s: float = 0.0
    busy_before: float = 0.0
    """The share of the machine's cores that other processes used just before the run."""


class NotReady(Exception):
    """The cluster of a run, or a scheduler that places one pod on it, was not ready in time."""


class _Site(Struct, frozen=True):
    """The control plane, session, contender and workload of a run."""

    plane: ControlPlane
    session: aiohttp.ClientSession
    contender: Contender
    workload: Workload


class _End(Struct, frozen=True):
    """How a run ended, and the resource usage until then."""

    started_at: float
    trouble: str
    used: dict[str, Used]
    used_when_calm: dict[str, Used]
    creation_late_s: float
    observation: Observation


def takes_part(contender: Contender, workload: Workload) -> bool:
    """Whether a contender runs a workload: bare binds need a backlog that fits and no rules; some contenders
    need gangs with a level or a queue."""
    if contender.only_with:
        return any(getattr(kind, field) for kind in workload.gangs for field in contender.only_with)
    simple = workload.clock is Clock.BACKLOG and workload.until is Until.BOUND
    has_rules = any(kind.rule for kind in workload.gangs)
    simple = simple and not has_rules and not workload.existing() and not workload.run_seconds
    return contender.decides or simple


async def run_once(contender: Contender, workload: Workload, *, number: int, report: Report) -> Run:
    """One run, from the start of the control plane to its end. Raises errors outside the scheduler."""
    busy_before = await busy_share()
    async with _site(contender, workload) as site:
        await _prepare(site)
        async with provisioning(site.plane, workload):
            end = await (_backlog(site) if workload.clock is Clock.BACKLOG else _live(site))
        if end.trouble:
            report(f"  the logs are in {site.plane.keep_logs()}")
        existing = sum(gang.size for gang in workload.existing())
        return Run(
            workload=workload.name,
            contender=contender.name,
            round=number,
            trouble=end.trouble,
            figures=figures(workload, end.observation, started_at=end.started_at),
            used=end.used,
            used_when_calm=end.used_when_calm,
            events=await cluster.events(site.session),
            evicted=existing - await cluster.existing_pods_left(site.session) if existing else 0,
            creation_late_s=round(end.creation_late_s, 3),
            busy_before=round(busy_before, 2),
        )


@asynccontextmanager
async def _site(contender: Contender, workload: Workload) -> AsyncIterator[_Site]:
    wanted = cluster.settings(contender.feature_gates, workload)
    async with ControlPlane.start(kube_scheduler=contender.kube_scheduler, **wanted) as plane:
        if contender.kube_scheduler is not None:
            await plane.stop_component("kube-scheduler")
        async with plane.session() as session:
            yield _Site(plane, session, contender, workload)


async def _backlog(site: _Site) -> _End:
    async with observing(site.plane, site.workload) as observer, metering() as meter:
        await arrive(site.session, site.workload, site.contender.dialect)
        await observer.created.wait()
        _follow_others(meter, site.plane)
        async with site.contender.start(site.plane) as running:
            meter.follow(SCHEDULER, running.pid, since_birth=True)
            trouble, used = await _finish(observer, meter, site.workload, started_at=running.started_at)
            calm = used if trouble else await meter.calm(SCHEDULER)
            return _End(running.started_at, trouble, used, calm, 0.0, observer.read())


async def _live(site: _Site) -> _End:
    dialect = site.contender.dialect
    async with site.contender.start(site.plane) as running:
        await _ready(site)
        async with observing(site.plane, site.workload) as observer, metering() as meter:
            _follow_others(meter, site.plane)
            meter.follow(SCHEDULER, running.pid)
            started_at = time.monotonic()
            async with asyncio.TaskGroup() as tasks:
                arriving = tasks.create_task(arrive(site.session, site.workload, dialect))
                trouble, used = await _finish(observer, meter, site.workload, started_at=started_at)
                arriving.cancel()
            late = 0.0 if arriving.cancelled() else arriving.result()
            calm = used if trouble else await meter.calm(SCHEDULER)
            return _End(started_at, trouble, used, calm, late, observer.read())


def _follow_others(meter: Meter, plane: ControlPlane) -> None:
    for name in _OTHERS:
        meter.follow(name, plane.pid(name))


async def _prepare(site: _Site) -> None:
    try:
        async with asyncio.timeout(PREPARED_WITHIN_S):
            await cluster.prepare(site.session, site.contender.dialect, site.workload)
    except TimeoutError:
        raise NotReady(f"the cluster for it was not ready in {PREPARED_WITHIN_S:g} s") from None


async def _ready(site: _Site) -> None:
    try:
        async with asyncio.timeout(READY_WITHIN_S):
            await place_one(site.session, site.contender.dialect)
    except TimeoutError:
        raise NotReady(f"did not place one pod in {READY_WITHIN_S:g} s") from None


async def _finish(
    observer: Observer, meter: Meter, workload: Workload, *, started_at: float
) -> tuple[str, dict[str, Used]]:
    """Why the run did not finish, or "", and the usage until then. Afterwards the observer has ended."""
    met, scheduler_ended, observer_ended = (
        asyncio.create_task(each)
        for each in (observer.met.wait(), meter.ended(SCHEDULER), observer.ended.wait())
    )
    tasks = (met, scheduler_ended, observer_ended)
    left = workload.limit_seconds - (time.monotonic() - started_at)
    await asyncio.wait(tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)
    if scheduler_ended.done():
        await asyncio.wait(
            (met, observer_ended), timeout=_AFTER_ITS_END_S, return_when=asyncio.FIRST_COMPLETED
        )
    used = meter.read()
    if not met.done():
        observer.stop()
    await observer.ended.wait()
    trouble = why_not_finished(
        workload, observer.read(), is_met=observer.met.is_set(), has_ended=scheduler_ended.done()
    )
    for task in tasks:
        task.cancel()
    return trouble, used


async def try_once(contender: Contender, workload: Workload, *, number: int, report: Report) -> Run:
    """Like run_once, but a scheduler that cannot be started or observed is reported as a row."""
    try:
        await asyncio.to_thread(contender.build, report)
        return await run_once(contender, workload, number=number, report=report)
    except Exception as error:  # any error of another scheduler while it is built or started
        report("".join(traceback.format_exception(error)))
        return Run(workload.name, contender.name, number, trouble=f"could not be run: {_first(error)}")


def _first(error: BaseException) -> str:
    """The first line of the first cause that is not an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
