"""Options that several commands share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """Where runs are played."""

    jobs: Annotated[
        int | None,
        Parameter(
            name=["--jobs", "-j"],
            help="Processes among which the runs are divided; default: 1 for seeds, all cores for a study.",
        ),
    ] = None
    dask: Annotated[
        str | None,
        Parameter(help="Play the runs on the workers of the Dask scheduler at tcp://HOST:PORT."),
    ] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """A study by options, instead of a file."""

    history: Annotated[
        str | None,
        Parameter(
            help="The history: a file, a folder of files of `phalanx snapshot`, or the address of Prometheus."
        ),
    ] = None
    file_format: Annotated[
        str | None, Parameter(name="--format", help="philly, alibaba, sacct, snapshots or prometheus.")
    ] = None
    nodes_file: Annotated[Path | None, Parameter(help="The list of nodes of the format alibaba.")] = None
    queue_column: Annotated[
        str | None,
        Parameter(help="The column of sacct that names the queue: Account (default), Partition, QOS, User."),
    ] = None
    since: Annotated[
        str | None, Parameter(help="Of prometheus: the first time that is read; default: 14 days ago.")
    ] = None
    until: Annotated[str | None, Parameter(help="Of prometheus: the last time; default: now.")] = None
    days: Annotated[int | None, Parameter(help="How many days are played; default: all.")] = None
    first_day: Annotated[
        int | None,
        Parameter(help="The first of them, after the first job; default: those with the most submissions."),
    ] = None
    nodes: Annotated[int | None, Parameter(help="Nodes of the cluster; default: those of the history.")] = (
        None
    )
    load_percent: Annotated[
        int | None, Parameter(help="So many nodes that the average demand is this share of all GPUs.")
    ] = None
    gpus_per_node: Annotated[int | None, Parameter(help="GPUs of each of these nodes; default: 8.")] = None
    racks: Annotated[int | None, Parameter(help="Racks over which they are spread; default: none.")] = None
    variant: Annotated[
        tuple[str, ...],
        Parameter(
            help="A variant as NAME={KEY: VALUE}, such as 'more={addNodes: 20}'; may be repeated. The first"
            " variant is always the study without changes."
        ),
    ] = ()


NO_STUDY: Final = StudyOptions()
HERE: Final = WorkerOptions()
"""On processes of this machine."""
