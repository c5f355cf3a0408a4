"""Random clusters that several queues share, and a check that no eviction is made that starts could avoid.

The check follows `docs/preemption.md` ("Starts of the same cycle are given up first") and
`docs/guarantees.md`, and shares no code with the scheduler. Only GPUs count. It knows the rights by priority
and by guarantees; it does not ask for starts that a gang may have given up by its fair share only.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from random import Random

from msgspec import Struct
from msgspec.structs import replace
from phalanx.model.reasons import Reason
from phalanx.model.resources import GPU

from tests.actions.start_cases import StartCase, Tenant, Work
from tests.builders import Decided

_INSTEAD = re.compile(r"its start was given up for gang team/(\S+):")

# --- random cases -----------------------------------------------------------------------------------------


def eviction_case(chance: Random) -> StartCase:
    """Up to three small nodes, one to four queues, and up to eleven gangs of which some run."""
    nodes = {f"n{index}-0": chance.randint(1, 5) for index in range(chance.randint(1, 3))}
    total, leaves = sum(nodes.values()), ["a", "b", "c", "d"][: chance.randint(1, 4)]
    top = [Tenant("top", chance.randint(0, total))] if chance.random() < 0.3 else []
    own = [
        Tenant(
            name,
            chance.choice((0, chance.randint(0, total // 2 + 1))),
            parent="top" if top and number < 2 else "",
            priority=chance.choice((0, 0, 1)),
        )
        for number, name in enumerate(leaves)
    ]
    works: list[Work] = []
    for number in range(chance.randint(0, 5)):
        free = StartCase(nodes=nodes, tenants=(), works=tuple(works)).free()
        work = _placed(_work(chance, f"r{number}", leaves), free, chance)
        works += [work] if work.on else []
    for number in range(chance.randint(1, 6)):
        only = chance.choice(("", "", "", chance.choice([*nodes])))
        works.append(replace(_work(chance, f"w{number}", leaves), only=only))
    return StartCase(nodes=nodes, tenants=(*top, *own), works=tuple(works))


def _work(chance: Random, name: str, leaves: Sequence[str]) -> Work:
    return Work(
        name,
        chance.choice(leaves),
        chance.choice((1, 1, 1, 2)),
        chance.choice((1, 1, 1, 2, 2, 3)),
        priority=chance.choice((0, 0, 0, 1, 2)),
    )


def _placed(work: Work, free: dict[str, int], chance: Random) -> Work:
    """The gang on nodes; it waits if it does not fit."""
    on: list[str] = []
    for _ in range(work.pods):
        nodes = [node for node, amount in free.items() if amount >= work.gpus]
        if not nodes:
            return work
        on.append(chance.choice(nodes))
        free[on[-1]] -= work.gpus
    return replace(work, on=tuple(on))


# --- what a cycle decided ---------------------------------------------------------------------------------


def given_up_in(decided: Decided) -> dict[str, str]:
    """By name of a gang, the one that it gave up its start for."""
    verdicts = [each for each in decided.result.verdicts if each.reason is Reason.PREEMPTED]
    found = {each.gang.removeprefix("gang-"): _INSTEAD.match(each.message) for each in verdicts}
    return {name: match.group(1) for name, match in found.items() if match}


class _For(Struct, frozen=True):
    """A gang for which others are evicted."""

    work: Work
    victims: list[Work]
    on: tuple[str, ...]
    """The nodes that it gets."""


class Outcome:
    """What a cycle decided, and the guarantees and fair shares that it reported."""

    def __init__(self, case: StartCase, decided: Decided) -> None:
        self.case = case
        reports = decided.result.queues.items()
        self._guarantee = {name: each.guarantee.get(GPU, 0) for name, each in reports}
        self._share = {name: each.fair_share.get(GPU, 0) for name, each in reports}
        self.given_up = given_up_in(decided)
        on: dict[str, tuple[str, ...]] = {}
        for placement in decided.result.placements:
            name = placement.gang.removeprefix("gang-")
            on[name] = (*on.get(name, ()), *(bind.node for bind in placement.binds))
        self.starts = [replace(case.work(name), on=nodes) for name, nodes in on.items()]
        self.evicting = list(self._evicting(decided))

    def _evicting(self, decided: Decided) -> Iterator[_For]:
        """In the order of the decisions."""
        victims: dict[str, list[Work]] = {}
        for each in decided.result.evictions:
            gone = victims.setdefault(each.beneficiary.removeprefix("team/"), [])
            victim = self.case.work(each.gang.removeprefix("gang-"))
            gone += [] if victim in gone else [victim]
        for name, gone in victims.items():
            pods = {f"{name}-{number}" for number in range(self.case.work(name).pods)}
            nodes = tuple(each.node for each in decided.result.nominations if each.name in pods)
            yield _For(self.case.work(name), gone, nodes)


class _Moment:
    """The cluster when the cycle searches victims for one gang: after the evictions for earlier gangs."""

    def __init__(self, outcome: Outcome, work: Work, before: Sequence[_For]) -> None:
        self._outcome, self._case, self._work = outcome, outcome.case, work
        gone = [victim.name for each in before for victim in each.victims]
        self._runs = [each for each in self._case.running if each.name not in gone]
        self._nominated = [replace(each.work, on=each.on) for each in before]
        instead = outcome.given_up.values()
        self._kept = [each for each in outcome.starts if each.name not in instead]
        self._fixed = [each for each in outcome.starts if each.name in instead]
        earlier = {each.work.name for each in before}
        self._gave_up = [self._case.work(name) for name, by in outcome.given_up.items() if by not in earlier]

    def entitled(self) -> list[Work]:
        """The starts that stay although the gang may have them given up."""
        return [start for start in self._kept if self._may_take(start)]

    def fits(self, entitled: Collection[Work], gone: Collection[Work] = ()) -> bool:
        """Whether the gang fits, and may start, if these starts are given up and these gangs are evicted."""
        if not self._frees_what_it_must(entitled, gone):
            return False
        left = dict(self._case.nodes)
        for each in (*self._runs, *self._nominated, *self._kept, *self._fixed):
            if each not in entitled and each.name not in [one.name for one in gone]:
                for node in each.on:
                    left[node] -= each.gpus
        nodes = [self._work.only] if self._work.only else list(left)
        return sum(max(0, left[node]) // self._work.gpus for node in nodes) >= self._work.pods

    def _frees_what_it_must(self, entitled: Collection[Work], gone: Collection[Work]) -> bool:
        """Starts that are given up beside evictions were never there; those of other queues do not matter."""
        evicted, given = (sum(each.total for each in some) for some in (gone, entitled))
        if not evicted:
            return given >= min(self._work.total, self._beyond_share())
        own = sum(each.total for each in entitled if each.queue == self._work.queue)
        return evicted >= min(self._work.total, self._beyond_share() - own)

    def _may_take(self, start: Work) -> bool:
        if start.queue == self._work.queue:
            return start.priority < self._work.priority
        mine = self._case.side(self._work.queue, start.queue)
        theirs = self._case.side(start.queue, self._work.queue)
        if not mine or not theirs or not self._is_inside(mine):
            return False
        return not any(
            start.name in self._covered(theirs, (*self._runs, *self._kept, *more))
            for more in ((), self._gave_up, self._fixed, [*self._gave_up, *self._fixed])
        )

    def _used(self, queue: str) -> int:
        """The use with all that may have been charged when the gang was considered."""
        there = (*self._runs, *self._nominated, *self._kept, *self._fixed, *self._gave_up)
        return sum(each.total for each in there if queue in self._case.path(each.queue))

    def _is_inside(self, queue: str) -> bool:
        return self._used(queue) + self._work.total <= self._outcome._guarantee[queue]

    def _beyond_share(self) -> int:
        """By how much its start brings a queue of its path above the fair share; at least 0."""
        shares, path = self._outcome._share, self._case.path(self._work.queue)
        return max(0, *(self._used(queue) + self._work.total - shares[queue] for queue in path))

    def _written(self, queue: str) -> int:
        """The guarantee of a queue as it is written, also where those of all queues do not fit together."""
        own = next(tenant.guarantee for tenant in self._case.tenants if tenant.name == queue)
        below = [tenant.name for tenant in self._case.tenants if tenant.parent == queue]
        return own or sum(map(self._written, below))

    def _covered(self, queue: str, there: Sequence[Work]) -> set[str]:
        """The gangs of these that the guarantee covers as it is written, as if all of them ran."""
        first = [
            name
            for tenant in self._case.tenants
            if tenant.parent == queue
            for name in self._covered(tenant.name, there)
        ]
        left, found = self._written(queue), set[str]()
        order = [each.name for each in self._case.works]
        below = [each for each in there if queue in self._case.path(each.queue)]
        for each in sorted(
            below, key=lambda one: (one.name not in first, -one.priority, order.index(one.name))
        ):
            if each.total <= left:
                left -= each.total
                found.add(each.name)
        return found


# --- the check --------------------------------------------------------------------------------------------


def regrets(case: StartCase) -> list[str]:
    """Evictions that starts of the cycle make unnecessary, and gangs that wait for such starts."""
    outcome = Outcome(case, case.scenario().decide())
    return [*_evictions(outcome), *_waiting(outcome)]


def _evictions(outcome: Outcome) -> Iterator[str]:
    for number, each in enumerate(outcome.evicting):
        moment = _Moment(outcome, each.work, outcome.evicting[:number])
        entitled = moment.entitled()
        for count in range(len(each.victims)) if entitled else ():
            for some in combinations(each.victims, count):
                if moment.fits(entitled, some):
                    yield (
                        f"{_names(each.victims)} evicted for {each.work.name}: {_names(some)} would do, with "
                        f"{_names(entitled)} given up"
                    )


def _waiting(outcome: Outcome) -> Iterator[str]:
    """Gangs that wait in a cycle which neither evicts nor gives a start up."""
    started = [each.name for each in outcome.starts]
    for work in outcome.case.works if not outcome.evicting and not outcome.given_up else ():
        moment = _Moment(outcome, work, ())
        entitled = moment.entitled() if not work.on and work.name not in started else []
        if entitled and moment.fits(entitled):
            yield f"{work.name} waits for one of {_names(entitled)}"


def _names(works: Collection[Work]) -> list[str]:
    return [each.name for each in works]
