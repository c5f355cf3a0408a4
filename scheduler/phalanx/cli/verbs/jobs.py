"""`phalanx jobs`: all gangs, with state, queue, place in line, since when and where."""

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.verbs.formatting import age, listed, names
from phalanx.cli.verbs.options import ViewOptions
from phalanx.cli.verbs.printing import BAD, DIM, GOOD, WARN, Cell, Format, Line, Span, columns, line
from phalanx.cli.verbs.runner import Question, ask
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.views.gangs import GangRow, State, gang_rows, seconds_since
from phalanx.model.workloads.known import WORKLOADS

GANG_KINDS = ("Pod", "PodGroup", "Queue", "Namespace", "PriorityClass")
"""What gangs are made of; the owners of the pods are read too."""

QUIET = frozenset({"Queue", "PriorityClass"})
"""Tenants may often not list these. Without them priorities and charged queues may be missing."""


SUSPENDED_KINDS = tuple(kind.name for kind in WORKLOADS.values() if kind.suspended)
"""Workloads that may be suspended while their gangs wait, so that no pods lead to them."""


def jobs(
    *,
    queue: Annotated[str | None, Parameter(name=["--queue", "-q"])] = None,
    state: Annotated[tuple[State, ...], Parameter(consume_multiple=True, negative=())] = (),
    node: str | None = None,
    options: ViewOptions | None = None,
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
    """

    def view(seen: Seen) -> tuple[GangRow, ...]:
        return tuple(
            row
            for row in gang_rows(seen)
            if (queue is None or row.queue == queue)
            and (not state or row.state in state)
            and (node is None or any(share.node == node for share in row.nodes))
        )

    question = Question(
        name="jobs",
        kinds=(*GANG_KINDS, *SUSPENDED_KINDS),
        view=view,
        lines=gang_lines,
        needed=("Pod",),
        quiet=QUIET.union(SUSPENDED_KINDS),
    )
    return ask(options or ViewOptions(), question)


STATE_STYLES = {
    State.WAITING: WARN,
    State.STARTING: "cyan",
    State.RUNNING: GOOD,
    State.FINISHED: DIM,
    State.FAILED: BAD,
    State.RELEASING: WARN,
}

_HEADER = ("NAME", "STATE", "QUEUE", "PLACE", "SINCE", "PODS", "WHERE", "REASON")
_WIDE = ("PRIORITY", "REQUESTS", "STARTS", "MESSAGE")


def gang_lines(rows: Sequence[GangRow], how: Format) -> list[Line]:
    """A line for each gang; wide: priority, requests, expected start, message and all nodes."""
    if not rows:
        return [line("No gangs.")]
    header = [*(["NAMESPACE"] if how.all_namespaces else []), *_HEADER, *(_WIDE if how.is_wide else ())]
    return columns(header, (_cells(row, how) for row in rows))


def _cells(row: GangRow, how: Format) -> list[Cell]:
    cells: list[Cell] = [
        *([row.namespace] if how.all_namespaces else []),
        row.reference,
        Span(row.state.value, STATE_STYLES[row.state]),
        row.queue or "-",
        "-" if row.position is None else str(row.position),
        since_text(row.since, how.now_ms),
        f"{row.pods_running}/{row.pods}",
        where(row, is_wide=how.is_wide) or "-",
        row.reason or "-",
    ]
    if how.is_wide:
        cells += [str(row.priority), listed(row.requests) or "-", row.expected_start or "-", row.message]
    return cells


def since_text(since: str, now_ms: int) -> str:
    """How long ago that was."""
    found = seconds_since(since, now_ms)
    return "-" if found is None else age(found)


def where(row: GangRow, *, is_wide: bool) -> str:
    """The domain and the nodes of a gang."""
    nodes = [each.node if each.pods == 1 else f"{each.node}×{each.pods}" for each in row.nodes]
    shown = names(nodes, is_wide=is_wide)
    return f"{row.domain}: {shown}" if row.domain and shown else shown
