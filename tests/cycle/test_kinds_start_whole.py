"""No gang of any kind of workload starts in parts, in whatever order its objects and pods are seen.

Kinds are listed when the scheduler asks for them, as in a cluster. After each event a cycle runs.
"""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from phalanx.cache.events import Applied, Assumed, NotListed, Relisted
from phalanx.cycle import Engine
from phalanx.deciders.port import new_cache
from phalanx.framework.config import SchedulerConfig
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.memory import Memory

from tests.cycle.kinds_of_workloads import KINDS
from tests.examples import holds
from tests.model.written import node

SECOND_MS = 1000


class Cluster:
    """An API server that serves what exists by now, and a scheduler that binds what it decides."""

    def __init__(self, *, cpu: int, forbidden: str = "") -> None:
        config = SchedulerConfig()
        self._cache, self._engine, self._memory = new_cache(config), Engine(config), Memory()
        self._forbidden = forbidden
        self._objects: list[WorkloadObject] = []
        self._listed: set[str] = set()
        self._now = 1_800_000_000_000
        self.started: set[str] = set()
        """Names of the pods that were bound."""
        self._tell(Applied(node("n", status={"allocatable": {"cpu": str(cpu), "pods": "110"}})))

    def see(self, item: Any) -> None:
        """The object exists from now on."""
        if isinstance(item, WorkloadObject):
            self._objects.append(item)
            if item.kind_name not in self._listed or item.kind_name == self._forbidden:
                return
        self._tell(Applied(item))

    def _tell(self, event: Any) -> None:
        for kind in self._cache.apply(event).workload_kinds:
            if kind not in self._listed:
                self._listed.add(kind)
                found = tuple(each for each in self._objects if each.kind_name == kind)
                self._tell(NotListed(kind, "forbidden") if kind == self._forbidden else Relisted(kind, found))

    def decide(self) -> None:
        self._now += SECOND_MS
        snapshot = self._cache.snapshot(now=self._now, seed=0, memory=self._memory)
        result = self._engine.decide(snapshot)
        self._memory = result.memory
        names = {pod.uid: pod.name for gang in snapshot.gangs.values() for pod in gang.members}
        for placement in result.placements:
            for bind in placement.binds:
                self.started.add(names[bind.pod])
                self._tell(Assumed(bind, placement.queue))


@holds(60)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    scheduler=st.sampled_from(["phalanx", ""]),
    is_enough=st.booleans(),
    data=st.data(),
)
def test_a_gang_starts_whole_or_not_at_all(
    kind: str, scheduler: str, is_enough: bool, data: st.DataObject
) -> None:
    """Where templates name no scheduler, a webhook has set it on the pods."""
    made = KINDS[kind](scheduler)
    gangs = [{pod.metadata.name for pod in gang} for gang in made.gangs]
    events = data.draw(st.permutations([*made.objects, *[pod for gang in made.gangs for pod in gang]]))
    cluster = Cluster(cpu=len(gangs[0]) - (not is_enough))
    for event in events:
        cluster.see(event)
        cluster.decide()
        for gang in gangs:
            assert cluster.started & gang in (set(), gang)
    assert sum(gang <= cluster.started for gang in gangs) == is_enough


@holds(30)
@given(kind=st.sampled_from(sorted(KINDS)), data=st.data())
def test_nothing_starts_while_a_kind_above_the_pods_cannot_be_read(kind: str, data: st.DataObject) -> None:
    made = KINDS[kind]("phalanx")
    forbidden = data.draw(st.sampled_from(sorted({item.kind_name for item in made.objects})))
    pods = [pod for gang in made.gangs for pod in gang]
    cluster = Cluster(cpu=len(pods), forbidden=forbidden)
    for event in data.draw(st.permutations([*made.objects, *pods])):
        cluster.see(event)
    cluster.decide()
    assert cluster.started == set()
