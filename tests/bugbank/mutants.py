"""The bank: all mutants, by subject."""

from typing import Final

from tests.bugbank.bank import Mutant
from tests.bugbank.binding import BINDING
from tests.bugbank.world import WORLD

MUTANTS: Final[tuple[Mutant, ...]] = (*BINDING, *WORLD)
"""Names are unique."""
