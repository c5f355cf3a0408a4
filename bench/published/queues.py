"""Two queues of weights 1 and 3 share a cluster of 4 cores, as in the documentation of Volcano's queues."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from phalanx.model.names import LABEL_QUEUE
from phalanx_simulator.embedded.manifests import Manifest, node, queue

from bench.published.applications import Application, Applications
from bench.published.job_files import plain_job
from bench.published.site import Played, Pod, Site

SMALL: Final = "small"
LARGE: Final = "large"
WEIGHTS: Final = {SMALL: 1, LARGE: 3}
CORES: Final = 4

_WORKS_S: Final = 30.0
_TOLERATED: Final = 10.0
"""Percentage points from the share of the weights: a job is a quarter of the cores."""
_EARLIER_S: Final = 10.0
_LONG_S: Final = 600.0
_PATIENCE_S: Final = 1800.0


class Division(Struct, frozen=True):
    """Both queues always have jobs of a core that wait; those of the queue of weight 1 came earlier.

    `jobs`: of each queue; `shared_s`: how long it is observed after the other jobs came.
    """

    jobs: int = 40
    shared_s: float = 300.0

    async def __call__(self, site: Site) -> Played:
        """Play it until the time of observation is over."""
        await _prepare(site)
        waiting = {
            name: [_application(f"{name}-{index:02}", 1, _WORKS_S) for index in range(self.jobs)]
            for name in WEIGHTS
        }
        applications = Applications(site, [each for jobs in waiting.values() for each in jobs])
        await site.create(*(_job(site, each, in_queue=SMALL) for each in waiting[SMALL]))
        async for _ in site.looks(for_s=site.takes(_EARLIER_S)):
            await applications.look(await site.pods())
        await site.create(*(_job(site, each, in_queue=LARGE) for each in waiting[LARGE]))
        held: dict[str, float] = dict.fromkeys(WEIGHTS, 0.0)
        before = site.now()
        async for now in site.looks(for_s=site.takes(self.shared_s)):
            pods = await site.pods()
            await applications.look(pods)
            for name in held:
                held[name] += _held_by(pods, name) * (now - before)
            before = now
        share = 100 * held[LARGE] / (sum(held.values()) or 1.0)
        deserved = 100 * WEIGHTS[LARGE] / sum(WEIGHTS.values())
        wrong = () if abs(share - deserved) < _TOLERATED else (f"share of {share:.0f} %",)
        figures = {"share of the cores for the queue of weight 3, in %": round(share, 1)}
        return Played(figures=figures, wrong=wrong)


async def reclaim(site: Site) -> Played:
    """One queue uses all cores, then the other one submits a job of its share."""
    await _prepare(site)
    first, borrowing = _application("j1", 1, _LONG_S), _application("j2", 3, _LONG_S)
    owner = _application("j3", 3, _WORKS_S)
    applications = Applications(site, [first, borrowing])
    await site.create(*(_job(site, each, in_queue=SMALL) for each in (first, borrowing)))
    async for _ in site.looks(for_s=site.patience(_PATIENCE_S)):
        await applications.look(await site.pods())
        if all(times.began is not None for times in applications.times.values()):
            break
    submitted = site.now()
    applications.add(owner)
    await site.create(_job(site, owner, in_queue=LARGE))
    waited: float | None = None
    kept = 0
    async for now in site.looks(for_s=site.patience(_PATIENCE_S)):
        pods = await site.pods()
        await applications.look(pods)
        began = applications.times[owner.name].began
        if began is not None and waited is None:
            waited = now - submitted
            kept = _held_by(pods, SMALL)
        if applications.times[owner.name].ended is not None and _resumed(applications, borrowing.name):
            break
    figures = {
        "seconds until the owner of the share runs": round(waited, 1) if waited is not None else "never",
        "cores that the other queue then has": kept,
        "jobs of the other queue that lost pods": sum(
            each.losses > 0 for each in applications.times.values()
        ),
    }
    return Played(figures=figures, wrong=_wrong(site, applications, waited, kept))


def _wrong(site: Site, applications: Applications, waited: float | None, kept: int) -> tuple[str, ...]:
    found = []
    if waited is None or waited >= site.takes(_LONG_S) / 2:
        found.append("the owner of the share had to wait for the end of a job")
    if kept != CORES * WEIGHTS[SMALL] // sum(WEIGHTS.values()):
        found.append(f"the other queue had {kept} cores beside it")
    if applications.times["j1"].losses:
        found.append("the job inside the share of its queue lost a pod")
    if applications.times["j2"].began is None:
        found.append("the evicted job did not start again")
    return tuple(found)


def _resumed(applications: Applications, name: str) -> bool:
    return applications.times[name].began is not None


async def _prepare(site: Site) -> None:
    if site.knows_gangs:
        await site.create(*(queue(name, weight=weight) for name, weight in WEIGHTS.items()))
    await site.create_nodes(node("n0", gpus=0, cpu=str(CORES)))


def _application(name: str, pods: int, works_s: float) -> Application:
    requests: Mapping[str, str] = {"cpu": "1"}
    return Application(name=name, roles={"worker": pods}, requests=requests, works_s=works_s)


def _job(site: Site, application: Application, *, in_queue: str) -> Manifest:
    """Phalanx reads the queue from a label; kube-scheduler has no queues."""
    return plain_job(site, application, labels={LABEL_QUEUE: in_queue})


def _held_by(pods: Iterable[Pod], name: str) -> int:
    """The cores that pods of a queue hold."""
    return sum(each.holds and each.metadata.labels.get(LABEL_QUEUE) == name for each in pods)
