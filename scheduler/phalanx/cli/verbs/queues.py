"""`phalanx queues`: the tree of queues."""

from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.verbs.options import ViewOptions
from phalanx.cli.verbs.runner import NotFound, Question, ask
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.tables.queues import queue_lines
from phalanx.cli.verbs.views.queues import QueuesView, queues_view


def queues(
    queue: str | None = None,
    /,
    *,
    resource: Annotated[str | None, Parameter(name=["--resource", "-r"])] = None,
    options: ViewOptions | None = None,
) -> int:
    """Show the tree of queues: guarantee, use, share, borrowed and waiting, as bars.

    The amounts include the descendants of a queue. Queues are objects of the cluster, so namespaces do not
    count here.

    Parameters
    ----------
    queue
        Only this queue and its descendants.
    resource
        The resource that is shown; default: the device of which there is most, else cpu.
    """

    def view(seen: Seen) -> QueuesView:
        found = queues_view(seen, resource=resource, only=queue)
        if queue is not None and not found.queues:
            raise NotFound(f"there is no queue {queue}")
        return found

    question = Question(
        name="queues", kinds=("Queue",), view=view, lines=queue_lines, needed=("Queue",), with_gangs=False
    )
    return ask(options or ViewOptions(), question)
