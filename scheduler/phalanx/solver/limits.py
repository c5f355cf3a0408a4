"""Bounds of the solver alone."""

from typing import Final

TIGHTEST_CELLS_MAX: Final = 4_000_000
"""Entries that the table of the tightest domains may have, all its steps together: about 15 ms."""

TIGHTNESS_NODES_MAX: Final = 1_024
"""Nodes of a problem up to which CP-SAT is asked where nothing but tightness is left to be proven."""

TIGHTNESS_EFFORT_MAX: Final = 0.05
"""Deterministic units that CP-SAT may take for tightness in one problem, some hundredths of a second."""

TIGHTNESS_NODES_PER_UNIT: Final = 10_000
"""Nodes in questions to CP-SAT that count as one such unit: their models have to be built."""

TIGHTNESS_STEPS_MAX: Final = 8
"""Domains that greedy search bounds or looks into where nothing but tightness can be gained."""

DOMAIN_CHOICES_MAX: Final = 5_000
"""Choices of domains up to which all are looked at for a bound on their room, under a millisecond."""

ROOM_PRICES: Final = 8
"""Prices that are tried for such a bound where there are more choices."""

OUTER_SWAPS_MAX: Final = 8
"""Exchanges of one spine for another that are tried for tighter racks, a millisecond each."""

DOMAINS_LEFT_MAX: Final = 4
"""Domains of a level of which local improvement tries to move all pods elsewhere, in each step."""

EXCHANGES_MAX: Final = 8
"""Exchanges of a domain for a tighter one that local improvement tries in each step."""
