"""MPI jobs of a launcher and ten workers, of which the cluster can hold two and a part of the third.

The launcher connects to all workers 5 s after its pod runs. If one of them does not run, the launcher fails,
and its kubelet starts it again after 10 s, 20 s, 40 s, and so on. The cases differ in when its pod is
created: together with the workers, or when all of them run, as operators do that order the start.
"""

from collections.abc import Iterable
from typing import Final, Literal

from msgspec import Struct
from phalanx.model.names import LABEL_POD_GROUP, LABEL_ROLE
from phalanx_simulator.embedded.manifests import Manifest, node, pod, pod_group

from bench.published.applications import LABEL_APPLICATION, Application, Applications
from bench.published.site import Played, Pod, Site

Launched = Literal["with the workers", "after the workers"]

LAUNCHER: Final = "launcher"
WORKER: Final = "worker"
WORKERS: Final = 10
JOBS: Final = 3
NODES: Final = 6
CORES: Final = 4

_LABEL_ROLE: Final = "bench/role"
_REQUESTS: Final = {"cpu": "1"}
_WORKS_S: Final = 60.0
_CONNECTS_S: Final = 5.0
_BACKOFF_S: Final = 10.0
_BACKOFF_MOST_S: Final = 300.0
_PATIENCE_S: Final = 600.0


class MpiJobs(Struct, frozen=True):
    """So many jobs of so many workers."""

    launched: Launched
    jobs: int = JOBS
    workers: int = WORKERS
    nodes: int = NODES

    async def __call__(self, site: Site) -> Played:
        """Play it until all jobs have ended, or none starts or ends any more."""
        await site.create_nodes(*(node(f"n{index}", gpus=0, cpu=str(CORES)) for index in range(self.nodes)))
        names = [f"mpi-{index}" for index in range(self.jobs)]
        mpi = _Launchers(site, [self._application(name) for name in names], after=self._is_after)
        for name in names:
            if site.knows_gangs:
                await site.create(self._group(name))
            roles = [WORKER] * self.workers if self._is_after else [LAUNCHER, *[WORKER] * self.workers]
            await site.create(*(_pod(site, name, role, index) for index, role in enumerate(roles)))
        await mpi.run(patience_s=site.patience(_PATIENCE_S))
        figures: dict[str, float | int | str] = {
            "jobs finished": f"{mpi.ended} of {self.jobs}",
            "failed starts of launchers": mpi.failed_starts,
            "cores held by jobs that never work": mpi.idle_pods,
            "seconds until the last job ended": (
                round(mpi.seconds, 1) if mpi.ended == self.jobs else "never"
            ),
        }
        return Played(figures=figures, wrong=self._wrong(mpi))

    @property
    def _is_after(self) -> bool:
        return self.launched == "after the workers"

    def _application(self, name: str) -> Application:
        roles = {LAUNCHER: 1, WORKER: self.workers}
        return Application(name=name, roles=roles, requests=_REQUESTS, works_s=_WORKS_S)

    def _group(self, name: str) -> Manifest:
        """All pods are needed. The launcher's core is reserved where its pod is created later."""
        roles = [
            {"name": LAUNCHER, "count": 1, "requests": _REQUESTS},
            {"name": WORKER, "count": self.workers, "requests": _REQUESTS},
        ]
        start = "Reserved" if self._is_after else "Arrived"
        return pod_group(name, min_member=1 + self.workers, roles=roles, startWhen=start)

    def _wrong(self, mpi: "_Launchers") -> tuple[str, ...]:
        found = []
        if mpi.ended < self.jobs:
            found.append(f"only {mpi.ended} of {self.jobs} jobs finished")
        if mpi.failed_starts:
            found.append(f"{mpi.failed_starts} failed starts of launchers")
        return tuple(found)


class _Start(Struct):
    """The next start of a launcher, and the wait before the one after it."""

    at: float
    backoff_s: float


class _Launchers(Applications):
    """Applications that begin to work when their launcher starts and all workers run."""

    def __init__(self, site: Site, played: Iterable[Application], *, after: bool) -> None:
        super().__init__(site, played)
        self.failed_starts = 0
        self._after = after
        self._created: set[str] = set()
        self._starts: dict[str, _Start] = {}

    async def advance(self, name: str, members: list[Pod], now: float) -> None:
        """See Applications."""
        launchers = sum(each.metadata.labels[_LABEL_ROLE] == LAUNCHER for each in members)
        all_workers_run = len(members) - launchers == self.played[name].roles[WORKER]
        if self._after and all_workers_run and name not in self._created:
            self._created.add(name)
            await self.site.create(_pod(self.site, name, LAUNCHER, 0))
        if self.times[name].began is None and not self._started(name, launchers, all_workers_run, now):
            self.idle_pods += len(members)
            return
        await super().advance(name, members, now)

    def _started(self, name: str, launchers: int, all_workers_run: bool, now: float) -> bool:
        """Whether the launcher starts now and reaches all workers."""
        if not launchers:
            self._starts.pop(name, None)
            return False
        first = _Start(now + self.site.takes(_CONNECTS_S), self.site.takes(_BACKOFF_S))
        start = self._starts.setdefault(name, first)
        if now < start.at:
            return False
        if not all_workers_run:
            self.failed_starts += 1
            start.at = now + start.backoff_s
            start.backoff_s = min(2 * start.backoff_s, self.site.takes(_BACKOFF_MOST_S))
        return all_workers_run


def _pod(site: Site, name: str, role: str, index: int) -> Manifest:
    made = pod(f"{name}-{role}-{index}", scheduler=site.scheduler, requests=_REQUESTS)
    labels = {LABEL_POD_GROUP: name, LABEL_ROLE: role} if site.knows_gangs else {}
    made["metadata"]["labels"] = {**labels, LABEL_APPLICATION: name, _LABEL_ROLE: role}
    return made
