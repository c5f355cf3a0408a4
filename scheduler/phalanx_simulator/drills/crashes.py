"""F1: the leader fails at each step of an operation: each await, each API write.

It dies, freezes for longer than its Lease lasts, or is cut off for as long.
"""

from collections.abc import Callable, Iterator
from typing import Final

from phalanx_simulator.drills.drill import Fault, Plan, Strike, play
from phalanx_simulator.drills.operations import Act
from phalanx_simulator.hosts.replica import Process, Replica
from phalanx_simulator.invariants.check import Check
from phalanx_simulator.runs.world import World

_AWAY_S: Final = 20.0
"""Longer than a Lease, so that the other replica takes over and the failed one comes back to find out."""


def crash_plans(act: Act, *, seed: int, checks: tuple[type[Check], ...]) -> Iterator[Plan]:
    """A plan for each step and each failure.

    Raises RuntimeError if the operation fails without a fault.
    """
    undisturbed = play(act, seed=seed, checks=checks)
    if undisturbed.problem is not None:
        raise RuntimeError(f"{act.name} without any fault: {undisturbed.problem}")
    for step in range(undisturbed.steps):
        for name, fail in _FAILURES.items():
            yield Plan(f"{act.name}: {name} at step {step}", act, seed, Fault(_to_leader(fail), step))


def _to_leader(fail: Callable[[Replica, Process], None]) -> Strike:
    def strike(world: World) -> None:
        leader = world.leader()
        assert leader is not None
        assert leader.process is not None
        fail(leader, leader.process)

    return strike


def _kill(leader: Replica, process: Process) -> None:
    leader.kill()


def _freeze(leader: Replica, process: Process) -> None:
    process.host.freeze()
    process.network.later(_AWAY_S, process.host.thaw)


def _cut_off(leader: Replica, process: Process) -> None:
    process.network.partition()
    process.network.later(_AWAY_S, process.network.heal)


_FAILURES: Final = {"killed": _kill, "frozen": _freeze, "cut off": _cut_off}
