"""Bounds of the solver alone."""

from typing import Final

TIGHTEST_CELLS_MAX: Final = 4_000_000
"""Entries that the table of the tightest domains may have, all its steps together: about 15 ms."""
