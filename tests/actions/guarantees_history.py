"""Histories of small clusters with constant demand, and how they contradict docs/guarantees.md."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import permutations

from msgspec import Struct
from msgspec.structs import replace

from tests.actions.guarantees_cases import MINUTE, Case, begin, world_of
from tests.actions.guarantees_exchanges import (
    Request,
    Share,
    Shares,
    fair_shares,
    gentler,
    held_not_preemptible,
    may_evict,
    promised_by_coverage,
    promised_by_share,
    replaces_enough,
)
from tests.actions.guarantees_oracle import COUNTED, Unit, Work, World
from tests.builders import Decided, Scenario

LONG = 40
"""Cycles, a minute each, within which evictions must end."""

REST = 5
"""Cycles without a change that show it: no minimum run time is longer."""


class Finding(Struct, frozen=True):
    """A contradiction: which property, and what happened."""

    property: str
    text: str


class Cycle(Struct, frozen=True):
    """What a cycle decided. `before`: with the gangs that it placed, before it evicted."""

    before: World
    unplaced: World
    evicted: Mapping[str, list[str]]
    """UIDs of pods by the name of the beneficiary, in order."""
    requests: Mapping[str, Request]
    shares: Shares
    preempted: Mapping[str, str]
    decided: Decided


class History:
    """Plays a case. `started`: the cycle in which each gang began to run."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.cycles: list[Cycle] = []
        self.log: list[str] = []
        self.started: dict[str, int] = {}
        self.is_at_rest = False
        self._nominated: dict[str, int] = {}

    def play(self, cycles: int = LONG) -> "History":
        """Run cycles until nothing changes any more."""
        quiet = 0
        self.is_at_rest = False
        for number in range(len(self.cycles), len(self.cycles) + cycles):
            cycle = self._cycle(number)
            self.cycles.append(cycle)
            quiet = 0 if cycle.evicted or cycle.decided.placed() else quiet + 1
            if quiet == REST:
                self.is_at_rest = True
                break
        return self

    def _cycle(self, number: int) -> Cycle:
        scenario = self.case.scenario
        snapshot = scenario.snapshot()
        preempted = {str(k): str(v) for k, v in scenario.memory.preempted.items()}
        decided = scenario.decide()
        unplaced = world_of(snapshot, self._nominated)
        shares = shares_of(unplaced, decided)
        evicted: dict[str, list[str]] = defaultdict(list)
        for each in decided.result.evictions:
            evicted[each.beneficiary].append(each.pod)
        nominations = Counter(each.pod for each in decided.result.nominations)
        scenario.take(decided)
        for name in decided.placed():
            self._nominated.pop(f"gang-{name}", None)
            self.started.setdefault(name, number)
            self.log.append(f"cycle {number}: {name} on {decided.nodes(name)}")
        before = _with_binds(unplaced, decided.binds, self._nominated)
        works = {work.name: work for work in before.works.values()}
        requests = {}
        for name in evicted:
            work = works[name]
            asked = sum(nominations[pod.uid] for pod in work.members)
            held = len(work.held)
            requests[name] = Request(work, asked or max(1, work.minimum - held))
            self._nominated[work.id] = requests[name].pods
        for name, pods in evicted.items():
            self.log.append(f"cycle {number}: {sorted(pods)} are evicted for {name}")
        begin(scenario)
        _forget_starts(scenario)
        scenario.capacity_version += bool(evicted)
        scenario.now += MINUTE
        return Cycle(before, unplaced, evicted, requests, shares, preempted, decided)

    @property
    def end(self) -> World:
        """The state after the last cycle."""
        return world_of(self.case.scenario.snapshot())

    def protected(self, work: Work) -> str | None:
        """The gang for which this gang was evicted last."""
        return self.case.scenario.memory.preempted.get(work.id)  # type: ignore[call-overload]


def _forget_starts(scenario: Scenario) -> None:
    """A gang that was evicted whole starts again as a whole."""
    for name in scenario.gang_names:
        if not any(pod.node for pod in scenario.members(name)):
            scenario.change(name, started=False)


def _with_binds(world: World, binds: Mapping[str, str], nominated: Mapping[str, int]) -> World:
    works = [
        replace(
            work,
            members=tuple(
                replace(pod, node=binds[pod.uid]) if pod.uid in binds else pod for pod in work.members
            ),
        )
        for work in world.works.values()
    ]
    return World(world.now, [*world.machines.values()], [*world.accounts.values()], works, nominated)


def shares_of(world: World, decided: Decided) -> Shares:
    """Fair shares: computed here if one resource is requested, else as reported, rounded down."""
    used = [name for name in COUNTED if any(work.each.get(name, 0) for work in world.works.values())]
    reports = decided.result.queues
    if len(used) == 1:
        exact = fair_shares(world, used[0])
        return {
            (queue, name): _share(exact[queue], reports[queue].fair_share.get(name, 0))
            if name in used
            else Share(0, 0)
            for queue in world.accounts
            for name in COUNTED
        }
    found = {}
    for queue in world.accounts:
        for name in COUNTED:
            reported = reports[queue].fair_share.get(name, 0)
            found[queue, name] = Share(reported, reported)
    return found


def _share(exact: Fraction, reported: int) -> Share:
    """Both values, if they differ: the first cycle does not know yet what nothing could place."""
    return Share(min(int(exact), reported), max(int(exact), reported))


# --- properties -------------------------------------------------------------------------------------------


def findings(history: History) -> Iterator[Finding]:
    """Yield every contradiction."""
    yield from _guarantees(history)
    if not history.is_at_rest:
        yield Finding("finite", "evictions or starts do not end")
    yield from _twice(history)
    for cycle in history.cycles:
        yield from _allowed(cycle)
    if history.is_at_rest:
        yield from _waits_or_is_forgotten(history)


def _guarantees(history: History) -> Iterator[Finding]:
    cycle = history.cycles[-1]
    world = cycle.unplaced
    for queue in world.accounts:
        report = cycle.decided.result.queues[queue]
        for name in COUNTED:
            mine, theirs = world.guarantee(queue, name), report.guarantee.get(name, 0)
            if mine != theirs:
                yield Finding("scaled", f"guarantee of {queue}, {name}: {mine}, reported {theirs}")
            share = cycle.shares[queue, name]
            if share.low != share.high and _is_plain(world):
                yield Finding(
                    "shares", f"share of {queue}, {name}: {share}, reported {report.fair_share.get(name, 0)}"
                )


def _is_plain(world: World) -> bool:
    """Whether queues.md says exactly what is demanded: without limits, and preemptible gangs only."""
    return all(not each.limit for each in world.accounts.values()) and all(
        each.is_preemptible for each in world.works.values()
    )


def _twice(history: History) -> Iterator[Finding]:
    """A gang may be evicted again for another one that waited behind its own queue, not for the same."""
    lost: Counter[tuple[str, int, str]] = Counter()
    for cycle in history.cycles:
        pods = {pod.uid: (work, pod) for work in cycle.before.works.values() for pod in work.members}
        for name, uids in cycle.evicted.items():
            for uid in uids:
                work, pod = pods[uid]
                if work.queue != cycle.requests[name].work.queue:
                    lost[work.name, pod.index, name] += 1
    for (name, index, beneficiary), times in lost.items():
        if times > 1:
            yield Finding("twice", f"pod {index} of {name} is evicted {times} times for {beneficiary}")


def _allowed(cycle: Cycle) -> Iterator[Finding]:
    """Every beneficiary's evictions are allowed, in some order of the beneficiaries of the cycle."""
    names = list(cycle.evicted)
    orders = list(permutations(names)) if len(names) < 4 else [tuple(names), tuple(reversed(names))]
    best: list[Finding] | None = None
    for world in (cycle.before, cycle.unplaced):
        for order in orders:
            found = list(_allowed_in_order(cycle, world, order))
            if best is None or len(found) < len(best):
                best = found
            if not best:
                return
    yield from best or ()


def _allowed_in_order(cycle: Cycle, world: World, order: Sequence[str]) -> Iterator[Finding]:
    for name in order:
        request = cycle.requests[name]
        world = world.changed(nominated={request.work.id: 0})
        gone = _units(world, cycle.evicted[name])
        others = [unit for unit in gone if unit.work.queue != request.work.queue]
        if others and (why := may_evict(world, request, others, cycle.shares)):
            yield Finding("allowed", f"for {name}: {why}")
        elif not replaces_enough(world, request, gone, cycle.shares, is_strict=False):
            yield Finding("replaces", f"for {name}: it takes its queue beyond a share that others lack")
        elif len(others) == len(gone) and others and not any(world.nominated.values()):
            protected = cycle.preempted.get(request.work.id)
            if instead := gentler(world, request, others, protected, cycle.shares):
                yield Finding("gentler", f"for {name}: {_names(instead)} would keep guarantees")
        world = world.changed(without=cycle.evicted[name], nominated={request.work.id: request.pods})


def _names(units: Sequence[Unit]) -> str:
    return ", ".join(f"{unit.work.name}/{[pod.index for pod in unit.pods]}" for unit in units)


def _units(world: World, uids: Sequence[str]) -> list[Unit]:
    """The units that go."""
    gone = set(uids)
    return [unit for unit in world.all_units() if any(pod.uid in gone for pod in unit.pods)]


def _waits_or_is_forgotten(history: History) -> Iterator[Finding]:
    """Tell apart victims that are never allowed, and victims that are not searched any more."""
    found = [*_waits(history)]
    if any(each.property in ("right", "share") for each in found):
        history.log.append("everything is searched again")
        history.case.scenario.capacity_version += 1
        again = {*_waits(history.play())}
        yield from (
            each if each in again else Finding(f"{each.property} is forgotten", each.text) for each in found
        )
        return
    yield from found


def _waits(history: History) -> Iterator[Finding]:
    """What waits at the end although the page promises it capacity."""
    world, cycle = history.end, history.cycles[-1]
    for work in world.works.values():
        missing = len(work.members) - len(work.held)
        if not missing or not work.may_evict:
            continue
        is_surplus = len(work.held) >= work.minimum
        request = Request(work, 1 if is_surplus else work.minimum - len(work.held))
        if not may_start(world, request):
            continue
        protected = history.protected(work)
        kind = "surplus " if is_surplus else ""
        if world.pods_that_fit(work, world.free()) >= request.pods and world.is_within_limits(
            work, request.pods
        ):
            yield Finding(f"{kind}idle", f"{work.name} waits beside free capacity")
        elif victims := promised_by_coverage(world, request, protected, cycle.shares):
            yield Finding(f"{kind}right", f"{work.name} waits for {_names(victims)}")
        elif is_surplus:
            continue
        elif victims := promised_by_share(world, request, protected, cycle.shares):
            yield Finding("share", f"{work.name} waits for {_names(victims)}")


def may_start(world: World, request: Request) -> bool:
    """Whether the rule for gangs that are not preemptible allows the start."""
    if request.work.is_preemptible:
        return True
    return all(
        held_not_preemptible(world, queue, name, scope) + request.work.each.get(name, 0) * request.pods
        <= world.written(queue, name, scope)
        for queue in world.path(request.work.queue)
        for name in COUNTED
        for scope in world.scopes()
        if request.work.each.get(name, 0) and world.names_guarantee(queue, name, scope)
    )
