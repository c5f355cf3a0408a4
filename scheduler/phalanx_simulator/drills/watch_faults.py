"""F2: the schedulers' view of the cluster is late, silent, has gaps, or repeats events.

The patterns are those of Sieve (OSDI 2022): a stale view, and states that are never observed because the
watch is cut and the next list shows only later states. Its third pattern, a crash between two writes, is F1.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Final

from phalanx.model.api.kinds import KINDS, WATCHED_KINDS

from phalanx_simulator.drills.drill import Fault, Plan, Strike
from phalanx_simulator.drills.operations import Operation
from phalanx_simulator.hosts.network import Network
from phalanx_simulator.runs.world import World

_CHANGED: Final = ("/pods", "/nodes", "/podgroups", "/queues", "")
"""Kinds that operations change, and all kinds at once."""

_WATCHED: Final = [KINDS[name] for name in WATCHED_KINDS]
_UNCHANGED: Final = tuple(
    f"/{kind.plural}" for kind in _WATCHED if not kind.optional and f"/{kind.plural}" not in _CHANGED
)
"""The other kinds that schedulers watch, without those of other projects. No operation changes them, so the
time of the fault does not matter."""

_BEGINS_S: Final = (0.0, 0.01, 0.03, 0.1, 0.5, 2.0)
_LASTS_S: Final = (0.5, 5.0, 40.0)

_GRID: Final = (
    *product(_CHANGED, _BEGINS_S, _LASTS_S),
    *((part, _BEGINS_S[0], _LASTS_S[-1]) for part in _UNCHANGED),
)
_EVENTS_TWICE: Final = tuple(product(("",), _BEGINS_S, _LASTS_S))


def view_plans(operation: Operation, *, seed: int) -> Iterator[Plan]:
    """A plan for each pattern, kind, start and length.

    Kinds that no operation changes get one plan each. Events are repeated for all kinds at once.
    """
    for pattern, (begin, end) in _PATTERNS.items():
        for part, at_s, lasts_s in _EVENTS_TWICE if begin is _repeating else _GRID:
            name = f"{operation.name}: {pattern} {part or 'everything'} from {at_s} s for {lasts_s} s"
            yield Plan(name, operation, seed, Fault(_disturb(begin, end, part, at_s, lasts_s)))


Disturb = Callable[[Network, str, World], None]


def _disturb(begin: Disturb, end: Disturb, part: str, at_s: float, lasts_s: float) -> Strike:
    def strike(world: World) -> None:
        networks = [replica.process.network for replica in world.replicas if replica.process is not None]

        def on_all(act: Disturb) -> Callable[[], None]:
            def run() -> None:
                for network in networks:
                    act(network, part, world)

            return run

        world.loop.outside(world.loop.call_later, at_s, on_all(begin))
        world.loop.outside(world.loop.call_later, at_s + lasts_s, on_all(end))

    return strike


def _stale(network: Network, part: str, world: World) -> None:
    network.delay_watches(60.0, part)


def _fresh(network: Network, part: str, world: World) -> None:
    network.delay_watches(0.0, part)
    network.cut_watches(part)


def _silent(network: Network, part: str, world: World) -> None:
    network.silence_watches(part)


def _cut(network: Network, part: str, world: World) -> None:
    network.cut_watches(part)


def _unobserved(network: Network, part: str, world: World) -> None:
    """Silence the watch; when it is cut the history is compacted, and only a list remains."""
    network.silence_watches(part)


def _forgotten(network: Network, part: str, world: World) -> None:
    world.server.store.compact()
    network.cut_watches(part)


def _repeating(network: Network, part: str, world: World) -> None:
    network.duplicates_permille = 1000


def _once(network: Network, part: str, world: World) -> None:
    network.duplicates_permille = 0


_PATTERNS: Final[dict[str, tuple[Disturb, Disturb]]] = {
    "late view of": (_stale, _fresh),
    "silent view of": (_silent, _cut),
    "states unobserved of": (_unobserved, _forgotten),
    "cut repeatedly, view of": (_cut, _cut),
    "events twice, view of": (_repeating, _once),
}
