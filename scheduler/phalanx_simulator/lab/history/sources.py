"""The formats of histories, by name."""

from enum import StrEnum
from pathlib import Path

from phalanx_simulator.lab.history.alibaba import read_alibaba
from phalanx_simulator.lab.history.history import History, HistoryError
from phalanx_simulator.lab.history.philly import read_philly
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


def read_history(
    path: Path, file_format: Format, *, nodes: Path | None, gpus_per_pod: int, queue_column: str
) -> History:
    """Read a history. Raises HistoryError, also for a file that cannot be read."""
    if queue_column not in QUEUE_COLUMNS:
        raise HistoryError(f"queueColumn: expected one of {', '.join(QUEUE_COLUMNS)}; found {queue_column}")
    if nodes is not None and file_format is not Format.ALIBABA:
        raise HistoryError(f"nodesFile: expected with the format {Format.ALIBABA} only, found {file_format}")
    try:
        match file_format:
            case Format.PHILLY:
                return read_philly(path, gpus_per_pod=gpus_per_pod)
            case Format.ALIBABA:
                return read_alibaba(path, nodes=nodes)
            case Format.SACCT:
                return read_sacct(path, queue_column=queue_column)
            case Format.SNAPSHOTS:
                return read_snapshots(path)
    except OSError as error:
        raise HistoryError(f"{error.filename or path}: cannot be read: {error.strerror}") from error
