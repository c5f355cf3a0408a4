"""Random clusters that several queues share, and a check of the order of starts.

The check follows `docs/guarantees.md` ("The order of starts"), and shares no code with the scheduler. Only
GPUs count.
"""

from collections.abc import Iterator, Sequence
from random import Random

from msgspec import Struct
from phalanx.model.reasons import Reason
from phalanx.model.resources import GPU

from tests.builders import Decided, Scenario


class Tenant(Struct, frozen=True):
    """A queue."""

    name: str
    guarantee: int
    parent: str = ""
    priority: int = 0


class Work(Struct, frozen=True):
    """A gang of `pods` pods; `on` are the nodes on which it runs, empty if it waits.

    `only`: the node that its pods require, empty for any.
    """

    name: str
    queue: str
    pods: int
    gpus: int
    priority: int = 0
    on: tuple[str, ...] = ()
    only: str = ""

    @property
    def total(self) -> int:
        return self.pods * self.gpus


class StartCase(Struct, frozen=True):
    """A cluster before one cycle."""

    nodes: dict[str, int]
    tenants: tuple[Tenant, ...]
    works: tuple[Work, ...]

    def scenario(self) -> Scenario:
        scenario = Scenario()
        for name, gpus in self.nodes.items():
            scenario.nodes(name.removesuffix("-0"), gpu=gpus)
        for tenant in self.tenants:
            guarantee = {GPU: tenant.guarantee} if tenant.guarantee else {}
            scenario.queue(tenant.name, guarantee=guarantee, parent=tenant.parent, priority=tenant.priority)
        for work in self.works:
            scenario.gang(
                work.name,
                work.pods,
                gpu=work.gpus,
                queue=work.queue,
                priority=work.priority,
                on=list(work.on),
                selector={"kubernetes.io/hostname": work.only} if work.only else {},
            )
        return scenario

    def path(self, queue: str) -> list[str]:
        """The queue and its ancestors."""
        parents = {tenant.name: tenant.parent for tenant in self.tenants}
        found = [queue]
        while parents[found[-1]]:
            found.append(parents[found[-1]])
        return found

    def side(self, queue: str, other: str) -> str:
        """The child of the lowest common ancestor on the path of the queue; empty for none."""
        shared = self.path(other)
        return next((name for name in reversed(self.path(queue)) if name not in shared), "")

    def work(self, name: str) -> Work:
        return next(each for each in self.works if each.name == name)

    def tenant(self, name: str) -> Tenant:
        return next(each for each in self.tenants if each.name == name)

    @property
    def running(self) -> list[Work]:
        return [each for each in self.works if each.on]

    def free(self) -> dict[str, int]:
        """The free GPUs before the cycle."""
        left = dict(self.nodes)
        for work in self.running:
            for node in work.on:
                left[node] -= work.gpus
        return left


# --- random cases -----------------------------------------------------------------------------------------


def start_case(chance: Random) -> StartCase:
    """Up to three nodes, two to four queues, and up to nine gangs of which some run."""
    nodes = {f"n{index}-0": chance.randint(2, 8) for index in range(chance.randint(1, 3))}
    leaves = ["a", "b", "c", "d"][: chance.randint(2, 4)]
    top = chance.random() < 0.3
    tenants = [Tenant("top", chance.randint(0, sum(nodes.values())))] if top else []
    for number, name in enumerate(leaves):
        tenants.append(
            Tenant(
                name,
                chance.randint(0, sum(nodes.values()) // 2 + 1),
                parent="top" if top and number < 2 else "",
                priority=chance.choice((0, 0, 0, 1)),
            )
        )
    case = StartCase(nodes=nodes, tenants=tuple(tenants), works=())
    works: list[Work] = []
    for number in range(chance.randint(0, 5)):
        work = _work(chance, f"r{number}", leaves)
        on = _place(work, StartCase(nodes=nodes, tenants=(), works=tuple(works)).free(), chance)
        works += [Work(work.name, work.queue, work.pods, work.gpus, work.priority, on)] if on else []
    works += [_work(chance, f"w{number}", leaves) for number in range(chance.randint(1, 4))]
    return StartCase(nodes=case.nodes, tenants=case.tenants, works=tuple(works))


def _work(chance: Random, name: str, leaves: Sequence[str]) -> Work:
    return Work(
        name,
        chance.choice(leaves),
        chance.choice((1, 1, 1, 2)),
        chance.choice((1, 1, 2, 2, 3)),
        priority=chance.choice((0, 0, 0, 1, 2)),
    )


def _place(work: Work, free: dict[str, int], chance: Random) -> tuple[str, ...]:
    """Nodes for the pods; empty if they do not fit."""
    on: list[str] = []
    for _ in range(work.pods):
        nodes = [node for node, amount in free.items() if amount >= work.gpus]
        if not nodes:
            return ()
        on.append(chance.choice(nodes))
        free[on[-1]] -= work.gpus
    return tuple(on)


# --- the check --------------------------------------------------------------------------------------------


class Order:
    """The starts of a cycle in their order, and the guarantees that it reported."""

    def __init__(self, case: StartCase, decided: Decided) -> None:
        self._case = case
        self._guarantee = {name: each.guarantee.get(GPU, 0) for name, each in decided.result.queues.items()}
        placed = dict.fromkeys(each.gang.removeprefix("gang-") for each in decided.result.placements)
        self.starts = [case.work(name) for name in placed]
        waiting = [each for each in case.works if not each.on]
        self._given_up = [each for each in waiting if decided.reasons().get(each.name) is Reason.PREEMPTED]
        self._on = {
            name: [bind.node for each in decided.placements(name) for bind in each.binds] for name in placed
        }

    def is_wrong(self, first: Work, then: Work) -> bool:
        """Whether `then` had to go before `first`, of another queue: only `then` would be covered."""
        mine, theirs = (self._case.side(*each) for each in self._queues(first, then))
        return (
            self._case.tenant(theirs).priority >= self._case.tenant(mine).priority
            and not self._is_inside(first, mine, before=first)
            and self._is_inside(then, theirs, before=first)
            and self._is_next(then, theirs, before=first)
            and self._did_fit(then, before=first)
        )

    def _did_fit(self, work: Work, *, before: Work) -> bool:
        """Whether it certainly fitted in its turn, wherever the starts were that are given up by now."""
        left = self._case.free()
        for start in self.starts[: self.starts.index(before)]:
            for node in self._on[start.name]:
                left[node] -= start.gpus
        sizes = [each.gpus for each in self._given_up for _ in range(each.pods)]
        return not self._given_up or all(_fits(work, after) for after in _fillings(left, sizes))

    @staticmethod
    def _queues(first: Work, then: Work) -> tuple[tuple[str, str], tuple[str, str]]:
        return (first.queue, then.queue), (then.queue, first.queue)

    def _before(self, start: Work) -> list[Work]:
        return [*self._case.running, *self.starts[: self.starts.index(start)]]

    def _is_inside(self, work: Work, queue: str, *, before: Work) -> bool:
        """Whether the queue would stay inside its guarantee if the gang had started before this start."""
        there = [each for each in self._before(before) if queue in self._case.path(each.queue)]
        return sum(each.total for each in (*there, work)) <= self._guarantee[queue]

    def _is_next(self, work: Work, queue: str, *, before: Work) -> bool:
        """Whether it was certainly the next gang of the queue and of those below it."""
        waiting = [
            each
            for each in self._case.works
            if queue in self._case.path(each.queue) and each not in self._before(before)
        ]
        first = min(waiting, key=lambda each: (-each.priority, self._case.works.index(each)))
        return first == work and {each.queue for each in waiting} == {work.queue}


def _fits(work: Work, left: dict[str, int]) -> bool:
    nodes = [work.only] if work.only else list(left)
    return sum(max(0, left[node]) // work.gpus for node in nodes) >= work.pods


def _fillings(left: dict[str, int], sizes: Sequence[int]) -> Iterator[dict[str, int]]:
    """What is left if pods of these sizes, or some of them, are on nodes with enough left."""
    if not sizes:
        yield left
        return
    yield from _fillings(left, sizes[1:])
    for node, amount in left.items():
        if amount >= sizes[0]:
            yield from _fillings({**left, node: amount - sizes[0]}, sizes[1:])


def disorders(case: StartCase) -> list[str]:
    """Starts that guarantees would not cover, each before one of another queue that they would cover."""
    order = Order(case, case.scenario().decide())
    return [
        f"{first.name} starts before {then.name}"
        for number, first in enumerate(order.starts)
        for then in order.starts[number + 1 :]
        if first.queue != then.queue and order.is_wrong(first, then)
    ]


def described(case: StartCase) -> str:
    """The case for a person who reads a failure."""
    return "\n".join([str(case.nodes), *map(str, case.tenants), *map(str, case.works)])
