"""Bounds of what actions do and remember; those that other rooms know too are in `phalanx/limits.py`."""

from typing import Final

VICTIM_PRIORITIES_MAX: Final = 8
"""Steps in which victims of higher priority are looked at, each a choice of its own."""

VICTIM_TRIALS_MAX: Final = 16
"""Victims chosen by trial of which is tried whether they may stay, each a solve."""

SURPLUS_UNITS_MAX: Final = 64
"""Members beyond its minimum that a gang may lose one by one for one demand."""

SHOWN_VICTIMS: Final = 5
"""Pods that a verdict names of those which must end first."""

PREEMPTORS_PER_CYCLE_MAX: Final = 16
"""Gangs for which one cycle evicts; the others' turn comes in the next one."""

NOMINATION_MS: Final = 900_000
"""Milliseconds for which room is kept for whom it was made: longer than grace periods usually are."""

NOMINATION_ATTEMPTS_MAX: Final = 3
"""Times that room is made for a gang in a row; what comes to nothing so often will again."""

NOMINATION_REST_MS: Final = 600_000
"""Milliseconds after that before room is made for it again."""
