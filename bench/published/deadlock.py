"""Training jobs of 2 parameter servers and 4 workers, of which the cluster can hold one and a half."""

from typing import Final, Literal

from msgspec import Struct
from phalanx_simulator.embedded.manifests import Manifest, node

from bench.published.applications import Application, Applications
from bench.published.site import Played, Site

Order = Literal["in turn", "job by job"]
"""How the pods arrive: one pod of each job in turn, or all pods of a job before those of the next."""

ROLES: Final = {"ps": 2, "worker": 4}
NODES: Final = 3
CORES: Final = 3
WORKS_S: Final = 60.0

_PATIENCE_S: Final = 600.0


class Deadlock(Struct, frozen=True):
    """So many jobs at once."""

    jobs: int
    order: Order

    async def __call__(self, site: Site) -> Played:
        """Play it until all jobs have ended, or no job begins or ends any more."""
        await site.create_nodes(*(node(f"n{index}", gpus=0, cpu=str(CORES)) for index in range(NODES)))
        jobs = [
            Application(name=f"job-{index}", roles=ROLES, requests={"cpu": "1"}, works_s=WORKS_S)
            for index in range(self.jobs)
        ]
        applications = Applications(site, jobs)
        if site.knows_gangs:
            await site.create(*(job.group() for job in jobs))
        await site.create(*self._arriving(site, jobs))
        await applications.run(patience_s=site.patience(_PATIENCE_S))
        figures: dict[str, float | int | str] = {
            "jobs finished": f"{applications.ended} of {self.jobs}",
            "slots held by jobs that never train": applications.idle_pods,
            "seconds until the last job ended": (
                round(applications.seconds, 1) if applications.ended == self.jobs else "never"
            ),
            "pod-seconds of waiting inside a job": round(applications.idle_pod_s, 1),
        }
        return Played(figures=figures, wrong=self._wrong(applications))

    def _arriving(self, site: Site, jobs: list[Application]) -> list[Manifest]:
        members = [job.pods(site) for job in jobs]
        if self.order == "job by job":
            return [pod for pods in members for pod in pods]
        return [pod for pods in zip(*members, strict=True) for pod in pods]

    def _wrong(self, applications: Applications) -> tuple[str, ...]:
        found = []
        if applications.ended < self.jobs:
            found.append(f"only {applications.ended} of {self.jobs} jobs finished")
        if applications.idle_pods:
            found.append(f"{applications.idle_pods} pods of incomplete jobs hold slots")
        return tuple(found)
