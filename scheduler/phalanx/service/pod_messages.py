"""Which waiting pods are to be told why they wait, and when: a reason at once, mere figures now and then.

The figures in a verdict change with every pod that comes or goes elsewhere. A gang of a thousand pods must
not cost two thousand writes each time; its PodGroup always tells the latest.
"""

from collections.abc import Callable

from msgspec import Struct

from phalanx.clock import Clock
from phalanx.limits import POD_MESSAGE_REPEAT_S
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, PodUid
from phalanx.model.pods import Pod
from phalanx.model.reasons import Reason, Verdict


class _Told(Struct, frozen=True):
    """What a pod was told, and when (monotonic seconds)."""

    reason: Reason
    message: str
    at: float


class WaitingPods:
    """What the pods of every gang were told last. `later(seconds, gang)`: ask for that gang then."""

    def __init__(self, clock: Clock, later: Callable[[float, GangId], None]) -> None:
        self._clock = clock
        self._later = later
        self._told: dict[GangId, dict[PodUid, _Told]] = {}
        self._asked_until: dict[GangId, float] = {}

    @property
    def gangs(self) -> frozenset[GangId]:
        """Those of which anything is remembered."""
        return frozenset(self._told)

    def forget(self, gang: GangId) -> None:
        """It is gone."""
        self._told.pop(gang, None)
        self._asked_until.pop(gang, None)

    def due(self, gang: GangId) -> None:
        """What was asked for is over, by a clock that may be ahead of ours: then it is asked for again."""
        self._asked_until.pop(gang, None)

    def lost(self, pod: PodUid) -> None:
        """What it was told could not be written: it is told again, as late as new figures are."""
        for gang, told in self._told.items():
            if pod in told:
                now = self._clock.monotonic()
                told[pod] = _Told(told[pod].reason, "", now)
                self._ask_again(gang, [now])
                return

    def to_tell(self, gang: Gang, verdict: Verdict, message: str) -> list[Pod]:
        """The pods that are to be told `message` now; they count as told."""
        now = self._clock.monotonic()
        news = _Told(verdict.reason, message, now)
        before = self._told.get(gang.id, {})
        waiting = [pod for pod in gang.members if pod.is_waiting and not pod.gated]
        held = {pod.uid: before[pod.uid] for pod in waiting if _may_wait(before.get(pod.uid), news)}
        self._told[gang.id] = {pod.uid: held.get(pod.uid, news) for pod in waiting}
        self._ask_again(gang.id, [told.at for told in held.values() if told.message != message])
        return [pod for pod in waiting if pod.uid not in held]

    def _ask_again(self, gang: GangId, outdated: list[float]) -> None:
        """When the first of what was told at these times may be told anew; once for all until then."""
        now = self._clock.monotonic()
        if outdated and self._asked_until.get(gang, now) <= now:
            due = self._asked_until[gang] = min(outdated) + POD_MESSAGE_REPEAT_S
            self._later(due - now, gang)


def _may_wait(told: _Told | None, news: _Told) -> bool:
    if told is None or told.reason is not news.reason:
        return False
    return told.message == news.message or news.at < told.at + POD_MESSAGE_REPEAT_S
