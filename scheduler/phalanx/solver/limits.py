"""Limits that several modules of the solver share, each with its reason.

A limit with one user stands beside it. Limits that other packages share are in `phalanx/limits.py`.
"""

from typing import Final

MODEL_SUM_MAX: Final = 1 << 53
"""Largest sum of a row of a model. It is exact in a double and far below the limit of the solver, 2^62."""

ARRAY_AMOUNT_MAX: Final = 1 << 50
"""Largest amount in arrays. 2^50 bytes is a pebibyte, and products with small counts stay below 2^63."""

SOLVE_EFFORT_MIN: Final = 0.01
"""Minimum deterministic time that is charged for one CP-SAT solve. Building its model takes time too."""

VICTIM_AMOUNTS_MAX: Final = 1 << 60
"""Largest sum in a model for the choice of victims. Nothing overflows 64 bits."""
