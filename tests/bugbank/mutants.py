"""The bank: all mutants, by subject."""

from typing import Final

from tests.bugbank.bank import Mutant
from tests.bugbank.binding import BINDING
from tests.bugbank.gangs import GANGS
from tests.bugbank.leaders import LEADERS
from tests.bugbank.replies import REPLIES
from tests.bugbank.views import VIEWS
from tests.bugbank.world import WORLD

MUTANTS: Final[tuple[Mutant, ...]] = (*BINDING, *GANGS, *VIEWS, *REPLIES, *LEADERS, *WORLD)
"""Names are unique."""
