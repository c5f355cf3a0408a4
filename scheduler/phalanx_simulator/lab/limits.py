"""Bounds of the laboratory."""

from typing import Final

TIMELINE_STEPS: Final = 168
"""Steps into which the days of a study are divided for plots: the hours of a week."""

VARIANTS_MAX: Final = 64
"""Variants of a study at most. A page with more cannot be read, and each is a run of minutes or hours."""

PODS_PER_JOB_MAX: Final = 10_000
"""Pods of one job at most. A larger number is an error of the file."""

NODES_MAX: Final = 100_000
"""Nodes of a cluster at most. A larger number is a typing error."""

PROGRESS_PERIOD_S: Final = 0.5
"""Seconds between two looks at the progress of runs."""

DASK_CONNECT_TIMEOUT_S: Final = 15
"""Seconds in which a Dask scheduler must answer: with a wrong address nobody wants to wait longer."""

DASK_WORKERS_TIMEOUT_S: Final = 60
"""Seconds in which the first worker must appear. One that just starts imports Dask first."""
