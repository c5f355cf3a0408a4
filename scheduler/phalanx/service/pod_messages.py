"""Which waiting pods get a new condition, and when: a new reason, its first advice and another nominated node
at once, new figures at most periodically.

The figures in a verdict change with every pod that starts or ends elsewhere. A gang of a thousand pods must
not cost two thousand writes each time; its PodGroup always shows the latest message.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.clock import Clock
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.pods import Pod
from phalanx.model.reasons import Reason, Verdict
from phalanx.service.later_reports import Plan

POD_MESSAGE_REPEAT_S: Final = 60.0
"""Seconds before new figures of an unchanged reason are written to a waiting pod; its PodGroup has them."""


class _Message(Struct, frozen=True):
    reason: Reason
    condition: str
    """The reason of the condition."""
    text: str
    at: float
    """Monotonic seconds."""
    lacks_advice: bool = False
    node: NodeName | None = None
    """The node on which capacity is being freed for the pod."""


class PodMessages:
    """The last message of each waiting pod, by gang."""

    def __init__(self, clock: Clock, plan: Plan) -> None:
        """`plan`: see `LaterReports`."""
        self._clock = clock
        self._plan = plan
        self._messages: dict[GangId, dict[PodUid, _Message]] = {}

    @property
    def gangs(self) -> frozenset[GangId]:
        return frozenset(self._messages)

    def forget(self, gang: GangId) -> None:
        self._messages.pop(gang, None)

    def write_lost(self, pod: PodUid) -> None:
        """Write the message of a pod again, with the same delay as new figures."""
        for gang, messages in self._messages.items():
            if pod in messages:
                now = self._clock.monotonic()
                messages[pod] = _Message(messages[pod].reason, messages[pod].condition, "", now)
                self._plan(gang, now + POD_MESSAGE_REPEAT_S)
                return

    def pods_to_update(
        self,
        gang: Gang,
        verdict: Verdict,
        text: str,
        condition: str,
        nodes: Mapping[PodUid, NodeName],
    ) -> list[Pod]:
        """Return the pods that get this reason and message now; they count as updated.

        `nodes`: those on which capacity is being freed for pods.
        """
        before = self._messages.get(gang.id, {})
        message = _Message(verdict.reason, condition, text, self._clock.monotonic(), verdict.lacks_advice)
        waiting = [pod for pod in gang.members if pod.is_waiting and not pod.gated]
        new = {pod.uid: _on_node(message, nodes.get(pod.uid)) for pod in waiting}
        kept = {uid: before[uid] for uid, each in new.items() if _may_stay(before.get(uid), each)}
        self._messages[gang.id] = {**new, **kept}
        outdated_since = [message.at for message in kept.values() if message.text != text]
        if outdated_since:
            self._plan(gang.id, min(outdated_since) + POD_MESSAGE_REPEAT_S)
        return [pod for pod in waiting if pod.uid not in kept]


def _on_node(message: _Message, node: NodeName | None) -> _Message:
    return replace(message, node=node) if node is not None else message


def _may_stay(message: _Message | None, new: _Message) -> bool:
    if message is None or message.node != new.node:
        return False
    if (message.reason, message.condition) != (new.reason, new.condition):
        return False
    if message.lacks_advice and not new.lacks_advice:
        return False
    return message.text == new.text or new.at < message.at + POD_MESSAGE_REPEAT_S
