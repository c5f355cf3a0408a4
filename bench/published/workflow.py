"""Workflows of dependent steps, driven by a workflow tool that creates plain Jobs.

The tool knows nothing of the scheduler: like Argo or Nextflow it creates the Job of a step when the Jobs
before it are complete, and reads that from their status.
"""

from typing import Final

from msgspec import Struct
from phalanx_simulator.embedded.manifests import node

from bench.published.applications import Application, Applications
from bench.published.job_files import plain_job
from bench.published.site import Listed, Played, Site

JOBS_PATH: Final = "/apis/batch/v1/namespaces/default/jobs"


class Step(Struct, frozen=True, kw_only=True):
    """A step that needs `pods` pods of a core at the same time. `after`: names of steps before it."""

    name: str
    pods: int
    works_s: float
    after: tuple[str, ...] = ()


FORECAST: Final = (
    Step(name="geogrid", pods=1, works_s=20),
    Step(name="ungrib", pods=1, works_s=20),
    Step(name="metgrid", pods=1, works_s=20, after=("geogrid", "ungrib")),
    Step(name="real", pods=4, works_s=30, after=("metgrid",)),
    Step(name="wrf", pods=8, works_s=60, after=("real",)),
    Step(name="verify", pods=1, works_s=20, after=("wrf",)),
    Step(name="draw", pods=2, works_s=20, after=("wrf",)),
)
"""A weather forecast with WRF: preparation of data, two MPI programs, two steps that use the result."""

NODES: Final = 3
CORES: Final = 4

_PATIENCE_S: Final = 400.0


class Forecasts(Struct, frozen=True):
    """So many forecasts at once; the cluster holds the largest step of one and a half."""

    count: int
    steps: tuple[Step, ...] = FORECAST

    async def __call__(self, site: Site) -> Played:
        """Play them until all steps have ended, or none begins or ends any more."""
        await site.create_nodes(*(node(f"n{index}", gpus=0, cpu=str(CORES)) for index in range(NODES)))
        applications = Applications(site, ())
        wanted = {f"f{index}-{step.name}": step for index in range(self.count) for step in self.steps}
        patience_s = site.patience(_PATIENCE_S)
        async for now in site.looks(for_s=1e9):
            complete = await _complete(site)
            for name, step in wanted.items():
                if name not in applications.played and _before(name, step) <= complete:
                    await _submit(site, applications, name, step)
            await applications.look(await site.pods())
            if len(complete) == len(wanted) or now > applications.progress_at + patience_s:
                break
        finished = applications.ended
        figures: dict[str, float | int | str] = {
            "steps finished": f"{finished} of {len(wanted)}",
            "seconds until the last step ended": (
                round(applications.seconds, 1) if finished == len(wanted) else "never"
            ),
            "least possible": round(site.takes(self.least_s()), 1),
            "pod-seconds of waiting inside a step": round(applications.idle_pod_s, 1),
        }
        return Played(figures=figures, wrong=_wrong(applications, wanted))

    def least_s(self) -> float:
        """No order is faster: all work on all cores, or steps of which no two fit one after the other."""
        by_name = {step.name: step for step in self.steps}

        def head(name: str) -> float:
            return max((head(each) + by_name[each].works_s for each in by_name[name].after), default=0.0)

        def tail(name: str) -> float:
            after = [step for step in self.steps if name in step.after]
            return max((step.works_s + tail(step.name) for step in after), default=0.0)

        def in_line(step: Step) -> float:
            times = self.count if 2 * step.pods > NODES * CORES else 1
            return head(step.name) + times * step.works_s + tail(step.name)

        work = self.count * sum(step.pods * step.works_s for step in self.steps)
        return max(work / (NODES * CORES), *map(in_line, self.steps))


async def _submit(site: Site, applications: Applications, name: str, step: Step) -> None:
    application = Application(
        name=name, roles={"worker": step.pods}, requests={"cpu": "1"}, works_s=step.works_s
    )
    applications.add(application)
    await site.create(plain_job(site, application))


async def _complete(site: Site) -> frozenset[str]:
    """The names of complete Jobs."""
    jobs = (await site.read(JOBS_PATH, Listed)).items
    return frozenset(
        job["metadata"]["name"]
        for job in jobs
        for condition in job.get("status", {}).get("conditions", [])
        if (condition["type"], condition["status"]) == ("Complete", "True")
    )


def _before(name: str, step: Step) -> frozenset[str]:
    workflow = name.partition("-")[0]
    return frozenset(f"{workflow}-{each}" for each in step.after)


def _wrong(applications: Applications, wanted: dict[str, Step]) -> tuple[str, ...]:
    """Steps that began before those on which they depend had ended, and steps that did not end."""
    times = applications.times
    found = []
    for name, step in wanted.items():
        began = times[name].began if name in times else None
        if began is None:
            continue
        ends = [times[each].ended for each in _before(name, step)]
        if any(end is None or end > began for end in ends):
            found.append(f"{name} began too early")
    if applications.ended < len(wanted):
        found.append(f"only {applications.ended} of {len(wanted)} steps finished")
    return tuple(found)
