"""F1: the leader fails at each step of an operation: each await, each API write.

It is killed, frozen for longer than its Lease lasts, or partitioned for as long.
"""

from collections.abc import Callable, Iterator
from typing import Final

from phalanx_simulator.drills.drill import Fault, Outcome, Plan, Strike
from phalanx_simulator.drills.operations import Operation
from phalanx_simulator.hosts.replica import Process, Replica
from phalanx_simulator.runs.world import World

_AWAY_S: Final = 20.0
"""Longer than a Lease, so that the other replica leads when the failed one resumes."""


def crash_plans(operation: Operation, *, seed: int, undisturbed: Outcome) -> Iterator[Plan]:
    """A plan for each step of the undisturbed run and each failure.

    Raises RuntimeError if the operation fails without a fault.
    """
    if undisturbed.problem is not None:
        raise RuntimeError(f"{operation.name} without any fault: {undisturbed.problem}")
    for step in range(undisturbed.steps):
        for name, fail in _FAILURES.items():
            yield Plan(
                f"{operation.name}: {name} at step {step}", operation, seed, Fault(_to_leader(fail), step)
            )


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


def _partition(leader: Replica, process: Process) -> None:
    process.network.partition()
    process.network.later(_AWAY_S, process.network.heal)


_FAILURES: Final = {"killed": _kill, "frozen": _freeze, "partitioned": _partition}
