"""Reads a history by the format that a study names."""

from pathlib import Path

from phalanx_simulator.lab.history.alibaba import read_alibaba
from phalanx_simulator.lab.history.history import History, HistoryError
from phalanx_simulator.lab.history.philly import read_philly
from phalanx_simulator.lab.history.prometheus import read_prometheus
from phalanx_simulator.lab.history.sacct import QUEUE_COLUMNS, read_sacct
from phalanx_simulator.lab.history.snapshots import read_snapshots
from phalanx_simulator.lab.history.spec import Format, HistorySpec


def read_history(spec: HistorySpec) -> History:
    """Read a history. Raises HistoryError, also for one that cannot be read."""
    file_format, queue_column = spec.format, spec.queue_column
    if queue_column not in QUEUE_COLUMNS:
        raise HistoryError(f"queueColumn: expected one of {', '.join(QUEUE_COLUMNS)}; found {queue_column}")
    if spec.nodes_file is not None and file_format is not Format.ALIBABA:
        raise HistoryError(f"nodesFile: expected with the format {Format.ALIBABA} only, found {file_format}")
    if (spec.since or spec.until) and file_format is not Format.PROMETHEUS:
        raise HistoryError(f"since, until: expected with the format {Format.PROMETHEUS}, found {file_format}")
    path = Path(spec.path)
    try:
        match file_format:
            case Format.PHILLY:
                return read_philly(path, gpus_per_pod=spec.gpus_per_pod)
            case Format.ALIBABA:
                return read_alibaba(path, nodes=None if spec.nodes_file is None else Path(spec.nodes_file))
            case Format.SACCT:
                return read_sacct(path, queue_column=queue_column)
            case Format.SNAPSHOTS:
                return read_snapshots(path)
            case Format.PROMETHEUS:
                return read_prometheus(spec.path, since=spec.since, until=spec.until)
    except OSError as error:
        why = error.strerror or error.args[0]
        raise HistoryError(f"{error.filename or spec.path}: cannot be read: {why}") from error
