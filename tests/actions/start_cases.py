"""Random clusters that several queues share, and an exhaustive search for evictions that were not necessary.

It follows `docs/preemption.md` ("No eviction for a start of the same cycle") and `docs/guarantees.md`, and
shares no code with the scheduler. Only GPUs count.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from random import Random

from msgspec import Struct
from phalanx.model.resources import GPU

from tests.builders import Decided, Scenario


class Tenant(Struct, frozen=True):
    """A queue."""

    name: str
    guarantee: int
    parent: str = ""
    priority: int = 0


class Work(Struct, frozen=True):
    """A gang of `pods` pods; `on` are the nodes on which it runs, empty if it waits."""

    name: str
    queue: str
    pods: int
    gpus: int
    priority: int = 0
    on: tuple[str, ...] = ()

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


class Outcome:
    """What a cycle decided, and the guarantees that it reported."""

    def __init__(self, case: StartCase, decided: Decided) -> None:
        self.case = case
        names = dict.fromkeys(each.removeprefix("gang-") for each in self._started(decided))
        self.starts = [case.work(name) for name in names]
        """In the order of the decisions."""
        self.nodes: dict[str, list[str]] = {}
        """The nodes of the pods of each start."""
        for placement in decided.result.placements:
            nodes = self.nodes.setdefault(placement.gang.removeprefix("gang-"), [])
            nodes += [bind.node for bind in placement.binds]
        self.guarantee = {name: each.guarantee.get(GPU, 0) for name, each in decided.result.queues.items()}
        self.victims: dict[str, list[Work]] = {}
        """By beneficiary, the gangs that are evicted for it."""
        for eviction in decided.result.evictions:
            beneficiary = eviction.beneficiary.removeprefix("team/")
            gone = self.victims.setdefault(beneficiary, [])
            victim = case.work(eviction.gang.removeprefix("gang-"))
            if victim not in gone:
                gone.append(victim)

    @staticmethod
    def _started(decided: Decided) -> Iterator[str]:
        return (each.gang for each in decided.result.placements)

    @property
    def waiting(self) -> list[Work]:
        """The gangs that wait, and for which nothing is evicted."""
        return [
            each
            for each in self.case.works
            if not each.on and each not in self.starts and each.name not in self.victims
        ]

    def used(self, queue: str, works: Sequence[Work]) -> int:
        return sum(each.total for each in works if queue in self.case.path(each.queue))

    def covered(self, queue: str) -> list[Work]:
        """The starts that stay inside the guarantee of this queue, after all that runs, in their order."""
        used, found = self.used(queue, self.case.running), list[Work]()
        for start in self.starts:
            if queue in self.case.path(start.queue) and used + start.total <= self.guarantee[queue]:
                used += start.total
                found.append(start)
        return found

    def is_inside(self, work: Work, queue: str) -> bool:
        """Whether the gang would stay inside the guarantee of the queue."""
        there = [each for each in (*self.case.running, *self.starts) if each != work]
        return self.used(queue, there) + work.total <= self.guarantee[queue]

    def may_displace(self, work: Work, start: Work) -> bool:
        """Whether the waiting gang goes before this start of the cycle; fair shares are left out."""
        if start.queue == work.queue:
            return start.priority < work.priority
        mine, theirs = self.case.side(work.queue, start.queue), self.case.side(start.queue, work.queue)
        return self.is_inside(work, mine) and start not in self.covered(theirs)

    def were_avoidable(self, some: Sequence[Work]) -> bool:
        """Whether these gangs could have started without an eviction for any of them.

        All starts stay that none of them may displace, on any nodes; so do the evictions for other gangs.
        """
        others = [self.case.work(name) for name in self.victims if self.case.work(name) not in some]
        gone = [victim for other in others for victim in self.victims[other.name]]
        return _fit_in_turn(
            _sizes([*self._kept(some), *some]),
            _sizes(others),
            _amounts(self.case.free()),
            self._freed_by(gone),
        )

    def is_due_to_starts(self, victim: Work, work: Work) -> bool:
        """Whether the other victims are enough, but not beside the starts that the gang may displace.

        All other starts stay on their nodes.
        """
        return self._is_enough_without(victim, self._kept([work])) and not self._is_enough_without(
            victim, self.starts
        )

    def _is_enough_without(self, victim: Work, kept: Sequence[Work]) -> bool:
        free = self.case.free()
        for start in kept:
            for node in self.nodes[start.name]:
                free[node] -= start.gpus
        gone = [each for some in self.victims.values() for each in some if each != victim]
        wanted = [self.case.work(name) for name in self.victims]
        return _fit_in_turn((), _sizes(wanted), _amounts(free), self._freed_by(gone))

    def _kept(self, some: Sequence[Work]) -> list[Work]:
        return [each for each in self.starts if not any(self.may_displace(work, each) for work in some)]

    def _freed_by(self, gone: Sequence[Work]) -> "Amounts":
        freed = dict.fromkeys(self.case.nodes, 0)
        for victim in gone:
            for node in victim.on:
                freed[node] += victim.gpus
        return _amounts(freed)


def _amounts(by_node: dict[str, int]) -> "Amounts":
    return tuple(by_node.items())


def _sizes(works: Sequence[Work]) -> tuple[int, ...]:
    return tuple(sorted((each.gpus for each in works for _ in range(each.pods)), reverse=True))


Amounts = tuple[tuple[str, int], ...]


@lru_cache(maxsize=50_000)
def _fit_in_turn(now: tuple[int, ...], then: tuple[int, ...], free: Amounts, later: Amounts) -> bool:
    """Whether the sizes `now` fit into what is free, and those of `then` into the rest with what is freed."""
    if not now and not any(amount for _, amount in later):
        return not then or _fit_in_turn(then, (), free, later)
    if not now:
        freed = dict(later)
        more = tuple((node, amount + freed[node]) for node, amount in free)
        return _fit_in_turn(then, (), more, tuple((node, 0) for node, _ in free))
    return any(
        _fit_in_turn(now[1:], then, (*free[:index], (node, amount - now[0]), *free[index + 1 :]), later)
        for index, (node, amount) in enumerate(free)
        if amount >= now[0]
    )


# --- random cases -----------------------------------------------------------------------------------------


def start_case(chance: Random) -> StartCase:
    """Up to three nodes, two to four queues, and up to nine gangs of which some run."""
    nodes = {f"n{index}-0": chance.randint(1, 4) for index in range(chance.randint(1, 3))}
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


def regrets(case: StartCase) -> list[str]:
    """Evictions that were not necessary, and gangs that wait for starts which they go before."""
    outcome = Outcome(case, case.scenario().decide())
    return [*_evictions(outcome), *_passed(outcome)]


def _evictions(outcome: Outcome) -> Iterator[str]:
    beneficiaries = [outcome.case.work(name) for name in outcome.victims]
    for work in beneficiaries:
        victims = outcome.victims[work.name]
        for victim in victims if len(victims) > 1 else ():
            if outcome.is_due_to_starts(victim, work):
                yield f"{victim.name} is evicted too for {work.name}, started: {_names(outcome.starts)}"
    for count in range(1, len(beneficiaries) + 1):
        for some in combinations(beneficiaries, count):
            if outcome.were_avoidable(some):
                gone = [victim.name for each in some for victim in outcome.victims[each.name]]
                yield f"{gone} evicted for {_names(some)}, started: {_names(outcome.starts)}"


def _passed(outcome: Outcome) -> Iterator[str]:
    for work in outcome.waiting if not outcome.victims else ():
        displaced = [each for each in outcome.starts if outcome.may_displace(work, each)]
        if displaced and outcome.were_avoidable([work]):
            yield f"{work.name} waits for one of {_names(displaced)}"


def _names(works: Collection[Work]) -> list[str]:
    return [each.name for each in works]


def described(case: StartCase) -> str:
    """The case for a person who reads a failure."""
    return "\n".join([str(case.nodes), *map(str, case.tenants), *map(str, case.works)])
