"""What a study says of its history: where it is, its format, and which days are played."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

Amount = Annotated[int, Meta(ge=1, le=1 << 20)]
Days = Annotated[int, Meta(ge=1, le=3660)]
Day = Annotated[int, Meta(ge=0, le=36600)]


class Part(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Base of the parts of a study: camelCase keys, and no others."""


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


class HistorySpec(Part, frozen=True):
    """Where the history is, and which days of it are played."""

    path: str
    """A file, or a folder of snapshots, relative to the study; or the address of a Prometheus server."""
    format: Format
    nodes_file: str | None = None
    """The list of nodes of the format alibaba."""
    queue_column: str = "Account"
    """The column of sacct that names the queue: Account, Partition, QOS or User."""
    gpus_per_pod: Amount = 8
    """The most GPUs of one pod, for the format philly."""
    since: str | None = None
    until: str | None = None
    """The time that is read, for the format prometheus, in ISO 8601; without it, the last 14 days."""
    days: Days | None = None
    """How many days are played; without it, all."""
    first_day: Day | None = None
    """The first of them, counted from the first job; without it, the days with the most submissions."""
