"""The formats of histories, by name."""

from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from phalanx_simulator.lab.history.alibaba import read_alibaba
from phalanx_simulator.lab.history.history import History, HistoryError
from phalanx_simulator.lab.history.philly import read_philly
from phalanx_simulator.lab.history.prometheus import read_prometheus
from phalanx_simulator.lab.history.sacct import QUEUE_COLUMNS, read_sacct
from phalanx_simulator.lab.history.snapshots import read_snapshots


class Format(StrEnum):
    """What a history is written in."""

    PHILLY = "philly"
    """CSV: timestamp, duration, num_gpus, cluster."""
    ALIBABA = "alibaba"
    """CSV of pods as of Alibaba's GPU trace of 2023, and of nodes."""
    SACCT = "sacct"
    """What `sacct --parsable2` prints."""
    SNAPSHOTS = "snapshots"
    """A folder of files of `phalanx snapshot`."""
    PROMETHEUS = "prometheus"
    """The address of a Prometheus server with the metrics of kube-state-metrics."""


class Details(Struct, frozen=True):
    """What only some formats have: see `HistorySpec`."""

    nodes: Path | None = None
    gpus_per_pod: int = 8
    queue_column: str = "Account"
    since: str | None = None
    until: str | None = None


def read_history(place: str, file_format: Format, details: Details) -> History:
    """Read a history at a path or an address. Raises HistoryError, also for one that cannot be read."""
    nodes, queue_column = details.nodes, details.queue_column
    if queue_column not in QUEUE_COLUMNS:
        raise HistoryError(f"queueColumn: expected one of {', '.join(QUEUE_COLUMNS)}; found {queue_column}")
    if nodes is not None and file_format is not Format.ALIBABA:
        raise HistoryError(f"nodesFile: expected with the format {Format.ALIBABA} only, found {file_format}")
    if (details.since or details.until) and file_format is not Format.PROMETHEUS:
        raise HistoryError(f"since, until: expected with the format {Format.PROMETHEUS}, found {file_format}")
    path = Path(place)
    try:
        match file_format:
            case Format.PHILLY:
                return read_philly(path, gpus_per_pod=details.gpus_per_pod)
            case Format.ALIBABA:
                return read_alibaba(path, nodes=nodes)
            case Format.SACCT:
                return read_sacct(path, queue_column=queue_column)
            case Format.SNAPSHOTS:
                return read_snapshots(path)
            case Format.PROMETHEUS:
                return read_prometheus(place, since=details.since, until=details.until)
    except OSError as error:
        why = error.strerror or error.args[0]
        raise HistoryError(f"{error.filename or place}: cannot be read: {why}") from error
