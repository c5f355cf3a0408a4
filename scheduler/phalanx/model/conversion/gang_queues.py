"""The queue of a gang: where it waits, and which queue its usage is charged to while it holds nodes.

`docs/tenants.md` states the rule. This is the only place that applies it: all accounts read `Gang.queue`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from phalanx.model.conversion.pod_groups import PodGroup
from phalanx.model.conversion.queue_rules import QueueRules
from phalanx.model.names import DEFAULT_QUEUE, LABEL_QUEUE, QueueName
from phalanx.model.pods import Pod
from phalanx.model.reasons import Objection


class GangQueue(NamedTuple):
    """`charged`: the queue of the gang. `refused`: the queue that it names, if that one does not accept it
    while it runs. `hint`: why another queue than the named one is charged; empty if the named one is."""

    charged: QueueName
    refused: QueueName | None = None
    hint: str = ""


def gang_queue(
    members: Sequence[Pod], group: PodGroup | None, rules: QueueRules, *, scheduler_name: str
) -> GangQueue:
    """The queue of the gang of these members, of which there is at least one, in the order of members.

    While no member holds a node it is the named queue, whether that one accepts the gang or not. Pods of
    other schedulers are not charged.
    """
    namespace = members[0].namespace
    named = _named(members, group, rules)
    holding = [pod for pod in members if pod.holds_node and pod.scheduler_name == scheduler_name]
    if not holding:
        return GangQueue(named)
    started_in = dict.fromkeys(QueueName(pod.charged_queue) for pod in holding if pod.charged_queue)
    charged = rules.charged((*started_in, named, _of_namespace(namespace, rules)), namespace)
    if charged == named:
        return GangQueue(named)
    if charged in started_in:
        return GangQueue(
            charged, None, f"queue {named} counts when the gang starts again, it runs in queue {charged}"
        )
    to = f"queue {charged}" if charged else "no queue"
    return GangQueue(charged, named, f"queue {named} does not accept the gang, {to} is charged for it")


def objection_without_pods(group: PodGroup, rules: QueueRules) -> Objection | None:
    """Why pods of this PodGroup, of which none exists yet, would wait until an object changes."""
    if group.problems:
        return group.problems[0]
    named = group.spec.queue or _of_namespace(group.namespace, rules) or DEFAULT_QUEUE
    return rules.objection(QueueName(named), group.namespace, group.min_resources)


def _named(members: Sequence[Pod], group: PodGroup | None, rules: QueueRules) -> QueueName:
    """Of the PodGroup, else the label of the first member with one, else of the namespace, else `default`."""
    if group is not None and group.spec.queue:
        return QueueName(group.spec.queue)
    for pod in members:
        if pod.queue is not None:
            return QueueName(pod.queue)
    return _of_namespace(members[0].namespace, rules) or DEFAULT_QUEUE


def _of_namespace(namespace: str, rules: QueueRules) -> QueueName | None:
    written = rules.namespace_labels(namespace).get(LABEL_QUEUE)
    return QueueName(written) if written else None
