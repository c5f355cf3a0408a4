"""Limits of `phalanx doctor`, each with its reason."""

from typing import Final

CLOCK_SKEW_S: Final = 5
"""Seconds by which two clocks may differ. The Date header has whole seconds, and a request takes time."""

VERDICT_S: Final = 60
"""Seconds after which a new pod must have a condition. A busy scheduler takes a few."""

TERMINATING_S: Final = 300
"""Seconds after the grace period of a pod after which its node does not delete it any more."""
