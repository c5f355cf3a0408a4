"""The outcome of allocation in one cycle: placements, failures, and the effort of the solver."""

from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar

from msgspec import Struct

from phalanx.actions.demands.demand import Demand
from phalanx.actions.problems.placement import DemandPlacement, Lacking
from phalanx.actions.reservations.reservations import BlockingReservations, Reservation
from phalanx.framework.statement import Statement
from phalanx.model.gangs import Gang
from phalanx.model.memory import LetIn, Refusal
from phalanx.model.names import GangId
from phalanx.model.reasons import Objection

CYCLE_SOLVES_MAX: Final = 20_000
"""Solves of one cycle, so that placements are sent in time. The next cycle continues."""

CYCLE_SEARCHES_MAX: Final = 16
"""Solves of one cycle with CP-SAT: each may take a second, and a cycle should take a few seconds."""

T = TypeVar("T")

EXACT_BACKEND: Final = "cp-sat"
"""The backend whose answers take long; they are counted separately."""


class Failure(Struct, frozen=True):
    """A demand that was not placed."""

    demand: Demand
    remembered: Refusal | None = None
    """The refusal of an earlier cycle, if nothing has changed since."""
    tried: bool = True
    """False if the cycle had reached its limit of solves before."""
    objection: Objection | None = None
    """The reason why it was not tried."""
    blocked_by: BlockingReservations | None = None
    """Reservations without which it would fit."""

    @property
    def is_new(self) -> bool:
        """Whether this cycle tried it."""
        return self.tried and self.remembered is None and self.objection is None


class Outcome:
    """The results of allocation in this cycle."""

    def __init__(self) -> None:
        self.failures: dict[GangId, Failure] = {}
        """At most one per gang, in the order of the demands; gangs that admission by value left out first."""
        self.steps: list[tuple[DemandPlacement, Statement]] = []
        """The placements in order, each with the statement that applied it."""
        self.reserved: tuple[Reservation, ...] = ()
        """The reserved starts of waiting gangs."""
        self.let_in: dict[GangId, LetIn] = {}
        """Gangs that this cycle placed before them because of their maximum run time."""
        self.used_reservations: dict[GangId, Reservation] = {}
        """The reserved starts that gangs had before this cycle started them."""
        self.with_other_members: set[GangId] = set()
        """Gangs that started with other members or subgroups than the first ones."""
        self.lacking: dict[GangId, Lacking] = {}
        """Gangs whose solved placements were refused, and what their claims would not have got."""
        self.tried: set[GangId] = set()
        """Gangs of which some demand was solved."""
        self.solves: Counter[str] = Counter()
        """Solves by backend."""
        self.errors: list[str] = []
        """Errors of the solver or of the scheduler that were isolated."""
        self.inconclusive = 0
        """Solves that ended with neither a placement nor a proof that there is none."""

    @property
    def blocked_gangs(self) -> list[Gang]:
        """Gangs that only reservations of other gangs block. A higher rank would unblock them."""
        return [failure.demand.gang for failure in self.failures.values() if failure.blocked_by is not None]

    def reserved_for_others(self, gang: GangId) -> list[Reservation]:
        return [reservation for reservation in self.reserved if reservation.gang != gang]

    def isolate_errors(self, question: Callable[[], T], *, about: str) -> T | None:
        """The answer to a question about one gang; None after an error, which must not stop the other gangs.

        The error is recorded, and the cycle is saved for a bug report. The question must change the session
        only inside statements, which an error rolls back.
        """
        try:
            return question()
        except Exception as error:
            self.errors.append(f"{about}: {error!r}")
            return None

    @property
    def is_exhausted(self) -> bool:
        """Whether the cycle has reached its limit of solves."""
        return self.solves.total() >= CYCLE_SOLVES_MAX or self.solves[EXACT_BACKEND] >= CYCLE_SEARCHES_MAX
