"""The options that all commands have which look at a cluster."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter

_WATCH_PERIOD_S: Final = 2.0
"""Seconds between two readings of `--watch` and `top`, as `watch kubectl` has them."""


Output = Literal["table", "wide", "json", "yaml"]

_NAMESPACE: Final = "The namespace; default: that of the context, else default."


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    namespace: Annotated[str | None, Parameter(name=["--namespace", "-n"], help=_NAMESPACE)] = None
    kubeconfig: Annotated[
        Path | None, Parameter(help="The kubeconfig file; default: $KUBECONFIG or ~/.kube/config.")
    ] = None
    context: Annotated[
        str | None, Parameter(help="The context in the kubeconfig; default: the current one.")
    ] = None
    scheduler_name: Annotated[str, Parameter(help="The name by which pods choose the scheduler.")] = "phalanx"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ViewOptions(ClusterOptions):
    all_namespaces: Annotated[
        bool,
        Parameter(name=["--all-namespaces", "-A"], negative="", help="All namespaces that you may read."),
    ] = False
    output: Annotated[
        Output, Parameter(name=["--output", "-o"], help="table, wide (all columns), json or yaml.")
    ] = "table"
    watch: Annotated[
        bool,
        Parameter(name=["--watch", "-w"], negative="", help="Show it again when it changes, until Ctrl-C."),
    ] = False
    interval: Annotated[float, Parameter(help="Seconds between two readings with --watch.")] = _WATCH_PERIOD_S


_COLUMNS: Final = "Only these columns, in this order: their titles with - for a space, such as NAME,REASON."


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TableOptions(ViewOptions):
    columns: Annotated[str, Parameter(help=_COLUMNS)] = ""
