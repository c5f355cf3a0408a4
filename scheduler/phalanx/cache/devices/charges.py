"""What the queues of placed pods are charged for devices of claims.

A claim is charged to one of its users: of the pods of this scheduler that have a node and have not ended, the
first one for which the claim is reserved, by creation and UID. When this pod ends, the next one is charged.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from phalanx.cache.table import Key
from phalanx.model.names import PodUid
from phalanx.model.pods import ClaimCharge, Pod
from phalanx.model.supplies.devices.charges import charge_of, charges_of_names, most_of
from phalanx.model.supplies.devices.claims import Claim, DeviceClass


class _Placed(Struct, frozen=True):
    """A placed pod: the claims that it uses, and what decides which of their users is charged."""

    claims: tuple[Key, ...]
    assumed: bool
    created: int


_NONE: Final = _Placed((), assumed=False, created=0)


class DeviceCharges:
    """The placed pods that use each claim, and which of them is charged for it."""

    def __init__(
        self,
        *,
        scheduler_name: str,
        pod: Callable[[PodUid], Pod | None],
        claim: Callable[[Key], Claim | None],
        classes: Callable[[], Mapping[str, DeviceClass]],
    ) -> None:
        """`pod` returns a pod, with its assumed node."""
        self._scheduler_name = scheduler_name
        self._pod, self._claim, self._classes = pod, claim, classes
        self._placed: dict[PodUid, _Placed] = {}
        """The placed pods with claims or extended resources."""
        self._users: dict[Key, dict[PodUid, None]] = {}
        self._charged: dict[Key, PodUid] = {}
        """By claim, the pod that is charged."""

    def of(self, pod: Pod) -> tuple[ClaimCharge, ...]:
        """The charges of a pod, as it is to be stored."""
        if pod.scheduler_name != self._scheduler_name or pod.is_finished:
            return ()
        charges: tuple[ClaimCharge, ...] = ()
        if pod.extended is not None:
            charges = charges_of_names(pod.shape.requests, self._classes())
        if not pod.holds_node:
            return charges
        for key in _used_by(pod):
            claim = self._claim(key)
            if claim is not None and claim.allocation and self._charged.get(key, pod.uid) == pod.uid:
                amounts = charge_of(claim, self._classes())
                charges += (ClaimCharge(amounts, claim="/".join(key)),) if amounts else ()
        return charges

    def replace(self, uid: PodUid, pod: Pod | None) -> tuple[PodUid, ...]:
        """A pod was added, changed or removed; the pods whose charges may be others now."""
        before, after = self._placed.pop(uid, _NONE), self._of_placed(pod)
        if after is not _NONE:
            self._placed[uid] = after
        if after == before:
            return ()
        for key in before.claims:
            del self._users[key][uid]
            if not self._users[key]:
                del self._users[key]
        for key in after.claims:
            self._users.setdefault(key, {})[uid] = None
        return self._chosen_again((*before.claims, *after.claims))

    def claim_changed(self, key: Key) -> tuple[PodUid, ...]:
        """A claim was added, changed or removed; the pods whose charges may be others now."""
        changed = dict.fromkeys(self._chosen_again((key,)))
        if key in self._charged:
            changed[self._charged[key]] = None
        return tuple(changed)

    def is_less_than_counted(self, key: Key) -> bool:
        """Whether less is charged for a claim that pods have got than the decision counted: it may have got
        fewer devices than the most, and each queue whose pods started with it counted it."""
        claim = self._claim(key)
        if claim is None or claim.allocation is None:
            return False
        most = most_of(claim.spec, self._classes())
        return len(self._users.get(key, ())) > 1 or charge_of(claim, self._classes()) != most

    @property
    def pods(self) -> tuple[PodUid, ...]:
        """The placed pods with claims or extended resources."""
        return tuple(self._placed)

    def _of_placed(self, pod: Pod | None) -> _Placed:
        if pod is None or pod.scheduler_name != self._scheduler_name or not pod.holds_node:
            return _NONE
        if not pod.device_claims and pod.extended is None:
            return _NONE
        return _Placed(_used_by(pod), pod.assumed, pod.created)

    def _chosen_again(self, keys: Iterable[Key]) -> tuple[PodUid, ...]:
        changed: dict[PodUid, None] = {}
        for key in dict.fromkeys(keys):
            before, after = self._charged.pop(key, None), self._first(key)
            if after is not None:
                self._charged[key] = after
            if after != before:
                changed.update((uid, None) for uid in (before, after) if uid is not None)
        return tuple(changed)

    def _first(self, key: Key) -> PodUid | None:
        users = self._users.get(key)
        if users is None or len(users) == 1:
            return next(iter(users), None) if users is not None else None
        claim = self._claim(key)
        reserved = frozenset(claim.reserved_for) if claim is not None else frozenset()
        pods = [pod for uid in users if (pod := self._pod(uid)) is not None]
        first = min(
            pods,
            key=lambda each: (not (each.assumed or each.uid in reserved), each.created, each.uid),
            default=None,
        )
        return first.uid if first is not None else None


def _used_by(pod: Pod) -> tuple[Key, ...]:
    entries = [each for each in pod.device_claims if each.claim and not each.is_for_extended]
    return tuple(dict.fromkeys((pod.namespace, each.claim) for each in entries if not each.is_needless))
