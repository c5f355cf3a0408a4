"""Limits of the commands that look at a cluster, each with its reason."""

from typing import Final

READ_THREADS: Final = 8
"""Kinds that are listed at the same time. Some are waited for while another one is decoded."""

WATCH_PERIOD_S: Final = 2.0
"""Seconds between two readings of `--watch` and `top`, as `watch kubectl` has them."""

OWNER_ROUNDS_MAX: Final = 4
"""Times that the owners of what was read last are read: pods, Jobs, JobSets, TrainJobs."""

KEYS_READ: Final = 1024
"""Bytes of keys that `top` reads at once: far more than somebody types during a frame."""

ESCAPE_SEQUENCE_S: Final = 0.05
"""Seconds between Esc and the next byte of an arrow key. Terminals send both at once; ssh may part them."""

EVENTS_SHOWN: Final = 10
"""Distinct events of a gang that `why` lists, the newest ones."""

DECISIONS_SHOWN: Final = 8
"""Last decisions in a frame of `top`, so that a terminal of 50 lines shows all parts."""

TOP_ROWS: Final = 12
"""Rows of each part of a frame of `top`, for the same reason."""

RATE_PERIOD_S: Final = 60
"""Seconds that rates are counted over."""

BAR_CELLS: Final = 20
"""Width of a bar. A cell is then 5 % of the largest amount."""

NAMES_SHOWN: Final = 3
"""Names in one cell of a table; `-o wide` shows all."""

PLAN_NODES_MAX: Final = 2000
"""Nodes that `drain-plan` puts in an order. The search looks at all that are left for each of them."""

PLAN_CANDIDATES: Final = 16
"""Nodes of which `drain-plan` checks whether their gangs have capacity elsewhere. One is usually enough."""

COMPLETION_NAMES_MAX: Final = 500
"""Names that a completion offers. More cannot be read."""

COMPLETION_TIMEOUT_S: Final = 2.0
"""Seconds after which a completion gives up, because somebody waits for the Tab key."""
