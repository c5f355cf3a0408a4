"""F13: load, undisturbed and with one fault at its worst moment. Twenty plans.

What virtual time shows: that nothing is lost, starves or piles up however the work is interleaved. It does
not show how long the work takes: only waiting costs simulated time, computing does not.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx_simulator.drills import load_faults as faults
from phalanx_simulator.drills.drill import Fault, Outcome, play
from phalanx_simulator.drills.load_faults import LoadFault
from phalanx_simulator.drills.loads import Burst, Events, Listing, Load, Size
from phalanx_simulator.drills.operations import Act
from phalanx_simulator.invariants.check import Check
from phalanx_simulator.runs.world import World

TENTH: Final = Size(nodes=500, burst=1_000, events_per_s=200, seconds=60.0)
"""A tenth of F13 in numbers and rate, for a tenth of the time: what `phalanx drill` plays."""

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

        A fault without effect is an error too: the plan has shown nothing.
        """
        load = self.make(self.fault.max_wait_s)
        within_s = load.size.seconds + _WITHIN_S
        act = Act(self.name, load.prepare, load.begin, within_s, afterwards=load.afterwards)

        def strike(world: World) -> None:
            load.meet(world.go(self.fault.program(world, load)))

        outcome = play(act, seed=self.seed, fault=Fault(strike), checks=checks)
        if outcome.problem is None and checks and self.fault.mark not in ("", *outcome.marks):
            return replace(outcome, problem=f"the fault has missed: {self.fault.mark} was not reached")
        return outcome


def load_plans(*, seed: int, size: Size) -> Iterator[LoadPlan]:
    """Each load with each of its faults."""
    in_blocks = partial(Burst, size, members=100, level="block")
    in_racks = partial(Burst, size, members=10, level="rack")
    for name, make, wrong in (
        ("list", partial(Listing, size), faults.LIST_FAULTS),
        ("events", partial(Events, size), faults.EVENT_FAULTS),
        ("burst of one gang", partial(Burst, size), faults.ONE_GANG_FAULTS),
        ("burst of gangs in blocks", in_blocks, faults.BLOCK_GANG_FAULTS),
        ("burst of gangs in racks", in_racks, faults.RACK_GANG_FAULTS),
    ):
        for fault in wrong:
            yield LoadPlan(f"{name}: {fault.name}", seed, _maker(make), fault)


def _maker(make: Callable[..., Load]) -> Callable[[float], Load]:
    return lambda max_wait_s: make(max_wait_s=max_wait_s)
