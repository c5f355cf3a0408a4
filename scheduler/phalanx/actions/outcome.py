"""What trying demands led to: what was placed, what failed, and what it cost."""

from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar

from msgspec import Struct

from phalanx.actions.demands.demand import Demand
from phalanx.actions.limits import CYCLE_SEARCHES_MAX, CYCLE_SOLVES_MAX
from phalanx.actions.problems.placement import DemandPlacement
from phalanx.actions.reservations.reservations import BlockingReservations, Reservation
from phalanx.framework.statement import Statement
from phalanx.model.gangs import Gang
from phalanx.model.memory import Refusal
from phalanx.model.names import GangId
from phalanx.model.reasons import Objection

T = TypeVar("T")

EXACT_BACKEND: Final = "cp-sat"
"""The backend whose answers take long: what it answers is counted by itself."""


class Failure(Struct, frozen=True):
    """A demand that found no place. `carried` is what an earlier cycle said of exactly this, if it did.

    `tried` is False when this cycle had solved as much as it may before it came to this demand. `because`:
    why it was not its turn. `blocked_by`: what it had taken instead, were it not for reserved starts.
    """

    demand: Demand
    remembered: Refusal | None = None
    tried: bool = True
    objection: Objection | None = None
    blocked_by: BlockingReservations | None = None

    @property
    def is_new(self) -> bool:
        """Whether it was tried in this cycle."""
        return self.tried and self.remembered is None and self.objection is None


class Outcome:
    """What step 3 did: at most one failure per gang, in the order of the agenda, and what it cost.

    Those that admission by value left out come before all others.

    `steps`: what was placed, in order, each with the statement that did it. `reserved`: the starts that are
    promised to those which wait. `with_other_subgroups`: gangs that started with other subgroups than the
    first ones.
    `unsettled`: questions to which the solver found neither a placement nor a proof that there is none.
    """

    def __init__(self) -> None:
        self.failures: dict[GangId, Failure] = {}
        self.steps: list[tuple[DemandPlacement, Statement]] = []
        self.reserved: tuple[Reservation, ...] = ()
        self.with_other_subgroups: set[GangId] = set()
        self.tried = 0
        self.solves: Counter[str] = Counter()
        self.errors: list[str] = []
        self.inconclusive = 0

    @property
    def blocked_gangs(self) -> list[Gang]:
        """Those for whom there is room that is kept for others: of a higher rank they need not wait."""
        return [each.demand.gang for each in self.failures.values() if each.blocked_by is not None]

    def reserved_for_others(self, gang: GangId) -> list[Reservation]:
        """The starts that are promised to others than this gang."""
        return [each for each in self.reserved if each.gang != gang]

    def isolate_errors(self, question: Callable[[], T], *, about: str) -> T | None:
        """Answer a question about one gang; None after an error, which must not stop the other gangs.

        The error is recorded, and the cycle is kept for a bug report. The question must leave the session as
        it was, as statements do that an error leaves.
        """
        try:
            return question()
        except Exception as error:
            self.errors.append(f"{about}: {error!r}")
            return None

    @property
    def is_exhausted(self) -> bool:
        """Whether this cycle has solved as much as it may."""
        return self.solves.total() >= CYCLE_SOLVES_MAX or self.solves[EXACT_BACKEND] >= CYCLE_SEARCHES_MAX
