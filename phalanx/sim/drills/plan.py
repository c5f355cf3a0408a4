"""One fault at one point of one act."""

from msgspec import Struct

from phalanx.sim.drills.acts import Act
from phalanx.sim.drills.drill import Arm, Outcome, play
from phalanx.sim.invariants.check import Check


class Plan(Struct, frozen=True):
    """`name` says it in words; `arm` sets the fault up right before the act begins."""

    name: str
    act: Act
    seed: int
    arm: Arm

    def outcome(self, checks: tuple[type[Check], ...]) -> Outcome:
        """Play it once."""
        return play(self.act, seed=self.seed, arm=self.arm, checks=checks)
