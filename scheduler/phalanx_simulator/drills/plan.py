"""What a drill plays, one after the other."""

from typing import Protocol

from msgspec import Struct

from phalanx_simulator.drills.drill import Fault, Outcome, play
from phalanx_simulator.drills.operations import Act
from phalanx_simulator.invariants.check import Check


class Playable(Protocol):
    """`name` says in words what is played."""

    @property
    def name(self) -> str:
        """See the class."""
        ...

    def outcome(self, checks: tuple[type[Check], ...]) -> Outcome:
        """Play it once."""
        ...


class Plan(Struct, frozen=True):
    """One fault at one point of one act. `name` says it in words."""

    name: str
    act: Act
    seed: int
    fault: Fault

    def outcome(self, checks: tuple[type[Check], ...]) -> Outcome:
        """Play it once."""
        return play(self.act, seed=self.seed, fault=self.fault, checks=checks)
