"""Applications that work only while all their pods run, as MPI and training with parameter servers do.

KWOK and the simulated kubelets run pods, but no application in them. Here an application works once all its
pods run at the same time, and its pods succeed when it has worked long enough. If it loses a pod, it begins
again.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from phalanx.model.names import LABEL_POD_GROUP, LABEL_ROLE
from phalanx_simulator.embedded.manifests import Manifest, pod, pod_group

from bench.published.site import Pod, Site

LABEL_APPLICATION: Final = "bench/application"
"""The label of a pod with the name of its application."""


class Application(Struct, frozen=True, kw_only=True):
    """`roles`: the number of pods by role; `works_s`: how long it works."""

    name: str
    roles: Mapping[str, int]
    requests: Mapping[str, str]
    works_s: float

    @property
    def size(self) -> int:
        """The number of its pods."""
        return sum(self.roles.values())

    def group(self) -> Manifest:
        """A PodGroup that needs all pods."""
        roles = [{"name": name, "count": count} for name, count in self.roles.items()]
        return pod_group(self.name, min_member=self.size, roles=roles)

    def pods(self, site: Site) -> list[Manifest]:
        """Its pods, role by role; members of its PodGroup where the scheduler knows gangs."""
        return [self._pod(site, role, index) for role, count in self.roles.items() for index in range(count)]

    def _pod(self, site: Site, role: str, index: int) -> Manifest:
        made = pod(f"{self.name}-{role}-{index}", scheduler=site.scheduler, requests=self.requests)
        labels = {LABEL_POD_GROUP: self.name, LABEL_ROLE: role} if site.knows_gangs else {}
        made["metadata"]["labels"] = {**labels, LABEL_APPLICATION: self.name}
        return made


class Times(Struct):
    """When an application began to work, last, and ended; and how often it lost a pod while it worked."""

    began: float | None = None
    ended: float | None = None
    losses: int = 0


class Applications:
    """Plays applications. `idle_pod_s`: seconds in which pods ran whose application could not work."""

    def __init__(self, site: Site, played: Iterable[Application]) -> None:
        self.site = site
        self.played = {each.name: each for each in played}
        self.times = {name: Times() for name in self.played}
        self.idle_pod_s = 0.0
        self.idle_pods = 0
        self.progress_at = self.started_at = self._looked_at = site.now()

    @property
    def ended(self) -> int:
        """How many have ended."""
        return sum(times.ended is not None for times in self.times.values())

    @property
    def seconds(self) -> float:
        """Until the last one ended, or began to work, since the start."""
        return self.progress_at - self.started_at

    def add(self, application: Application) -> None:
        """Play one more."""
        self.played[application.name] = application
        self.times[application.name] = Times()

    async def run(self, *, patience_s: float, limit_s: float = 1e9) -> None:
        """Play until all have ended, or none has started or ended for `patience_s`."""
        async for now in self.site.looks(for_s=limit_s):
            await self.look(await self.site.pods())
            if self.ended == len(self.played) or now > self.progress_at + patience_s:
                return

    async def look(self, pods: Iterable[Pod]) -> None:
        """Take notice of the pods, and end those of applications that have worked long enough."""
        running: dict[str, list[Pod]] = {name: [] for name in self.played}
        for each in pods:
            name = each.metadata.labels.get(LABEL_APPLICATION, "")
            if name in running and each.runs:
                running[name].append(each)
        now = self.site.now()
        self.idle_pods = 0
        for name, members in running.items():
            if self.times[name].ended is None:
                await self.advance(name, members, now)
        self.idle_pod_s += self.idle_pods * (now - self._looked_at)
        self._looked_at = now

    async def advance(self, name: str, members: list[Pod], now: float) -> None:
        """Take notice of the running pods of one application that has not ended."""
        application, times = self.played[name], self.times[name]
        if len(members) < application.size:
            self.idle_pods += len(members)
            times.losses += times.began is not None
            times.began = None
        elif times.began is None:
            times.began = self.progress_at = now
        elif now >= times.began + self.site.takes(application.works_s):
            times.ended = self.progress_at = now
            for each in members:
                await self.site.end(each)
