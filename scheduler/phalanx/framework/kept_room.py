"""What is on the accounts of queues though nobody uses it: kept for lost members or for whom room is made."""

from phalanx.framework.session import Session
from phalanx.framework.statement import total_requests
from phalanx.model.names import QueueName
from phalanx.model.resources import NONE, Resources, add


def held_usage(session: Session) -> dict[QueueName, Resources]:
    """Per queue, its descendants included, over all nodes."""
    found: dict[QueueName, Resources] = {}
    for each in session.kept:
        for queue in session.queues.path(each.gang.queue):
            for _, pods in each.seats:
                found[queue.name] = add(found.get(queue.name, NONE), total_requests(pods))
    for name, amounts in session.held:
        for queue in session.queues.path(name):
            found[queue.name] = add(found.get(queue.name, NONE), amounts)
    return found
