"""Which victims satisfy a claim, against every set of victims, by the words of docs/preemption.md.

The oracle shares no definitions with the product; it takes fair shares as the cycle reports them.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from phalanx.model.api.pod_groups import Disruption, DisruptionMode
from phalanx.model.resources import GPU

from tests.builders import Scenario
from tests.examples import holds

NOW = 60_000_000
"""Seconds."""
SIZE = 8
"""GPUs of a node."""
ARE_COMPARED = ("minutes", "size", "stopped", "queue", "age", "asks")


class Member(Struct, frozen=True):
    """A running pod of one gang; without requests of cores."""

    name: str
    node: str
    gpus: int
    ran: int
    """Seconds."""


class Runs(Struct, frozen=True):
    """A running gang. Members from `least` on may be evicted alone."""

    name: str
    queue: str
    priority: int
    members: tuple[Member, ...]
    least: int
    budget: bool = False
    asks_to_stay: bool = False
    is_single: bool = False
    """All members may be evicted alone."""

    @property
    def is_whole(self) -> bool:
        """Whether it is evicted as a whole only."""
        return len(self.members) == (1 if self.is_single else self.least)

    @property
    def choices(self) -> Iterator[tuple[Member, ...]]:
        """What may be evicted of it."""
        surplus = self.members if self.is_single else self.members[self.least :]
        yield from (some for count in range(len(surplus) + 1) for some in combinations(surplus, count))
        if not self.is_single:
            yield self.members


class Case(Struct, frozen=True):
    """Nodes full of gangs, and one gang of `pods` pods of `gpus` GPUs each that waits in the queue `mine`."""

    nodes: tuple[str, ...]
    running: tuple[Runs, ...]
    pods: int
    gpus: int
    priorities: dict[str, int]
    """Of queues."""
    allowed: int | None = None
    """Of one budget over the pods of gangs with `budget`."""

    @property
    def is_guaranteed(self) -> bool:
        """Whether the gang claims a guarantee of its own queue, and not the capacity of lower priorities."""
        return "mine" in self.priorities

    def scenario(self) -> Scenario:
        """For the product."""
        scenario = Scenario().nodes("n", len(self.nodes), gpu=SIZE, cpu=0)
        scenario.now = NOW * 1000
        for name, priority in self.priorities.items():
            more = {"guarantee": {GPU: self.pods * self.gpus}} if name == "mine" else {}
            scenario.queue(name, priority=priority, **more)
        for gang in self.running:
            self._add(gang, scenario)
        if self.allowed is not None:
            scenario.budget("some", self.allowed, app="some")
        queue = "mine" if self.is_guaranteed else "default"
        return scenario.gang("claim", self.pods, gpu=self.gpus, cpu=0, priority=100, queue=queue)

    def _add(self, gang: Runs, scenario: Scenario) -> None:
        first, labels = gang.members[0], {"app": "some"} if gang.budget else {}
        scenario.gang(
            gang.name,
            len(gang.members),
            min=gang.least,
            gpu=first.gpus,
            cpu=0,
            priority=gang.priority,
            queue=gang.queue,
            on=[member.node for member in gang.members],
            labels=labels,
            prefers_to_stay=gang.asks_to_stay,
            disruption=Disruption(mode=DisruptionMode.SINGLE if gang.is_single else DisruptionMode.ALL),
        )
        pods = scenario.members(gang.name)
        ran = [member.ran for member in gang.members]
        scenario.change(
            gang.name,
            members=tuple(
                replace(pod, running_since=NOW - each, bound_since=NOW - max(ran))
                for pod, each in zip(pods, ran, strict=True)
            ),
        )

    def fits(self, gone: Sequence[Member]) -> bool:
        """Whether all pods of the claim fit when these are gone."""
        left = dict.fromkeys(self.nodes, SIZE)
        names = {member.name for member in gone}
        for gang in self.running:
            for member in gang.members:
                left[member.node] -= member.gpus * (member.name not in names)
        return sum(free // self.gpus for free in left.values()) >= self.pods


class Oracle:
    """Tries every set of victims."""

    def __init__(self, case: Case, shares: dict[str, int]) -> None:
        self.case = case
        used = {gang.queue: 0 for gang in case.running}
        for gang in case.running:
            used[gang.queue] += sum(member.gpus for member in gang.members)
        self.above = {
            name: max(0, amount - shares.get(name, 0)) * 1000 // amount for name, amount in used.items()
        }
        self.classes = sorted({self.class_of(gang) for gang in case.running}, reverse=True)

    def class_of(self, gang: Runs) -> tuple[int, int]:
        """Larger ones are evicted later: priority, then how little the queue exceeds its share."""
        return gang.priority, -self.above[gang.queue]

    def sets(self) -> Iterator[tuple[tuple[Runs, tuple[Member, ...]], ...]]:
        """Every set of victims with which the claim fits."""
        for choice in product(*(list(gang.choices) for gang in self.case.running)):
            if self.case.fits([member for some in choice for member in some]):
                yield tuple(zip(self.case.running, choice, strict=True))

    def key(self, chosen: Sequence[tuple[Runs, tuple[Member, ...]]]) -> tuple[object, ...]:
        """The least key is the best."""
        losses = self.losses()
        lost = [(gang, some) for gang, some in chosen if some]
        beyond = 0
        if self.case.allowed is not None:
            beyond = max(0, sum(len(some) for gang, some in lost if gang.budget) - self.case.allowed)
        highest = max((self.class_of(gang) for gang, _ in lost), default=())
        sums = [
            tuple(
                sum(self.loss(gang, some, losses)[item] for gang, some in lost if self.class_of(gang) == each)
                for item in range(len(ARE_COMPARED))
            )
            for each in self.classes
        ]
        return (highest, beyond, sums) if self.case.is_guaranteed else (beyond, highest, sums)

    def losses(self) -> dict[str, tuple[int, ...]]:
        """Of gangs as a whole. Requests to stay exchange them among equal gangs."""
        found = {gang.name: self.plain(gang, gang.members) for gang in self.case.running}
        whole = [gang for gang in self.case.running if gang.is_whole]
        for gang in whole:
            devices = sum(member.gpus for member in gang.members)
            equal = [
                other
                for other in whole
                if (other.queue, other.priority) == (gang.queue, gang.priority)
                and sum(member.gpus for member in other.members) == devices
            ]
            if gang is equal[0]:
                names = [
                    each.name
                    for each in sorted(equal, key=lambda each: (each.asks_to_stay, found[each.name]))
                ]
                if len({each.asks_to_stay for each in equal}) > 1:
                    asking = {each.name for each in equal if each.asks_to_stay}
                    ascending = sorted(found[name] for name in names)
                    for name, loss in zip(names, ascending, strict=True):
                        found[name] = (*loss[:-1], int(name in asking))
        return found

    def loss(
        self, gang: Runs, some: tuple[Member, ...], whole: dict[str, tuple[int, ...]]
    ) -> tuple[int, ...]:
        """Of these members."""
        if len(some) == len(gang.members) and gang.is_whole:
            return whole[gang.name]
        return self.plain(gang, some)

    def plain(self, gang: Runs, some: tuple[Member, ...]) -> tuple[int, ...]:
        """Device-minutes, devices (both in eighths), gangs that stop, queue priority, age, 0, by part."""
        parts, stopped = len(some), len(some)
        if not gang.is_single:
            stopped = int(len(some) == len(gang.members))
            parts = len(gang.members) - gang.least + 1 if stopped else parts
        priorities = sorted(set(self.case.priorities.values()))
        place = (
            priorities.index(self.case.priorities[gang.queue]) if gang.queue in self.case.priorities else 0
        )
        return (
            sum(max(1, member.ran // 60) * 8 * member.gpus for member in some),
            sum(8 * member.gpus for member in some),
            stopped,
            parts * place,
            parts * max(member.ran for member in gang.members),
            0,
        )


@st.composite
def cases(draw: st.DrawFn, *, guaranteed: bool) -> Case:
    """At most seven gangs on up to three nodes."""
    nodes = tuple(f"n-{number}" for number in range(draw(st.integers(1, 3))))
    queues = ["a", "b"] if guaranteed else ["default"]
    free = dict.fromkeys(nodes, SIZE)
    running = []
    for number in range(draw(st.integers(1, 7))):
        gpus, members = draw(st.sampled_from((1, 1, 2, 4))), []
        for index in range(draw(st.sampled_from((1, 1, 2, 3)))):
            node = draw(st.sampled_from(nodes))
            if free[node] >= gpus:
                free[node] -= gpus
                ran = draw(st.sampled_from((30, 60, 61, 600, 7200)))
                members.append(Member(f"g{number}-{index}", node, gpus, ran))
        if members:
            running.append(
                Runs(
                    name=f"g{number}",
                    queue=draw(st.sampled_from(queues)),
                    priority=draw(st.sampled_from((0, 0, 1, 5))),
                    members=tuple(
                        replace(each, name=f"g{number}-{index}") for index, each in enumerate(members)
                    ),
                    least=draw(st.integers(1, len(members))) if draw(st.booleans()) else len(members),
                    budget=draw(st.booleans()),
                    is_single=draw(st.integers(0, 3)) == 0,
                    asks_to_stay=draw(st.integers(0, 3)) == 0,
                )
            )
    gpus = draw(st.sampled_from((1, 2, 4, 8)))
    pods = draw(st.integers(1, max(1, min(4, len(nodes) * SIZE // gpus))))
    priorities = (
        {"a": draw(st.integers(-1, 1)), "b": draw(st.integers(-1, 1)), "mine": 0} if guaranteed else {}
    )
    allowed = draw(st.none() | st.integers(0, 3))
    return Case(nodes, tuple(running), pods, gpus, priorities, allowed)


def disagreement(case: Case) -> str:
    """What the product decides otherwise; empty for nothing."""
    decided = case.scenario().decide()
    evicted, started = set(decided.evicted()), "claim" in decided.placed()
    reports = decided.result.queues
    oracle = Oracle(case, {str(name): report.fair_share.get(GPU, 0) for name, report in reports.items()})
    best = min((oracle.key(chosen) for chosen in oracle.sets()), default=None)
    if case.fits(()):
        return "" if started and not evicted else "evicts for a gang that fits"
    if best is None:
        return "" if not evicted else "evicts although nothing helps"
    chosen = [
        (gang, tuple(member for member in gang.members if member.name in evicted)) for gang in case.running
    ]
    key = oracle.key(chosen)
    return "" if key == best else f"{sorted(evicted)}: {key}, {best} is possible"


@given(cases(guaranteed=False))
@holds(60)
def test_the_best_victims_of_lower_priority_are_evicted(case: Case) -> None:
    assert disagreement(case) == ""


@given(cases(guaranteed=True))
@holds(60)
def test_the_best_victims_for_a_guarantee_are_evicted(case: Case) -> None:
    assert disagreement(case) == ""
