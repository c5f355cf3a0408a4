"""Refuses gangs whose queue does not exist, has sub-queues, is invalid, or is closed to their namespace.

Such a gang does not fall back to the queue `default`. An invalid queue affects itself and its descendants
only. The namespace must be selected by the gang's queue and all its ancestors. If a gang that runs is charged
to another queue than the one that it names, because that one does not accept it, its waiting members are
refused.
"""

from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import QueueName
from phalanx.model.queues import Queue, QueueState
from phalanx.model.reasons import Objection, Reason
from phalanx.model.texts import alternatives, did_you_mean


class Queues(Plugin):
    """Reports the first check that fails."""

    name = "queues"
    lasting_answers = True

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        """Check the gang's queue and all queues above it."""
        name = gang.refused_queue or gang.queue
        path = view.queues.path(name)
        if not path:
            return _unknown(name, gang.namespace, view)
        closed = _closed_to(gang.namespace, path, view)
        if closed is not None or view.queues.is_leaf(name):
            return _first_problem(path) or closed
        return Objection(
            reason=Reason.QUEUE_NOT_LEAF,
            message=f"queue {name} is not a leaf: only queues without child queues accept work",
            next_step=f"Submit to a leaf queue below {name}",
        )


def _unknown(name: QueueName, namespace: str, view: SessionView) -> Objection:
    known = [queue.name for queue in view.queues if _takes_gangs_of(namespace, queue, view)]
    return Objection(
        reason=Reason.QUEUE_NOT_FOUND,
        message=f"queue {name} does not exist",
        next_step=f"{did_you_mean(name, known)}Submit to an existing queue ({alternatives(name, known)}), "
        f"or create queue {name}",
    )


def _takes_gangs_of(namespace: str, queue: Queue, view: SessionView) -> bool:
    path = view.queues.path(queue.name)
    is_open = all(each.state is not QueueState.CLOSED for each in path)
    return is_open and view.queues.is_leaf(queue.name) and _closed_to(namespace, path, view) is None


def _first_problem(path: tuple[Queue, ...]) -> Objection | None:
    for queue in path:
        if queue.problems:
            problem = queue.problems[0]
            return Objection(
                reason=problem.reason,
                message=f"queue {queue.name}: {problem.message}",
                next_step=problem.next_step,
            )
    return None


def _closed_to(namespace: str, path: tuple[Queue, ...], view: SessionView) -> Objection | None:
    labels = view.namespace_labels.get(namespace, {})
    for queue in path:
        if not queue.accepts(labels):
            return Objection(
                reason=Reason.NAMESPACE_NOT_ALLOWED,
                message=f"queue {queue.name} does not accept namespace {namespace}",
                next_step=f"Label namespace {namespace} to match the queue's namespaceSelector, "
                "or submit to another queue",
            )
    return None
