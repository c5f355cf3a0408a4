"""Faults during a load test, each at its worst moment.

Each fault is a coroutine that runs beside the load from its start.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx_simulator.drills.drill import Fault, Outcome, play
from phalanx_simulator.drills.loads import Burst, Events, Listing, Load, Size
from phalanx_simulator.drills.operations import Operation
from phalanx_simulator.hosts.network import WATCH, Effect, Exchange, Network, Rule
from phalanx_simulator.hosts.replica import Process
from phalanx_simulator.invariants.check import Check
from phalanx_simulator.runs.world import World

_POLL_S: Final = 0.005
_DISTURBED_S: Final = 20.0
_LATE_S: Final = 30.0
_WRITES: Final = ("POST", "PATCH", "PUT", "DELETE")
_READS: Final = ("GET", WATCH)

_LIST_S: Final = 3.0
_PAGE_S: Final = 3.0

Program = Callable[[World, Load], Coroutine[Any, Any, None]]


class LoadFault(Struct, frozen=True):
    """A fault that runs beside a load.

    `program` ends when the fault has had an effect. `coverage_point`, if any, is reached then.
    """

    name: str
    program: Program
    max_wait_s: float
    coverage_point: str = ""


async def _nothing(world: World, load: Load) -> None:
    """No fault."""


# --- while a full cluster is listed -------------------------------------------------------------------------


def _new_processes(world: World, act: Callable[[Network], None]) -> None:
    """Apply `act` to the network of every process that starts from now on."""
    for replica in world.replicas:
        replica.prepare(lambda process: act(process.network))


async def _cut_list(world: World, load: Load) -> None:
    """Cut the pod list that the new leader waits for."""
    _new_processes(world, lambda network: network.delay_watches(_LIST_S, "/pods"))
    leader = await _new_leader(world)
    await asyncio.sleep(_LIST_S / 2)
    if not load.newcomers:
        leader.network.cut_watches("/pods")
    else:
        load.found("the fault had no effect: everything was listed before")
    for network in _networks(world):
        network.delay_watches(0.0, "/pods")


async def _let_pages_expire(world: World, load: Load) -> None:
    """Compact the store after the first page of the new leader's list."""
    slow = Rule(Effect.SLOW, methods=("GET",), path_part="/pods", slow_s=_PAGE_S)

    def act(network: Network) -> None:
        no_watch_list = Rule(Effect.REFUSED, methods=(WATCH,), path_part="/pods", status=400, skip=1, times=1)
        network.rules.extend((no_watch_list, slow))

    _new_processes(world, act)
    pages = _ResponseCounter(world, lambda exchange: _is_page(exchange) and exchange.outcome == "200")
    expired = _ResponseCounter(world, lambda exchange: _is_page(exchange) and exchange.outcome == "410")
    await _new_leader(world)
    while not pages.count:
        await asyncio.sleep(_POLL_S)
    await asyncio.sleep(_PAGE_S - 0.5)
    world.server.store.compact()
    while not expired.count:
        await asyncio.sleep(_POLL_S)
    for network in _networks(world):
        network.rules.clear()


def _disturb_reads(effect: Effect, *, permille: int, slow_s: float = 0.0) -> Program:
    """Disturb lists and watches of new processes until after one of them leads."""

    async def program(world: World, load: Load) -> None:
        def act(network: Network) -> None:
            rule = Rule(
                effect,
                methods=_READS,
                status=429,
                retry_after_s=2,
                permille=permille,
                slow_s=slow_s,
                until_s=world.loop.time() + _LATE_S,
            )
            network.rules.append(rule)

        _new_processes(world, act)

    return program


async def _kill_new_leader(world: World, load: Load) -> None:
    """Kill the first new leader before it has listed anything."""
    leader = await _new_leader(world)
    for replica in world.replicas:
        if replica.process is leader:
            replica.kill()


async def _relist_in_mid_gang(world: World, load: Load) -> None:
    """Force a complete relist while the new gang is half bound."""
    await _some_bound(load, more=1)
    _relist(world)


# --- while changes arrive without a pause -------------------------------------------------------------------


def _in_mid_load(act: Program) -> Program:
    """Inject at the first bind after a third of the load."""

    async def program(world: World, load: Load) -> None:
        await asyncio.sleep(load.size.seconds / 3)
        await _some_bound(load, more=1)
        await act(world, load)

    return program


async def _relist_all(world: World, load: Load) -> None:
    _relist(world)


async def _kill_leader(world: World, load: Load) -> None:
    leader = world.leader()
    if leader is not None:
        leader.kill()


async def _delay_view(world: World, load: Load) -> None:
    """Delay all events, then deliver everything at once through lists."""
    networks = _networks(world)
    for network in networks:
        network.delay_watches(_LATE_S)
    await asyncio.sleep(_LATE_S)
    for network in networks:
        network.delay_watches(0.0)
        network.cut_watches()


async def _silence_view(world: World, load: Load) -> None:
    """Silence all watches until the schedulers notice."""
    for network in _networks(world):
        network.silence_watches()


# --- while there are many writes ----------------------------------------------------------------------------


def _at_half(act: Program) -> Program:
    """Inject once half of the burst is bound."""

    async def program(world: World, load: Load) -> None:
        await _some_bound(load, more=load.size.burst // 2)
        await act(world, load)

    return program


def _disturb_writes(effect: Effect, *, permille: int, slow_s: float = 0.0) -> Program:
    async def program(world: World, load: Load) -> None:
        for network in _networks(world):
            rule = Rule(
                effect,
                methods=_WRITES,
                status=429,
                retry_after_s=1,
                permille=permille,
                slow_s=slow_s,
                until_s=world.loop.time() + _DISTURBED_S,
            )
            network.rules.append(rule)

    return program


class _ResponseCounter:
    """Counts responses that match."""

    def __init__(self, world: World, fits: Callable[[Exchange], bool]) -> None:
        self.count = 0
        self._fits = fits
        world.observe(self._count)

    def _count(self, exchange: Exchange) -> None:
        self.count += exchange.outcome is not None and self._fits(exchange)


def _is_page(exchange: Exchange) -> bool:
    return exchange.method == "GET" and exchange.path == "/api/v1/pods"


async def _new_leader(world: World) -> Process:
    """Wait for a leader that is a new process."""
    before = [replica.process for replica in world.replicas]
    while True:
        leader = world.leader()
        if leader is not None and leader.process is not None and leader.process not in before:
            return leader.process
        await asyncio.sleep(_POLL_S)


async def _some_bound(load: Load, *, more: int) -> None:
    bound = load.bound + more
    while load.bound < bound:
        await asyncio.sleep(_POLL_S)


def _relist(world: World) -> None:
    world.server.store.compact()
    for network in _networks(world):
        network.rules.append(Rule(Effect.REFUSED, methods=(WATCH,), path_part="/pods", status=410, times=1))
        network.cut_watches()


def _networks(world: World) -> list[Network]:
    return [replica.process.network for replica in world.replicas if replica.process is not None]


UNDISTURBED: Final = "undisturbed"

LIST_FAULTS: Final = (
    LoadFault(UNDISTURBED, _nothing, 60.0),
    LoadFault("list cut", _cut_list, 60.0),
    LoadFault("listed in pages, which expire", _let_pages_expire, 60.0),
    LoadFault("reads throttled", _disturb_reads(Effect.REFUSED, permille=700), 90.0),
    LoadFault("reads late", _disturb_reads(Effect.SLOW, permille=1000, slow_s=5.0), 90.0),
    LoadFault("leader killed while it lists", _kill_new_leader, 60.0),
    LoadFault("all listed again in mid-gang", _relist_in_mid_gang, 60.0),
)
EVENT_FAULTS: Final = (
    LoadFault(UNDISTURBED, _nothing, 10.0),
    LoadFault("all listed again", _in_mid_load(_relist_all), 60.0, "relisted"),
    LoadFault("leader killed", _in_mid_load(_kill_leader), 60.0),
    LoadFault("all events late", _in_mid_load(_delay_view), 60.0),
    LoadFault("watches silent", _in_mid_load(_silence_view), 180.0, "half-open-watch"),
    LoadFault("writes throttled", _in_mid_load(_disturb_writes(Effect.REFUSED, permille=300)), 60.0),
)
ONE_GANG_FAULTS: Final = (
    LoadFault(UNDISTURBED, _nothing, 10.0),
    LoadFault("leader killed", _at_half(_kill_leader), 60.0, "leader-lost-mid-gang"),
    LoadFault("all listed again", _at_half(_relist_all), 60.0, "relisted"),
    LoadFault("writes throttled", _disturb_writes(Effect.REFUSED, permille=500), 120.0, "bind-throttled"),
)
BLOCK_GANG_FAULTS: Final = (LoadFault("leader killed", _at_half(_kill_leader), 60.0),)
RACK_GANG_FAULTS: Final = (
    LoadFault("writes late", _disturb_writes(Effect.SLOW, permille=1000, slow_s=1.0), 120.0),
    LoadFault(
        "writes applied but lost",
        _disturb_writes(Effect.APPLIED_BUT_LOST, permille=100),
        120.0,
        "unknown-bind-read-back-bound",
    ),
)


TENTH: Final = Size(nodes=500, burst=1_000, events_per_s=200, seconds=60.0)
"""A tenth of F13 in size, rate and duration: the default of `phalanx drill`."""

FULL: Final = Size(nodes=5_000, burst=10_000, events_per_s=2_000, seconds=600.0)
"""F13: 5,000 nodes with 50,000 pods, 2,000 changes a second for ten minutes, 10,000 pods at once."""

_WITHIN_S: Final = 300.0
"""Simulated seconds after its last change until a load must be done."""


class LoadPlan(Struct, frozen=True):
    """One load with one fault; see Plan.

    `make` gets the longest allowed wait of a pod.
    """

    name: str
    seed: int
    make: Callable[[float], Load]
    fault: LoadFault

    def outcome(self, checks: tuple[type[Check], ...]) -> Outcome:
        """Run it once.

        A fault without effect is an error too, since the plan has tested nothing.
        """
        load = self.make(self.fault.max_wait_s)
        within_s = load.size.seconds + _WITHIN_S
        operation = Operation(self.name, load.prepare, load.begin, within_s, afterwards=load.afterwards)

        def strike(world: World) -> None:
            load.meet(world.go(self.fault.program(world, load)))

        outcome = play(operation, seed=self.seed, fault=Fault(strike), checks=checks)
        if outcome.problem is None and checks and self.fault.coverage_point not in ("", *outcome.coverage):
            return replace(
                outcome, problem=f"the fault had no effect: {self.fault.coverage_point} was not reached"
            )
        return outcome


def load_plans(*, seed: int, size: Size) -> Iterator[LoadPlan]:
    """Each load with each of its faults."""
    in_blocks = partial(Burst, size, members=100, level="block")
    in_racks = partial(Burst, size, members=10, level="rack")
    for name, make, faults in (
        ("list", partial(Listing, size), LIST_FAULTS),
        ("events", partial(Events, size), EVENT_FAULTS),
        ("burst of one gang", partial(Burst, size), ONE_GANG_FAULTS),
        ("burst of gangs in blocks", in_blocks, BLOCK_GANG_FAULTS),
        ("burst of gangs in racks", in_racks, RACK_GANG_FAULTS),
    ):
        for fault in faults:
            yield LoadPlan(f"{name}: {fault.name}", seed, _maker(make), fault)


def _maker(make: Callable[..., Load]) -> Callable[[float], Load]:
    return lambda max_wait_s: make(max_wait_s=max_wait_s)
