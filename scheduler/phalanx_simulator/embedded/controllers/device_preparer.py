"""A driver that prepares devices after their allocation, and before their pods are bound.

It writes the binding conditions of allocated devices into the status of their claims, after a while.
Annotations of a node, whose name is that of the pool, say how long that takes there and whether it fails.
"""

from functools import partial
from typing import Final

from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.controllers.resource_claims import CLAIMS
from phalanx_simulator.embedded.store import Change, Key, Object
from phalanx_simulator.embedded.work_queue import WorkQueue

BINDING: Final = {"bindingConditions": ["attached", "linked"], "bindingFailureConditions": ["broken"]}
"""What the driver publishes with each device."""
PREPARING_SECONDS: Final = "sim.phalanx.dev/preparing-seconds"
"""Annotation of a node: seconds that a device takes, instead of the driver's own."""
PREPARING_STOPPED: Final = "sim.phalanx.dev/preparing-stopped"
"""Annotation of a node: nothing is reported of its devices while it has this."""
PREPARING_FAILS: Final = "sim.phalanx.dev/preparing-fails"
"""Annotation of a node: its devices cannot be prepared while it has this."""

_ANNOTATIONS: Final = (PREPARING_SECONDS, PREPARING_STOPPED, PREPARING_FAILS)
_PLACE: Final = ("driver", "pool", "device")


class DevicePreparer:
    """Prepares the devices of one driver. The first condition is true after half of the time."""

    def __init__(self, client: Client, *, driver: str, delay_s: float) -> None:
        self._client = client
        self._driver = driver
        self._delay_s = delay_s
        self.failures = 0
        """Claims with devices that could not be prepared."""
        self._annotations: dict[str, Object] = {}
        self._queue = WorkQueue(self._sync)
        self._queue.follow(client, CLAIMS)
        self._unsubscribe = client.subscribe("nodes", self._node_changed)

    def close(self) -> None:
        """Report nothing more."""
        self._unsubscribe()
        self._queue.close()

    def _node_changed(self, change: Change) -> None:
        """Look at all claims again when annotations of a node have changed."""
        name = change.entry.key.name
        written = change.entry.data["metadata"].get("annotations") or {}
        found = {each: written[each] for each in _ANNOTATIONS if each in written}
        if found != self._annotations.get(name, {}):
            self._annotations[name] = found
            for key in self._client.keys(CLAIMS):
                self._queue.add(key)

    def _sync(self, key: Key) -> None:
        claim = self._client.get(key)
        missing = self._missing(claim)
        if claim is None or not missing:
            return
        pool = missing[0]["pool"]
        delay_s = float(self._annotations.get(pool, {}).get(PREPARING_SECONDS, self._delay_s))
        report = partial(self._report, key, _allocated_at(claim))
        self._queue.call_later(delay_s / 2, report)

    def _missing(self, claim: Object | None) -> list[Object]:
        """The results of this driver whose conditions are not all reported yet."""
        allocation = ((claim or {}).get("status") or {}).get("allocation") or {"devices": {}}
        reported = _true_conditions(claim or {})
        return [
            each
            for each in allocation["devices"].get("results") or ()
            if each["driver"] == self._driver
            and not {*each.get("bindingConditions", ())} <= reported.get(_place(each), set())
            and not {*each["bindingFailureConditions"]} & reported.get(_place(each), set())
        ]

    def _report(self, key: Key, allocated_at: str) -> None:
        """Report the next condition of all devices, unless the claim is another one now."""
        claim = self._client.get(key)
        missing = self._missing(claim)
        if claim is None or not missing or _allocated_at(claim) != allocated_at:
            return
        annotations = self._annotations.get(missing[0]["pool"], {})
        if PREPARING_STOPPED in annotations:
            return
        fails, reported = PREPARING_FAILS in annotations, _true_conditions(claim)
        self.failures += fails
        written = {_place(each): each for each in claim["status"].get("devices") or ()}
        for each in missing:
            true = [one for one in each["bindingConditions"] if one in reported.get(_place(each), ())]
            wanted = each["bindingFailureConditions"] if fails else each["bindingConditions"][len(true) :]
            conditions = [self._condition(one) for one in (*true, *wanted[:1])]
            place = _place(each)
            written[place] = {**dict(zip(_PLACE, place, strict=True)), "conditions": conditions}
        self._client.update_status(key, devices=list(written.values()))

    def _condition(self, kind: str) -> Object:
        message = "the fabric does not answer" if kind in BINDING["bindingFailureConditions"] else ""
        condition = {"type": kind, "status": "True", "reason": "Tried", "message": message}
        return {**condition, "lastTransitionTime": self._client.now()}


def _allocated_at(claim: Object) -> str:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return str(allocation.get("allocationTimestamp", ""))


def _place(each: Object) -> tuple[str, ...]:
    return tuple(each[name] for name in _PLACE)


def _true_conditions(claim: Object) -> dict[tuple[str, ...], set[str]]:
    """By device, the conditions that are true."""
    return {
        _place(each): {one["type"] for one in each.get("conditions") or () if one["status"] == "True"}
        for each in (claim.get("status") or {}).get("devices") or ()
    }
