"""`phalanx jobs`: all gangs, with state, queue, place in line, since when and where."""

from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.verbs.options import ViewOptions
from phalanx.cli.verbs.runner import Question, ask
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.tables.gangs import gang_lines
from phalanx.cli.verbs.views.gangs import GangRow, State, gang_rows

GANG_KINDS = ("Pod", "PodGroup", "Queue", "Namespace", "PriorityClass")
"""What gangs are made of; the owners of the pods are read too."""

QUIET = frozenset({"Queue", "PriorityClass"})
"""Tenants may often not list these. Without them priorities and charged queues may be missing."""


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
        name="jobs", kinds=GANG_KINDS, view=view, lines=gang_lines, needed=("Pod",), quiet=QUIET
    )
    return ask(options or ViewOptions(), question)
