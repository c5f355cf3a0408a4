"""Random small clusters with guarantees, as a strategy and by seed; and their translation for the oracle."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from phalanx.model.api.pod_groups import Disruption
from phalanx.model.gangs import Gang
from phalanx.model.queues import Flavor, Queue
from phalanx.model.resources import CPU, GPU
from phalanx.model.snapshot import Snapshot

from tests.actions.guarantees_oracle import COUNTED, Account, Machine, Member, Work, World
from tests.builders import Scenario

MINUTE = 60_000
T = TypeVar("T")
FAST = (("group", "fast"),)


class Chooser(Protocol):
    """Chooses one of some values: hypothesis, or a random generator with a seed."""

    def __call__(self, values: Sequence[T]) -> T:
        """Return one of the values; the first ones are the simplest."""


def chooser_of_seed(seed: int) -> Chooser:
    """Choices that depend only on the seed."""
    return random.Random(seed).choice


class Kind(Struct, frozen=True):
    """Which cases are generated."""

    resources: tuple[str, ...] | None = None
    """None: any."""
    with_priorities: bool | None = None
    has_flavors: bool | None = None
    is_fitting: bool = False
    """Whether guarantees of siblings fit, by being small."""
    only_not_preemptible: bool = False
    starts_empty: bool = False
    has_guarantees: bool = True


ANY = Kind()


class Case(Struct):
    """A cluster, and how it is described in messages. `gpu` and `cpu` of a node in units."""

    scenario: Scenario
    lines: list[str]


class Builder:
    """Builds one case by choices."""

    def __init__(self, choose: Chooser, kind: Kind) -> None:
        self.choose = choose
        self.kind = kind
        self.resources = kind.resources or choose([(GPU,), (GPU, CPU), (CPU,), (GPU, CPU)])
        self.case = Case(Scenario(), [])
        self.free: dict[str, dict[str, int]] = {}
        self.whole: dict[str, dict[str, int]] = {}
        self.priorities = (0, 1, 2) if self._chance(kind.with_priorities, 2) else (0,)
        self.has_flavors = self._chance(kind.has_flavors, 6)
        self.total = 0
        self.largest = 1
        self.is_fitting = kind.is_fitting or choose([False, True])

    def _chance(self, fixed: bool | None, one_in: int) -> bool:
        return fixed if fixed is not None else self.choose([False] * (one_in - 1) + [True])

    def say(self, text: str) -> None:
        self.case.lines.append(text)

    def build(self) -> Case:
        self.nodes()
        leaves = self.queues()
        self.borrowers = (
            [self.choose(leaves), *leaves] if self.choose([False, True]) else [self.choose(leaves)]
        )
        for index in range(self.choose([2, 3, 4, 5, 6, 7])):
            self.gang(f"g{index}", leaves)
        return self.case

    def nodes(self) -> None:
        cores = self.choose([2, 4, 64]) if len(self.resources) > 1 else 1
        for index in range(self.choose([1, 2, 3])):
            amount = self.choose([4, 2, 1] if not index else [4, 2, 1, 3])
            group = self.choose(["n", "fast"]) if self.has_flavors else "n"
            has = {
                "gpu": amount if GPU in self.resources else 0,
                "cpu": amount * cores if CPU in self.resources else 1,
            }
            if len(self.resources) > 1 and self.choose([False] * 7 + [True]):
                has["gpu"] = 0
            name = f"{group}{index}"
            self.case.scenario.nodes(name, 1, labels={"group": group}, **has)
            self.whole[f"{name}-0"] = {"gpu": has["gpu"], "cpu": has["cpu"]}
            self.free[f"{name}-0"] = {"gpu": has["gpu"], "cpu": has["cpu"]}
            self.total += amount
            self.largest = max(self.largest, amount)
            self.say(f"node {name}-0: {has}")

    def queues(self) -> list[str]:
        shape = self.choose(["flat", "flat", "parent", "parents", "deep"])
        tree: dict[str, str | None] = {
            "flat": {"a": None, "b": None, "c": None},
            "parent": {"p": None, "a": "p", "b": "p", "c": None},
            "parents": {"p": None, "q": None, "a": "p", "b": "p", "c": "q", "d": "q"},
            "deep": {"top": None, "p": "top", "a": "p", "b": "p", "c": "top", "d": None},
        }[shape]
        parents = {each for each in tree.values() if each}
        if shape == "flat" and self.choose([True, False]):
            del tree["c"]
        for name, parent in tree.items():
            self.queue(name, parent, name in parents)
        return [name for name in tree if name not in parents]

    def queue(self, name: str, parent: str | None, is_parent: bool) -> None:
        fields: dict[str, Any] = {
            "guarantee": self.amounts(is_parent),
            "weight": self.choose([1, 1, 2, 3]),
            "reclaim_min_runtime_ms": self.choose([0] * 9 + [3]) * MINUTE,
        }
        if self.choose([False] * 8 + [True]):
            what = self.choose(self.resources)
            fields["limit"] = {what: self.choose(range(1, self.total + 1)) * self.unit(what)}
        if self.has_flavors and self.choose([True, False]):
            fields["flavors"] = [Flavor("fast", FAST, guarantee=self.amounts(False))]
        self.say(f"queue {name} below {parent}: {fields}")
        self.case.scenario.queue(name, parent=parent, **fields)

    def amounts(self, is_parent: bool) -> dict[str, int]:
        found: dict[str, int] = {}
        for what in self.resources if self.kind.has_guarantees else ():
            most = max(1, self.total // 2) if self.is_fitting else self.total + 1
            if self.choose([True, True, True, False] if not is_parent else [True, False, False]):
                found[what] = self.choose([*range(most + 1), *range(1, most + 1)]) * self.unit(what)
        return found

    def unit(self, what: str) -> int:
        return 1 if what == GPU else 1000

    def gang(self, name: str, leaves: Sequence[str]) -> None:
        count = self.choose([1, 2, 1, 3, 1, 2, 4, 6])
        each = self.each()
        groups = sorted({node[:-3] for node in self.whole})
        flavored = self.has_flavors and self.choose([True, False])
        selector = {"group": self.choose(groups)} if flavored else {}
        if not self.choose([False] * 11 + [True]):
            count = max(1, min(count, self.pods_that_fit(each, selector)))
        least = count if self.choose([True, True, False]) else self.choose(range(1, count + 1))
        priority = self.choose(self.priorities)
        disruption = Disruption(
            preemptible=False
            if self.kind.only_not_preemptible or self.choose([False] * 9 + [True])
            else None,
            mode=self.choose([None] * 7 + ["Single"]),
            min_runtime=self.choose(["0m"] * 11 + ["3m"]),
        )
        is_shy = self.choose([False] * 11 + [True])
        if disruption.preemptible is False and not self.kind.only_not_preemptible:
            on: list[str] = []
        else:
            on = self.place(count, least, each, selector)
        queue = self.choose(self.borrowers if on else leaves)
        self.case.scenario.gang(
            name,
            count,
            min=least,
            gpu=each.get("gpu", 0),
            cpu=each.get("cpu", 0),
            memory=0,
            queue=queue,
            priority=priority,
            on=on,
            disruption=disruption,
            selector=selector,
            **({"preemption_policy": "Never"} if is_shy else {}),
        )
        since = self.choose([0, 60, 120]) if on else 0
        marks = [
            *(["Single"] if disruption.mode else []),
            *(["not preemptible"] if disruption.preemptible is False else []),
            *(["preempts nobody"] if is_shy else []),
        ]
        self.say(
            f"{name}: {least} of {count} pods of {each} in {queue}, priority {priority}, "
            f"on {on} since -{since} s, minimum run time {disruption.min_runtime}, {selector} {marks}"
        )
        begin(self.case.scenario, self.case.scenario.now // 1000 - since)

    def pods_that_fit(self, each: Mapping[str, int], selector: Mapping[str, str]) -> int:
        """How many such pods fit on the empty nodes."""
        return sum(
            min(has[what] // amount for what, amount in each.items() if amount)
            for node, has in self.whole.items()
            if not selector or node.startswith(selector["group"])
        )

    def each(self) -> dict[str, int]:
        gpus = self.choose([1, 1, min(2, self.largest), self.largest]) if GPU in self.resources else 0
        most = self.largest if len(self.resources) == 1 else 4
        cores = self.choose([1, 1, min(2, most), most]) if CPU in self.resources else 0
        if len(self.resources) > 1:
            gpus, cores = self.choose([(gpus, cores)] * 4 + [(0, cores), (gpus, 4 * cores)])
        return {"gpu": gpus, "cpu": cores}

    def place(
        self, count: int, least: int, each: Mapping[str, int], selector: Mapping[str, str]
    ) -> list[str]:
        """Put the gang where capacity is free, or leave it waiting. The first gangs mostly run."""
        on: list[str] = []
        if self.kind.starts_empty or self.choose([False, True, True]):
            return []
        for node in sorted(self.free, reverse=self.choose([False, True])):
            while (
                len(on) < count
                and (not selector or node.startswith(selector["group"]))
                and all(self.free[node][what] >= amount for what, amount in each.items())
            ):
                on.append(node)
                for what, amount in each.items():
                    self.free[node][what] -= amount
        if len(on) < least:
            for node in on:
                for what, amount in each.items():
                    self.free[node][what] += amount
            return []
        return on


def begin(scenario: Scenario, since: int | None = None) -> None:
    """Set the start time of pods that have got a node since the last call."""
    at = scenario.now // 1000 if since is None else since
    for name, gang in scenario._gangs.items():
        members = tuple(
            replace(pod, running_since=(pod.running_since or at) if pod.node else 0) for pod in gang.members
        )
        scenario.change(name, members=members)


def make_case(choose: Chooser, kind: Kind = ANY) -> Case:
    """Build a case by these choices."""
    return Builder(choose, kind).build()


@st.composite
def cases(draw: st.DrawFn, kind: Kind = ANY) -> Case:
    """Cases as a strategy."""
    return make_case(lambda values: draw(st.sampled_from(list(values))), kind)


# --- for the oracle ---------------------------------------------------------------------------------------


def world_of(snapshot: Snapshot, nominated: Mapping[str, int] | None = None) -> World:
    """Copy what the oracle reads."""
    machines = [
        Machine(name, dict(state.node.labels), dict(state.node.allocatable))
        for name, state in snapshot.nodes.items()
    ]
    accounts = [_account(queue) for queue in snapshot.queues.values()]
    return World(
        snapshot.now, machines, accounts, [_work(gang) for gang in snapshot.gangs.values()], nominated
    )


def _account(queue: Queue) -> Account:
    return Account(
        name=queue.name,
        parent=queue.parent,
        weight=queue.weight,
        guarantee=dict(queue.guarantee),
        limit=dict(queue.limit),
        flavors={flavor.node_selector: dict(flavor.guarantee) for flavor in queue.flavors},
        reclaim_min_runtime_ms=queue.reclaim_min_runtime_ms,
    )


def _work(gang: Gang) -> Work:
    shape = gang.members[0].shape
    return Work(
        id=gang.id,
        name=f"{gang.namespace}/{gang.name}",
        queue=gang.queue,
        priority=gang.priority,
        created=gang.created,
        minimum=gang.min_member,
        each={name: shape.requests.get(name, 0) for name in COUNTED},
        selector=tuple(shape.node_selector),
        members=tuple(
            Member(pod.uid, pod.index or 0, pod.node, pod.running_since if pod.node else 0)
            for pod in gang.members
        ),
        is_single=gang.disruption.mode == "Single",
        is_preemptible=gang.disruption.preemptible is not False,
        may_evict=gang.preemption_policy != "Never",
        min_runtime_ms=gang.disruption.min_runtime_ms,
    )
