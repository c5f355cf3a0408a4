"""Which evictions for gangs of other queues docs/guarantees.md allows and promises; see the oracle."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product

from msgspec import Struct

from tests.actions.guarantees_oracle import ALL_NODES, COUNTED, DEVICES, Coverage, Scope, Unit, Work, World
from tests.actions.guarantees_scaling import in_units

SEARCHED = 9
"""Units among which all subsets are tried."""


class Share(Struct, frozen=True):
    """Bounds of a fair share, in whole units: equal if it was computed here and reported."""

    low: int
    high: int


Shares = Mapping[tuple[str, str], Share]
"""By queue and resource."""


def fair_shares(world: World, name: str) -> dict[str, Fraction]:
    """Fair shares of a cluster in which only one resource is requested, in whole units on each level."""
    found: dict[str, Fraction] = {}
    _fill(world, None, Fraction(world.capacity(name)), name, found)
    return found


def _fill(world: World, parent: str | None, total: Fraction, name: str, found: dict[str, Fraction]) -> None:
    children = world.children(parent)
    wants = {child: Fraction(_wanted(world, child, name)) for child in children}
    got = {child: min(wants[child], Fraction(world.guarantee(child, name))) for child in children}
    left = total - sum(got.values())
    open_ = [child for child in children if got[child] < wants[child]]
    while left > 0 and open_:
        weights = sum(world.accounts[child].weight for child in open_)
        rise = min(
            left / weights, *((wants[child] - got[child]) / world.accounts[child].weight for child in open_)
        )
        for child in open_:
            got[child] += rise * world.accounts[child].weight
        left -= rise * weights
        open_ = [child for child in open_ if got[child] < wants[child]]
    claims = [world.claim(child, name) for child in children]
    for child, amount in zip(children, in_units([*got.values()], claims), strict=True):
        found[child] = Fraction(amount)
        _fill(world, child, found[child], name, found)


def _wanted(world: World, queue: str, name: str) -> int:
    total = sum(_wanted(world, child, name) for child in world.children(queue))
    for work in world.works.values():
        if work.queue == queue:
            held = len(work.held)
            waits = work.minimum if held < work.minimum and world.could_ever_start(work) else held
            total += work.each.get(name, 0) * waits
    return min(total, world.accounts[queue].limit.get(name, total))


class Request(Struct, frozen=True):
    """A gang with the number of its pods that wait to start together."""

    work: Work
    pods: int


def is_untouchable(world: World, unit: Unit, request: Request, protected: str | None = None) -> bool:
    """Whether no rule lets this gang evict it for another queue. `protected`: a gang it must not evict."""
    work = unit.work
    runtime = max(
        work.min_runtime_ms,
        *(world.accounts[queue].reclaim_min_runtime_ms for queue in world.path(work.queue)),
    )
    since = [pod.since for pod in work.held if pod.since]
    return (
        work.queue == request.work.queue
        or (not work.is_preemptible and names_what_it_uses(world, work))
        or work.id == protected
        or (bool(since) and runtime > 0 and min(since) * 1000 + runtime > world.now)
    )


def names_what_it_uses(world: World, work: Work) -> bool:
    """Whether a guarantee on its path names a resource that the gang uses."""
    return any(
        world.names_guarantee(queue, name, scope)
        for queue in world.path(work.queue)
        for name in COUNTED
        for scope in world.scopes()
        if work.each.get(name, 0)
    )


def is_kept(world: World, work: Work, other: str) -> bool:
    """Whether a gang that is not preemptible is surely protected from a gang of the other queue.

    All such gangs fit what is written, and below the common ancestor a device that it uses is guaranteed, or
    anything if it uses none.
    """
    uses = [name for name in COUNTED if work.each.get(name, 0)]
    devices = [name for name in uses if name in DEVICES]
    return any(
        world.names_guarantee(queue, name) and world.written(queue, name)
        for queue in world.own_path(work.queue, other)
        for name in devices or uses
    ) and all(
        held_not_preemptible(world, queue, name, scope) <= world.written(queue, name, scope)
        for queue in world.path(work.queue)
        for name in COUNTED
        for scope in world.scopes()
        if work.each.get(name, 0) and world.names_guarantee(queue, name, scope)
    )


def held_not_preemptible(world: World, queue: str, name: str, scope: Scope = ALL_NODES) -> int:
    """What gangs hold that are not preemptible."""
    return sum(
        work.each.get(name, 0)
        for work in world.below(queue)
        if not work.is_preemptible
        for pod in work.held
        if pod.node and world.matches(pod.node, scope)
    )


def degrees(world: World, request: Request, unit: Unit, shares: Shares) -> list[tuple[Coverage, Coverage]]:
    """The coverage of the request and of the unit, under each reading of what is short and of shares."""
    there = unit.work.queue
    return [
        (
            _coverage(world, request, there, short, shares, is_strict),
            world.coverage(unit, request.work, short),
        )
        for short in world.short_sets(request.work, there)
        for is_strict in (True, False)
    ]


def _coverage(
    world: World, request: Request, other: str, short: frozenset[str], shares: Shares, is_strict: bool
) -> Coverage:
    """Coverage in part counts only within the fair shares of what is not covered."""
    work, pods = request.work, request.pods
    found = world.coverage_waiting(work, pods, other, short)
    side = world.side(work.queue, other)
    for name in short if found == Coverage.PARTIAL else ():
        if work.each.get(name, 0) and not world.is_covered_waiting(work, pods, side, name):
            for queue in world.own_path(work.queue, other):
                share = shares[queue, name]
                after = world.use(queue, name) + work.each[name] * pods
                if after > (share.low if is_strict else share.high):
                    return Coverage.NONE
    return found


def must_replace(world: World, request: Request, shares: Shares, *, is_strict: bool) -> dict[str, int]:
    """What its victims must free at least, since it takes its queues above shares that others lack.

    Strictly, under every reading. A gang with coverage is free of this.
    """
    work, found = request.work, dict[str, int]()
    for queue in world.path(work.queue):
        parent = world.accounts[queue].parent
        for other in world.children(parent):
            if other == queue:
                continue
            sets = world.short_sets(work, other)
            covered = [
                _coverage(world, request, other, short, shares, strict) > Coverage.NONE
                for short in sets
                for strict in (True, False)
            ]
            if all(covered) or (any(covered) and not is_strict):
                return {}
            for name in COUNTED:
                asked = work.each.get(name, 0) * request.pods
                share, theirs = shares[queue, name], shares[other, name]
                is_short = [name in each for each in sets]
                is_short_somehow = any(is_short) if is_strict else all(is_short)
                lacks = world.use(other, name, with_nominated=not is_strict) < (
                    theirs.high if is_strict else theirs.low
                )
                beyond = world.use(queue, name, with_nominated=is_strict) + asked
                beyond -= share.low if is_strict else share.high
                if asked and is_short_somehow and lacks and beyond > 0:
                    found[name] = max(found.get(name, 0), min(asked, beyond))
    return found


def replaces_enough(
    world: World, request: Request, gone: Sequence[Unit], shares: Shares, *, is_strict: bool
) -> bool:
    """Whether the victims, of its own queue and of others, free what they must."""
    return all(
        sum(unit.work.each.get(name, 0) * len(unit.pods) for unit in gone) >= amount
        for name, amount in must_replace(world, request, shares, is_strict=is_strict).items()
    )


def may_evict(world: World, request: Request, gone: Sequence[Unit], shares: Shares) -> str:
    """Return why the page does not allow it; empty if it does under some reading."""
    rest = []
    for unit in gone:
        found = degrees(world, request, unit, shares)
        by_share = any(mine == Coverage.NONE for mine, _ in found)
        if not by_share and all(theirs == Coverage.FULL for _, theirs in found):
            return f"{unit.work.name} is covered fully"
        if not unit.work.is_preemptible and is_kept(world, unit.work, request.work.queue):
            return f"{unit.work.name} is not preemptible"
        if not any(mine > theirs for mine, theirs in found):
            if not by_share:
                return f"{unit.work.name} is not covered less: {found}"
            rest.append(unit)
    if not rest:
        return ""
    for part in _by_ancestor(world, request, rest):
        readings = list(_counted(world, request, part, is_strict=False))
        found = [_breach(world, request, part, gone, shares, each, is_strict=False) for each in readings]
        if all(found):
            return "neither coverage nor fair shares allow it: " + "; ".join(found)
    return ""


def _by_ancestor(world: World, request: Request, gone: Sequence[Unit]) -> list[list[Unit]]:
    """The units by the lowest common ancestor of their queue and that of the request."""
    found: dict[str, list[Unit]] = defaultdict(list)
    for unit in gone:
        found[world.side(request.work.queue, unit.work.queue)].append(unit)
    return list(found.values())


Counted = tuple[frozenset[str], frozenset[str]]
"""The resources that count on the side that waits, and on the side that loses."""


def _counted(world: World, request: Request, gone: Sequence[Unit], *, is_strict: bool) -> Iterator[Counted]:
    """Yield each reading of the resources that count for fair shares.

    Beyond a limit of its own, a resource counts for a queue although it is not short; strictly, it does not.
    """
    asked = [name for name in COUNTED if request.work.each.get(name, 0)]
    here = _options(world, request, gone, [request.work.queue])
    if is_strict:
        for choice in product(*(sorted(here[0][name]) for name in asked)):
            same = frozenset(name for name, counts in zip(asked, choice, strict=True) if counts)
            yield same, same
        return
    there = _options(world, request, gone, [unit.work.queue for unit in gone])
    for mine in product(*(sorted(here[1][name]) for name in asked)):
        for theirs in product(*(sorted(there[1][name]) for name in asked)):
            yield (
                frozenset(name for name, counts in zip(asked, mine, strict=True) if counts),
                frozenset(name for name, counts in zip(asked, theirs, strict=True) if counts),
            )


Options = Mapping[str, set[bool]]


def _options(
    world: World, request: Request, gone: Sequence[Unit], queues: Sequence[str]
) -> tuple[Options, Options]:
    """Whether a resource counts: by shortness alone, and with limits of these queues and their ancestors."""
    short: dict[str, set[bool]] = {name: set() for name in COUNTED}
    for unit in gone:
        for each in world.short_sets(request.work, unit.work.queue):
            for name in COUNTED:
                short[name].add(name in each)
    with_limits = {name: set(found) for name, found in short.items()}
    for queue in queues:
        for each in world.path(queue):
            for name in world.accounts[each].limit:
                with_limits[name].add(True)
    return short, with_limits


def _lost(world: World, gone: Iterable[Unit], queue: str, name: str) -> int:
    return sum(
        unit.work.each.get(name, 0) * len(unit.pods) for unit in gone if queue in world.path(unit.work.queue)
    )


def _loses_what_it_keeps(
    world: World, gone: Sequence[Unit], queue: str, counted: Sequence[str], *, is_strict: bool
) -> bool:
    """Whether less runs than a guarantee of the queue covered, of a priority and those above.

    Of cores alone, devices count as well: of what is covered in all that counts, strictly of everything.
    """
    units = [unit for unit in world.all_units() if queue in world.path(unit.work.queue)]
    gone_keys = {unit.key for unit in gone}
    for scope, name in product(world.scopes(), COUNTED):
        kept = [
            unit
            for unit in units
            if unit.work.each.get(name, 0)
            and _is_kept_by(world, unit, queue, name, scope)
            and (
                name in counted
                or (
                    name in DEVICES
                    and not any(each in DEVICES for each in counted)
                    and (is_strict or _is_kept_in_all(world, unit, queue, counted))
                )
            )
        ]
        for least in {unit.work.priority for unit in kept}:
            left = [unit for unit in units if unit.key not in gone_keys and unit.work.priority >= least]
            covered = [unit for unit in kept if unit.work.priority >= least]
            if _held_on(world, left, name, scope) < _held_on(world, covered, name, scope):
                return True
    return False


def _is_kept_by(world: World, unit: Unit, queue: str, name: str, scope: Scope) -> bool:
    """Whether this guarantee covers the unit, or the unit is beside devices that one covers."""
    inside = all(pod.node and world.matches(pod.node, scope) for pod in unit.pods)
    return (inside and unit.key in world.covered(queue, name, scope)) or (
        scope == ALL_NODES and world.is_carried(unit, queue, name)
    )


def _is_kept_in_all(world: World, unit: Unit, queue: str, counted: Sequence[str]) -> bool:
    return all(
        world.is_covered(unit, queue, name) or world.is_carried(unit, queue, name)
        for name in counted
        if unit.work.each.get(name, 0)
    )


def _held_on(world: World, units: Sequence[Unit], name: str, scope: Scope) -> int:
    return sum(
        unit.work.each.get(name, 0)
        for unit in units
        for pod in unit.pods
        if pod.node and world.matches(pod.node, scope)
    )


def _breach(
    world: World,
    request: Request,
    by_share: Sequence[Unit],
    gone: Sequence[Unit],
    shares: Shares,
    counted: Counted,
    *,
    is_strict: bool,
) -> str:
    """Return the condition of the exchange that is not met; empty if all are."""
    mine = {queue for unit in by_share for queue in world.own_path(request.work.queue, unit.work.queue)}
    theirs = {queue for unit in by_share for queue in world.own_path(unit.work.queue, request.work.queue)}
    if not counted[1] or (is_strict and not counted[0]):
        return "no resource counts"
    for queue in mine:
        for name in counted[0]:
            share = shares[queue, name]
            if not world.use(queue, name) < (share.low if is_strict else share.high):
                return f"{queue} is not below its share of {name}"
    for queue in theirs:
        names = [name for name in COUNTED if is_strict or name in counted[1]]
        names = [name for name in names if request.work.each.get(name, 0)]
        if _loses_what_it_keeps(world, gone, queue, names, is_strict=is_strict):
            return f"{queue} keeps less than its guarantee covered of {names}"
    exchange = _Exchange(world, request, gone, shares, counted, mine, theirs, is_strict=is_strict)
    first, second = _breach_of_first(exchange), _breach_of_second(exchange)
    return f"{first} and {second}" if first and second else ""


class _Exchange(Struct, frozen=True):
    """An exchange by fair shares: the queues that gain and those that lose, under one reading of the page."""

    world: World
    request: Request
    gone: Sequence[Unit]
    shares: Shares
    counted: Counted
    mine: set[str]
    theirs: set[str]
    is_strict: bool


def _breach_of_first(exchange: _Exchange) -> str:
    """The waiting side stays within its share; only the last gang may bring a loser below."""
    world, gone, is_strict = exchange.world, exchange.gone, exchange.is_strict
    for queue in exchange.mine:
        for name in exchange.counted[0]:
            share = exchange.shares[queue, name]
            after = world.use(queue, name) + exchange.request.work.each.get(name, 0) * exchange.request.pods
            if after > (share.low if is_strict else share.high):
                return f"{queue} would be above its share of {name}"
    for queue in exchange.theirs:
        above = []
        for name in exchange.counted[1]:
            share = exchange.shares[queue, name]
            left = world.use(queue, name, with_nominated=not is_strict) - _lost(world, gone, queue, name)
            above.append(
                left + _largest(world, gone, queue, name, is_strict)
                > (share.high if is_strict else share.low)
            )
        if not (all(above) if is_strict else any(above)):
            return f"{queue} was not above its share before the last gang"
    return ""


def _largest(world: World, gone: Sequence[Unit], queue: str, name: str, is_strict: bool) -> int:
    """The most that the last evicted gang can have held; strictly, only the last unit."""
    amounts: dict[object, int] = defaultdict(int)
    for unit in gone:
        if queue in world.path(unit.work.queue):
            amounts[unit.key if is_strict else unit.work.id] += unit.work.each.get(name, 0) * len(unit.pods)
    return max(amounts.values(), default=0)


def _breach_of_second(exchange: _Exchange) -> str:
    """No loser is below its share."""
    world, gone, is_strict = exchange.world, exchange.gone, exchange.is_strict
    for queue in exchange.theirs:
        for name in exchange.counted[1]:
            lost = _lost(world, gone, queue, name)
            if not lost and not is_strict:
                continue
            share = exchange.shares[queue, name]
            left = world.use(queue, name, with_nominated=not is_strict) - lost
            if is_strict and world.use(queue, name, with_nominated=False) <= share.high:
                return f"{queue} is not above its share of {name}"
            if left < (share.high if is_strict else share.low):
                return f"{queue} would be below its share of {name}"
    return ""


def is_whole(gone: Iterable[Unit], candidates: Iterable[Unit]) -> bool:
    """Whether each minimum goes only together with all surplus of its gang."""
    taken = {unit.key for unit in gone}
    least = {unit.work.id for unit in gone if not unit.is_surplus and not unit.work.is_single}
    return all(unit.key in taken for unit in candidates if unit.work.id in least)


def by_coverage(world: World, request: Request, protected: str | None, shares: Shares) -> list[Unit]:
    """Everything that is covered less than the request under every reading, whole."""
    found = [
        unit
        for unit in world.all_units()
        if not is_untouchable(world, unit, request, protected)
        and all(mine > theirs for mine, theirs in degrees(world, request, unit, shares))
        and (
            unit.work.is_preemptible
            or all(mine == Coverage.FULL for mine, _ in degrees(world, request, unit, shares))
        )
    ]
    known = {unit.key for unit in found}
    protected_gangs = {unit.work.id for unit in world.all_units() if unit.key not in known}
    return [
        unit
        for unit in found
        if unit.is_surplus or unit.work.is_single or unit.work.id not in protected_gangs
    ]


def helps(world: World, request: Request, gone: Sequence[Unit]) -> bool:
    """Whether the request fits when these are gone, on nodes and within limits."""
    out = [pod.uid for unit in gone for pod in unit.pods]
    return world.pods_that_fit(request.work, world.free(out)) >= request.pods and world.is_within_limits(
        request.work, request.pods, out
    )


def promised_by_coverage(world: World, request: Request, protected: str | None, shares: Shares) -> list[Unit]:
    """Victims whose eviction is a right of the request and lets it start; empty if there are none."""
    found = by_coverage(world, request, protected, shares)
    return found if found and helps(world, request, found) else []


def promised_by_share(world: World, request: Request, protected: str | None, shares: Shares) -> list[Unit]:
    """Victims whose eviction both brings the queues nearer and lets the request start."""
    candidates = [
        unit
        for unit in world.all_units()
        if not is_untouchable(world, unit, request, protected)
        and unit.work.is_preemptible
        and all(mine == Coverage.NONE for mine, _ in degrees(world, request, unit, shares))
    ]
    for gone in _subsets(candidates, list(world.all_units())):
        if not replaces_enough(world, request, gone, shares, is_strict=True):
            continue
        if helps(world, request, gone) and all(
            not _breach(world, request, part, gone, shares, counted, is_strict=True)
            for part in _by_ancestor(world, request, gone)
            for counted in _counted(world, request, part, is_strict=True)
        ):
            return list(gone)
    return []


def gentler(
    world: World, request: Request, gone: Sequence[Unit], protected: str | None, shares: Shares
) -> list[Unit]:
    """If these victims bring a queue below its guarantee: others that do not, and that run already."""
    if not any(
        world.use(queue, name, with_nominated=False) - _lost(world, gone, queue, name)
        < world.guarantee(queue, name)
        <= world.use(queue, name, with_nominated=False)
        for unit in gone
        for queue in world.own_path(unit.work.queue, request.work.queue)
        for name in _surely_short(world, request, unit)
    ):
        return []
    candidates = [
        unit for unit in by_coverage(world, request, protected, shares) if all(pod.since for pod in unit.pods)
    ]
    for other in _subsets(candidates, list(world.all_units())):
        if _keeps_guarantees(world, request, other) and helps(world, request, other):
            return list(other)
    return []


def _surely_short(world: World, request: Request, unit: Unit) -> list[str]:
    sets = world.short_sets(request.work, unit.work.queue)
    return [name for name in COUNTED if request.work.each.get(name, 0) and all(name in each for each in sets)]


def _keeps_guarantees(world: World, request: Request, gone: Sequence[Unit]) -> bool:
    return all(
        world.use(queue, name, with_nominated=False) - _lost(world, gone, queue, name)
        >= world.guarantee(queue, name)
        for unit in gone
        for queue in world.own_path(unit.work.queue, request.work.queue)
        for name in COUNTED
        if _lost(world, gone, queue, name)
    )


def _subsets(candidates: Sequence[Unit], everything: Sequence[Unit]) -> Iterator[Sequence[Unit]]:
    if len(candidates) > SEARCHED:
        return
    for count in range(1, len(candidates) + 1):
        for gone in combinations(candidates, count):
            if is_whole(gone, everything):
                yield gone
