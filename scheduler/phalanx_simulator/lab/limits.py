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

PROMETHEUS_DAYS: Final = 14
"""Days of a history in Prometheus without `since`; it keeps data for 15 days by default."""

PROMETHEUS_QUERY_S: Final = 6 * 3600
"""Seconds that one query of Prometheus covers. It loads at most 50 million samples by default: six hours of
35,000 series with a sample in 15 seconds."""

PROMETHEUS_TIMEOUT_S: Final = 150
"""Seconds for an answer of Prometheus, which ends a query after two minutes by default."""

PROMETHEUS_ANSWER_BYTES_MAX: Final = 1 << 30
"""Bytes of one answer of Prometheus at most."""
