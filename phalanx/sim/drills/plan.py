"""What a drill plays, one after the other."""

from typing import Protocol

from msgspec import Struct

from phalanx.sim.drills.acts import Act
from phalanx.sim.drills.drill import Arm, Outcome, play
from phalanx.sim.invariants.check import Check


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
    """One fault at one point of one act.

    `name` says it in words; `arm` sets the fault up right before the act begins.

    `watched_s`: simulated seconds for which the checks look on after the act has come to its end.
    """

    name: str
    act: Act
    seed: int
    arm: Arm
    watched_s: float = 0.0

    def outcome(self, checks: tuple[type[Check], ...]) -> Outcome:
        """Play it once."""
        return play(self.act, seed=self.seed, arm=self.arm, checks=checks, watched_s=self.watched_s)
