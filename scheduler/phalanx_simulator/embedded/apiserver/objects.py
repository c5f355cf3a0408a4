"""Fields that the server sets on every object: names, UIDs, times.

This is the only source of randomness here, and it is seeded.
"""

from datetime import UTC, datetime
from typing import Any, Final

from phalanx.clock import Clock, seeded_random

from phalanx_simulator.embedded.store import Object

_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_GENERATE_NAME_MAX: Final = 63 - _SUFFIX_LENGTH


def rfc3339(ms: int) -> str:
    """Milliseconds since the epoch as a timestamp with whole seconds."""
    return datetime.fromtimestamp(ms // 1000, tz=UTC).isoformat().replace("+00:00", "Z")


def seconds_of(timestamp: str) -> int:
    """A timestamp in whole seconds since the epoch."""
    return int(datetime.fromisoformat(timestamp).timestamp())


class Stamps:
    """Seeded source of UIDs, name suffixes and timestamps."""

    def __init__(self, *, clock: Clock, seed: int) -> None:
        self._clock = clock
        self._random = seeded_random(seed)

    def now(self, *, later_s: int = 0) -> str:
        """The time, or the time in a few seconds."""
        return rfc3339(self._clock.now_ms() + later_s * 1000)

    def uid(self) -> str:
        """A version 4 UUID."""
        bits = self._random.getrandbits(128)
        bits = bits & ~(0xF << 76) | (0x4 << 76)
        bits = bits & ~(0x3 << 62) | (0x2 << 62)
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def name(self, prefix: str) -> str:
        """A name for generateName."""
        suffix = "".join(self._random.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))
        return prefix[:_GENERATE_NAME_MAX] + suffix


def set_condition(conditions: list[Any], condition: Object) -> list[Any]:
    """Conditions with this one set by type; lastTransitionTime stays while the status stays."""
    for place, old in enumerate(conditions):
        if old.get("type") == condition["type"]:
            kept = old.get("status") == condition["status"] and "lastTransitionTime" in old
            changed = {**condition, "lastTransitionTime": old["lastTransitionTime"]} if kept else condition
            return [*conditions[:place], changed, *conditions[place + 1 :]]
    return [*conditions, condition]


def disruption_target(reason: str, message: str, *, now: str) -> Object:
    """The DisruptionTarget condition of a pod that a controller is about to delete."""
    why = {"reason": reason, "message": message}
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        **why,
    }


def is_ready(item: Object) -> bool:
    """Whether the condition Ready is True."""
    conditions = item["status"].get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def is_deleting(item: Object) -> bool:
    """Whether the object has a deletion timestamp."""
    return "deletionTimestamp" in item["metadata"]


def without(item: Object, *names: str) -> Object:
    """A copy without some of its fields."""
    return {name: value for name, value in item.items() if name not in names}
