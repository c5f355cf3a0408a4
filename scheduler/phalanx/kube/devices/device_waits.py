"""Gangs that have their devices, and wait until the drivers have prepared them.

A device may have binding conditions: its driver starts to prepare it when the claim is allocated, and reports
in the status of the claim. No pod of a gang is bound before all conditions of all its claims are true. Events
of the API end a wait: nothing is polled. An event that makes one of many claims ready costs a look at this
claim; only an event that may end the wait leads to a look at the whole gang.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from phalanx.clock import Clock
from phalanx.kube.binding import BinderCallbacks
from phalanx.kube.preparation import Unprepared
from phalanx.limits import CLAIM_CHECK_PERIOD_S
from phalanx.model.api.core import Pod
from phalanx.model.api.kinds import kind_name
from phalanx.model.api.meta import KubeObject
from phalanx.model.decisions import Bind, Placement
from phalanx.model.events import ApiEvent, Applied, Deleted
from phalanx.model.supplies.devices.api import ResourceClaim, ResourceSlice
from phalanx.model.supplies.devices.claims import AwaitedClaim
from phalanx.model.supplies.devices.limits import DEVICE_BIND_TIMEOUT_S

_CLAIM: Final = "ResourceClaim"
_SLICE: Final = "ResourceSlice"
_RULE: Final = "DeviceTaintRule"
_KINDS: Final = frozenset({_CLAIM, _SLICE, _RULE, "Pod", "Node"})

_Subject = tuple[str, str, str]
"""Kind, namespace and name of an object; of a pool of devices: the kind of its slices, driver and pool."""


class DevicesLate(Unprepared):
    """A binding condition was not true in time."""


class DeviceWait(Struct, eq=False):
    """A placement that may wait for its devices."""

    placement: Placement
    resume: Callable[[], None]
    """Called once for each time that the placement was held."""
    log: Any
    since: float | None = None
    """When its devices were first found not to be ready (monotonic seconds)."""
    users: dict[_Subject, Bind] = {}
    """Each claim of the gang with one of the pods that use it."""
    missing: dict[_Subject, AwaitedClaim] = {}
    subjects: tuple[_Subject, ...] = ()
    timer: asyncio.TimerHandle | None = None
    said: str = ""


class DeviceWaits:
    """Knows which placements wait, and which events concern them."""

    def __init__(self, clock: Clock, callbacks: BinderCallbacks) -> None:
        self._clock = clock
        self._callbacks = callbacks
        self._waits: dict[DeviceWait, None] = {}
        self._concerned: dict[_Subject, dict[DeviceWait, None]] = {}

    def hold(self, wait: DeviceWait, binds: Sequence[Bind]) -> bool:
        """Whether devices of these pods are not ready; `wait` is then resumed when that may have changed.

        Raises DevicesLate.
        """
        users = {(_CLAIM, each.namespace, each.name): bind for bind in binds for each in bind.grants}
        missing: dict[_Subject, AwaitedClaim] = {}
        for bind in binds:
            for each in self._callbacks.awaited_claims(bind) if bind.grants else ():
                subject = (_CLAIM, each.namespace, each.name)
                missing.setdefault(subject, each)
                users[subject] = bind
        if not missing:
            if wait.since is not None:
                wait.log.info("devices are ready")
                self._callbacks.on_awaited(wait.placement, "")
            return False
        now = self._clock.monotonic()
        if wait.since is None:
            wait.since = now
        left = wait.since + DEVICE_BIND_TIMEOUT_S - now
        if left <= 0:
            raise DevicesLate(f"{_first(missing)} after {DEVICE_BIND_TIMEOUT_S:.0f} seconds")
        self._begin(wait, users, missing, tuple(dict.fromkeys((*users, *_subjects(binds)))))
        # The loop and the clock may differ: too early is looked at again.
        later = max(left, CLAIM_CHECK_PERIOD_S)
        wait.timer = asyncio.get_running_loop().call_later(later, self._go_on, wait)
        self._say(wait)
        return True

    def _begin(
        self,
        wait: DeviceWait,
        users: dict[_Subject, Bind],
        missing: dict[_Subject, AwaitedClaim],
        subjects: tuple[_Subject, ...],
    ) -> None:
        wait.users, wait.missing, wait.subjects, wait.said = users, missing, subjects, ""
        self._waits[wait] = None
        for subject in subjects:
            self._concerned.setdefault(subject, {})[wait] = None

    def end(self, wait: DeviceWait) -> None:
        """The placement does not wait any more."""
        if wait not in self._waits:
            return
        del self._waits[wait]
        if wait.timer is not None:
            wait.timer.cancel()
        for subject in wait.subjects:
            concerned = self._concerned[subject]
            del concerned[wait]
            if not concerned:
                del self._concerned[subject]

    def resume_all(self) -> None:
        """Look at all placements again."""
        for wait in tuple(self._waits):
            self._go_on(wait)

    def notice(self, event: ApiEvent) -> None:
        """Resume the placements whose wait this event may end."""
        if not self._waits:
            return
        if isinstance(event, Applied):
            self._changed(event.object)
        elif event.kind in _KINDS:
            if isinstance(event, Deleted) and event.kind != _SLICE:
                self._resume_those((event.kind, event.namespace, event.name))
            else:
                self.resume_all()

    def _changed(self, item: KubeObject) -> None:
        meta = item.metadata
        if isinstance(item, ResourceClaim):
            is_kept = item.status.allocation is not None and meta.deletion_timestamp is None
            self._claim_changed((_CLAIM, meta.namespace, meta.name), is_kept=is_kept)
        elif isinstance(item, ResourceSlice):
            self._resume_those((_SLICE, item.spec.driver, item.spec.pool.name))
        elif isinstance(item, Pod):
            if meta.deletion_timestamp is not None or item.spec.node_name:
                self._resume_those(("Pod", meta.namespace, meta.name))
        elif kind_name(item) == _RULE:
            self.resume_all()

    def _claim_changed(self, subject: _Subject, *, is_kept: bool) -> None:
        """`is_kept`: the claim has an allocation, and is not being deleted."""
        for wait in tuple(self._concerned.get(subject, ())):
            found = next(self._awaited(wait, subject), None)
            if found is not None and found.can_only_wait:
                wait.missing[subject] = found
                self._say(wait)
                continue
            if found is None:
                wait.missing.pop(subject, None)
            if found is not None or not is_kept or not wait.missing:
                self._go_on(wait)
            else:
                self._say(wait)

    def _awaited(self, wait: DeviceWait, subject: _Subject) -> Iterator[AwaitedClaim]:
        for each in self._callbacks.awaited_claims(wait.users[subject]):
            if (each.namespace, each.name) == subject[1:]:
                yield each

    def _resume_those(self, subject: _Subject) -> None:
        for wait in tuple(self._concerned.get(subject, ())):
            self._go_on(wait)

    def _go_on(self, wait: DeviceWait) -> None:
        if wait in self._waits:
            self.end(wait)
            wait.resume()

    def _say(self, wait: DeviceWait) -> None:
        why = _first(wait.missing)
        if why != wait.said:
            wait.said = why
            wait.log.info("waiting for devices", why=why, claims=len(wait.missing))
            self._callbacks.on_awaited(wait.placement, why)


def _first(missing: dict[_Subject, AwaitedClaim]) -> str:
    return str(next(iter(missing.values())))


def _subjects(binds: Sequence[Bind]) -> Iterator[_Subject]:
    """What may end a wait, beside the claims: the pods, their nodes, and the pools of their devices."""
    for bind in binds:
        yield "Pod", bind.namespace, bind.name
        yield "Node", "", bind.node
        for grant in bind.grants:
            for device in grant.allocation.devices if grant.allocation is not None else ():
                yield (_SLICE, *device.device[:2])
