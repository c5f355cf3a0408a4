"""The answer to a placement problem, as data."""

from typing import Final

from msgspec import Struct

from phalanx.limits import SOLVE_DETERMINISTIC_LIMIT
from phalanx.model.decisions import Certificate
from phalanx.rules.problem import Assignment

TIGHTNESS_NODES_MAX: Final = 1_024
"""Nodes of a problem up to which CP-SAT is used where only the tightness term is left to prove."""


class Placed(Struct, frozen=True):
    """A complete, checked placement with its certificate."""

    assignments: tuple[Assignment, ...]
    certificate: Certificate
    errors: tuple[str, ...] = ()
    """Solver errors: answers of backends that failed and were dropped."""


class Unplaceable(Struct, frozen=True):
    """No placement was found."""

    proven: bool
    """Whether none exists."""
    by: str
    """The backend that answered."""
    errors: tuple[str, ...] = ()
    """As in Placed."""


Answer = Placed | Unplaceable


class SolveLimits(Struct, frozen=True):
    """Effort limit of one answer."""

    deterministic: float = SOLVE_DETERMINISTIC_LIMIT
    """CP-SAT's deterministic time units, shared by all of its solves; with 0 CP-SAT is not used."""
