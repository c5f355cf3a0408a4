"""`phalanx jobs`: all gangs, with state, queue, place in line, since when and where."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

from cyclopts import Parameter

from phalanx.cli.verbs.formatting import age, folded, listed, names
from phalanx.cli.verbs.options import TableOptions
from phalanx.cli.verbs.printing import BAD, DIM, GOOD, WARN, Cell, Format, Line, Span, line
from phalanx.cli.verbs.queues import no_queue
from phalanx.cli.verbs.runner import Question, ask
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.tables import Column, table
from phalanx.cli.verbs.views.gangs import POD_GROUP, GangRow, NodeShare, State, gang_rows, seconds_since
from phalanx.model.api.queues import Queue
from phalanx.model.names import DEFAULT_QUEUE
from phalanx.model.workloads.known import WORKLOADS

GANG_KINDS = ("Pod", "PodGroup", "Queue", "Namespace", "PriorityClass")
"""What gangs are made of; the owners of the pods are read too."""

QUIET = frozenset({"Queue", "PriorityClass"})
"""Tenants may often not list these. Without them priorities and charged queues may be missing."""


SUSPENDED_KINDS = tuple(kind.name for kind in WORKLOADS.values() if kind.suspended)
"""Workloads that may be suspended while their gangs wait, so that no pods lead to them."""


class Sort(StrEnum):
    """What rows may be sorted by."""

    NAME = "name"
    STATE = "state"
    QUEUE = "queue"
    SINCE = "since"
    PODS = "pods"
    REASON = "reason"
    PRIORITY = "priority"


def jobs(
    *,
    queue: Annotated[str | None, Parameter(name=["--queue", "-q"])] = None,
    state: Annotated[tuple[State, ...], Parameter(consume_multiple=True, negative=())] = (),
    node: str | None = None,
    sort: Sort | None = None,
    options: TableOptions | None = None,
) -> int:
    """List all gangs: state, queue, place in line, since when, where.

    A gang is a PodGroup, a workload such as a Job, or a pod without either. Waiting gangs come first, in the
    order of their queues.

    Parameters
    ----------
    queue
        Only gangs of this queue.
    state
        Only gangs in these states.
    node
        Only gangs with pods on this node.
    sort
        What the rows are sorted by: the oldest, the most and the highest first. Default: waiting gangs first.
    """

    def view(seen: Seen) -> tuple[GangRow, ...]:
        if queue is not None and not _has_queue(seen, queue):
            raise no_queue(queue, seen)
        found = tuple(
            row
            for row in gang_rows(seen)
            if (queue is None or row.queue == queue)
            and (not state or row.state in state)
            and (node is None or any(share.node == node for share in row.nodes))
        )
        return found if sort is None else tuple(sorted(found, key=_SORT_KEYS[sort]))

    question = Question(
        name="jobs",
        kinds=(*GANG_KINDS, *SUSPENDED_KINDS),
        view=view,
        lines=gang_lines,
        needed=("Pod",),
        quiet=QUIET.union(SUSPENDED_KINDS),
    )
    return ask(options or TableOptions(), question)


def _has_queue(seen: Seen, name: str) -> bool:
    """Whether it exists, or is not known to be missing: queues of other projects count by their gangs."""
    if name == DEFAULT_QUEUE or not seen.of(Queue):
        return True
    return any(each.metadata.name == name for each in seen.of(Queue)) or any(
        row.queue == name for row in gang_rows(seen)
    )


STATE_STYLES = {
    State.WAITING: WARN,
    State.STARTING: "cyan",
    State.DEGRADED: BAD,
    State.RUNNING: GOOD,
    State.FINISHED: DIM,
    State.FAILED: BAD,
    State.RELEASING: WARN,
}

_WHERE_OR_REASON = "WHERE OR REASON"
_TABLE = (
    Column("NAMESPACE"),
    Column("NAME"),
    Column("STATE"),
    Column("QUEUE", goes=3),
    Column("PLACE", goes=2),
    Column("SINCE", goes=1),
    Column("PODS"),
    Column("WHERE"),
    Column("REASON"),
    Column(_WHERE_OR_REASON, wraps=True),
    *(Column(title, only_wide=True) for title in ("PRIORITY", "REQUESTS", "STARTS", "MESSAGE")),
)


_SORT_KEYS: Final[Mapping[Sort, Callable[[GangRow], Any]]] = {
    Sort.NAME: lambda row: (row.namespace, row.name),
    Sort.STATE: lambda row: list(State).index(row.state),
    Sort.QUEUE: lambda row: row.queue,
    Sort.SINCE: lambda row: (not row.since, row.since),
    Sort.PODS: lambda row: -row.pods,
    Sort.REASON: lambda row: (not row.reason, row.reason),
    Sort.PRIORITY: lambda row: -row.priority,
}
"""The oldest, the most and the highest come first."""


def gang_lines(rows: Sequence[GangRow], how: Format) -> list[Line]:
    """A line for each gang; wide: priority, requests, expected start, message and all nodes.

    On a screen, one column says where a gang runs, or why it does not.
    """
    if not rows:
        return [line("No gangs.")]
    left_out = {"WHERE", "REASON"} if how.folds and not how.chosen else {_WHERE_OR_REASON}
    left_out |= set() if how.all_namespaces or how.chosen else {"NAMESPACE"}
    shown = [place for place, each in enumerate(_TABLE) if how.chosen or each.title not in left_out]
    names = Counter((row.namespace, row.name) for row in rows)
    cells = [_cells(row, how, is_plain=names[row.namespace, row.name] == 1) for row in rows]
    columns = [_TABLE[place] for place in shown]
    return table(columns, [[row[place] for place in shown] for row in cells], how)


def _cells(row: GangRow, how: Format, *, is_plain: bool) -> list[Cell]:
    """`is_plain`: no other gang has this name, so that a PodGroup need not be called one."""
    nodes = where(row, is_wide=how.is_wide) or "-"
    return [
        row.namespace,
        row.name if is_plain and row.kind == POD_GROUP else row.reference,
        Span(row.state.value, STATE_STYLES[row.state]),
        row.queue or "-",
        "-" if row.position is None else str(row.position),
        since_text(row.since, how.now_ms),
        f"{row.pods_running}/{row.pods}",
        nodes,
        row.reason or "-",
        row.reason or nodes,
        str(row.priority),
        listed(row.requests) or "-",
        row.expected_start or "-",
        row.message,
    ]


def since_text(since: str, now_ms: int) -> str:
    """How long ago that was."""
    found = seconds_since(since, now_ms)
    return "-" if found is None else age(found)


def where(row: GangRow, *, is_wide: bool) -> str:
    """The domain and the nodes of a gang."""
    shown = nodes_text(row.nodes, is_wide=is_wide)
    return f"{row.domain}: {shown}" if row.domain and shown else shown


def nodes_text(nodes: Iterable[NodeShare], *, is_wide: bool) -> str:
    """The nodes; those with as many pods are together."""
    counts: dict[int, list[str]] = {}
    for each in nodes:
        counts.setdefault(each.pods, []).append(each.node)
    found = [
        name if pods == 1 else f"{name}×{pods}"
        for pods, together in counts.items()
        for name in (sorted(together) if is_wide else folded(together))
    ]
    return names(found, is_wide=is_wide)
