"""The commands that this package adds to `phalanx`, for the entry-point group `phalanx.commands`."""

from typing import Final

from phalanx.cli.commands import Command

DEMO: Final = Command(
    "phalanx_simulator.commands.demo:demo", "Show gangs placed by the real scheduler, in three acts."
)
SIMULATE: Final = Command(
    "phalanx_simulator.commands.simulate:simulate",
    "Run the scheduler in virtual time under seeded faults, and check invariants.",
)
LAB: Final = Command(
    "phalanx_simulator.commands.lab:lab",
    "Play a recorded history through the real scheduler, once for each of several configurations.",
)
DRILL: Final = Command(
    "phalanx_simulator.commands.drill:drill",
    "Run short operations of the scheduler with a fault injected at every point.",
)
