"""What a drill plays, one after the other."""

from typing import Protocol

from msgspec import Struct

from phalanx_simulator.drills.drill import Fault, Outcome, play
from phalanx_simulator.drills.operations import Act
from phalanx_simulator.invariants.check import Check


class Playable(Protocol):
    """A plan that can run; `name` describes it."""

    @property
    def name(self) -> str:
        """See the class."""
        ...

    def outcome(self, checks: tuple[type[Check], ...]) -> Outcome:
        """Run it once."""
        ...


class Plan(Struct, frozen=True):
    """One fault at one point of one operation; `name` describes it."""

    name: str
    act: Act
    seed: int
    fault: Fault

    def outcome(self, checks: tuple[type[Check], ...]) -> Outcome:
        """Run it once."""
        return play(self.act, seed=self.seed, fault=self.fault, checks=checks)
