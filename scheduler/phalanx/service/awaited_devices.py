"""Which placed gangs wait until drivers have prepared their devices, and what is said of them."""

from typing import Final

from msgspec import Struct

from phalanx.model.decisions import Placement
from phalanx.model.names import GangId
from phalanx.model.reasons import Reason, Verdict

_NEXT_STEP: Final = "Wait until the driver of the device has prepared it"


class _Waits(Struct):
    """The placements of a gang that wait, by cycle and cause, each with what it awaits."""

    texts: dict[tuple[int, str], str] = {}
    verdict: Verdict | None = None


class AwaitedDevices:
    """Remembers what each gang was said to wait for."""

    def __init__(self) -> None:
        self._gangs: dict[GangId, _Waits] = {}

    def verdict(self, gang: GangId) -> Verdict | None:
        """What is said of the gang; None if it does not wait."""
        waits = self._gangs.get(gang)
        return waits.verdict if waits is not None else None

    def note(self, placement: Placement, why: str) -> bool:
        """Whether the placement did not wait before. `why` is empty if it does not wait any more."""
        waits = self._gangs.setdefault(placement.gang, _Waits())
        key = (placement.cycle, placement.cause)
        is_new = key not in waits.texts
        waits.texts.pop(key, None)
        if why:
            waits.texts[key] = why
        if not waits.texts:
            self.forget(placement.gang)
            return False
        text, reason = next(iter(waits.texts.values())), Reason.RESOURCE_CLAIM_NOT_READY
        waits.verdict = Verdict(placement.gang, placement.group, reason, text, next_step=_NEXT_STEP)
        return is_new and bool(why)

    def forget(self, gang: GangId) -> None:
        """The gang is gone, or is placed again."""
        self._gangs.pop(gang, None)
