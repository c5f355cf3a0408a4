"""A study: which history is played, on which cluster, with which variants. A YAML file, checked in full."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from phalanx.framework.config import ConfigError, KeyPath, error_of, load_settings

from phalanx_simulator.lab.history.spec import Amount, Format, HistorySpec, Part

VARIANTS_MAX: Final = 64
"""Variants of a study at most. A page with more cannot be read, and each is a run of minutes or hours."""

NODES_MAX: Final = 100_000
"""Nodes of a cluster at most. A larger number is a typing error."""

Nodes = Annotated[int, Meta(ge=1, le=NODES_MAX)]
MoreNodes = Annotated[int, Meta(ge=-NODES_MAX, le=NODES_MAX)]
Count = Annotated[int, Meta(ge=0, le=NODES_MAX)]
Gpus = Annotated[int, Meta(ge=0, le=64)]
Percent = Annotated[int, Meta(ge=1, le=1000)]
Seconds = Annotated[int, Meta(ge=1, le=3600)]
Name = Annotated[str, Meta(min_length=1, max_length=80)]
PoolName = Annotated[str, Meta(pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")]


class PoolSpec(Part, frozen=True):
    """Equal nodes."""

    name: PoolName
    nodes: Nodes
    gpus: Gpus = 8
    cpus: Amount = 64
    memory_gib: Annotated[int, Meta(ge=1, le=1 << 20)] = msgspec.field(default=512, name="memoryGiB")
    model: str = ""
    """The label nvidia.com/gpu.product, for jobs that accept some models only."""
    racks: Count = 0
    """Racks over which the nodes are spread, for gangs that request a rack."""


class ClusterSpec(Part, frozen=True):
    """The cluster: equal nodes, pools of several kinds, or nodes for a load; else that of the history."""

    nodes: Nodes | None = None
    load_percent: Percent | None = None
    """So many nodes that the average demand is this share of all GPUs."""
    gpus_per_node: Annotated[int, Meta(ge=1, le=64)] = 8
    racks: Count = 0
    pools: tuple[PoolSpec, ...] = ()


class TopologySpec(Part, frozen=True):
    """The level that all jobs with several pods require or prefer."""

    required: Literal["rack"] | None = None
    preferred: Literal["rack"] | None = None


class Policy(Part, frozen=True):
    """What a variant can set. The study sets it for all variants."""

    config: Mapping[str, Any] = {}
    """Keys of the configuration file of the scheduler, merged with those of the study."""
    guarantees: Literal["recorded", "byUse", "none"] | None = None
    """The queues' guarantees and weights: of the history; in proportion to the GPU time of all its jobs; or
    no guarantees and equal weights."""
    all_queues: Mapping[str, Any] = {}
    """Fields of the spec of every Queue."""
    queues: Mapping[str, Mapping[str, Any]] = {}
    """Fields of the spec of single Queues, by name."""
    backfill: Literal["Easy", "Conservative", "None"] | None = None
    """The same as backfill in `allQueues`."""
    topology: TopologySpec | None = None


class Variant(Policy, frozen=True, kw_only=True):
    """One configuration that is played."""

    name: Name
    add_nodes: MoreNodes = 0
    """Nodes that are added to the cluster, or taken away if it is negative."""
    pool: str | None = None
    """The pool whose nodes these are; without it, the first one."""


class Study(Policy, frozen=True, kw_only=True):
    """All of it. `declares`: which maximum run time jobs declare that have none in the history."""

    history: HistorySpec
    variants: Annotated[tuple[Variant, ...], Meta(min_length=1, max_length=VARIANTS_MAX)]
    cluster: ClusterSpec = ClusterSpec()
    period_seconds: Seconds = 60
    """The scheduler decides at most once in so many seconds of virtual time."""
    declares: Literal["rounded", "none"] = "rounded"
    """rounded: the least sufficient of 15 min, 1, 4, 12 h, 1, 2, 4, 7, 14, 30 and 60 days; none: nothing."""


class StudyError(ValueError):
    """A study is wrong. The message names the key and what was expected."""


def parse_study(text: str) -> Study:
    """Parse YAML text. Raises StudyError."""
    try:
        return study_of(load_settings(text))
    except ConfigError as error:
        raise StudyError(str(error)) from error


def study_of(settings: Any) -> Study:
    """The study with these values. Raises StudyError."""
    study: Study = _converted(settings, Study, below=())
    names = [variant.name for variant in study.variants]
    for position, name in enumerate(names):
        if name in names[:position]:
            raise StudyError(f"variants[{position}].name: {name} is used twice")
    return study


def _converted(settings: Any, kind: Any, *, below: KeyPath) -> Any:
    try:
        return msgspec.convert(settings, kind)
    except msgspec.ValidationError as error:
        raise StudyError(str(error_of(error, below=below))) from error


def read_study(path: Path) -> Study:
    """Read a file; relative paths in it are those beside it. Raises StudyError and OSError."""
    try:
        study = parse_study(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise StudyError(f"expected text in UTF-8, found: {error}") from error
    history = study.history
    nodes_file = None if history.nodes_file is None else str(path.parent / history.nodes_file)
    place = history.path if history.format is Format.PROMETHEUS else str(path.parent / history.path)
    moved = msgspec.structs.replace(history, path=place, nodes_file=nodes_file)
    return msgspec.structs.replace(study, history=moved)
