"""How much the checks allow, and how much they remember, each with its unit and reason."""

from typing import Final

from phalanx.limits import LEASE_DURATION_S

VERSIONS_KEPT: Final = 256
"""Versions of one object that are remembered: a node that flaps each second, seen two minutes late."""

GONE_KEPT_S: Final = 300.0
"""Seconds that something gone is remembered: events may be two minutes late."""

HEARD_MARGIN_S: Final = 0.2
"""Seconds before a write within which an event may have come too late for it."""

PARTIAL_S: Final = 10.0
"""Seconds that a gang may be partly bound while nothing is wrong."""

PARTIAL_SLACK_S: Final = 5.0
"""Seconds on top: the grace begins when a cycle sees the gang, and each eviction takes two requests."""

TROUBLE_S: Final = LEASE_DURATION_S + PARTIAL_S
"""Seconds that trouble may lengthen what should be short: one Lease, and what is allowed without trouble."""

LATE_LANDING_S: Final = 5.0
"""Seconds after which a write that has not landed counts as unknown to its sender: it may land on others'."""

OPEN_CALLS_MAX: Final = 4096
"""Requests that are followed at once; beyond, the older half never lands: those of killed hosts."""
