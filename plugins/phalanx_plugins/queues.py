"""Refuses gangs whose queue does not exist, has sub-queues, is invalid, or is closed to their namespace.

Such a gang does not fall back to the queue `default`. An invalid queue affects itself and its descendants
only. The namespace must be selected by the gang's queue and all its ancestors.
"""

from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.queues import Queue
from phalanx.model.reasons import Objection, Reason
from phalanx.model.selectors import labels_match


class Queues(Plugin):
    """Reports the first check that fails."""

    name = "queues"
    lasting_answers = True

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        """Check the gang's queue and all queues above it."""
        path = view.queues.path(gang.queue)
        if not path:
            return _unknown(gang, view)
        if not view.queues.is_leaf(gang.queue):
            return Objection(
                reason=Reason.QUEUE_NOT_LEAF,
                message=f"queue {gang.queue} is not a leaf: only queues without child queues accept work",
                next_step=f"Submit to a leaf queue below {gang.queue}",
            )
        return _first_problem(path) or _closed_to(gang, path, view)


def _unknown(gang: Gang, view: SessionView) -> Objection:
    known = ", ".join(queue.name for queue in view.queues if view.queues.is_leaf(queue.name))
    return Objection(
        reason=Reason.QUEUE_NOT_FOUND,
        message=f"queue {gang.queue} does not exist",
        next_step=f"Submit to an existing queue ({known}), or create queue {gang.queue}",
    )


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


def _closed_to(gang: Gang, path: tuple[Queue, ...], view: SessionView) -> Objection | None:
    labels = view.namespace_labels.get(gang.namespace, {})
    for queue in path:
        if queue.namespace_selector is not None and not labels_match(labels, queue.namespace_selector):
            return Objection(
                reason=Reason.NAMESPACE_NOT_ALLOWED,
                message=f"queue {queue.name} does not accept namespace {gang.namespace}",
                next_step=f"Label namespace {gang.namespace} to match the queue's namespaceSelector, "
                "or submit to another queue",
            )
    return None
