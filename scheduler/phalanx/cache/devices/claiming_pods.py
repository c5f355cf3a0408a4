"""Pods of this scheduler with claims to devices, and the states of the claims of those that wait.

A state is a digest of the claim in the entry of the pod. When it changes, so does the gang, and only this
gang is tried again.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from msgspec.msgpack import Encoder
from msgspec.structs import replace

from phalanx.cache.table import Key
from phalanx.model.names import PodUid
from phalanx.model.pods import Pod, PodClaim
from phalanx.model.supplies.devices.claims import Claim

_STATE_BYTES: Final = 8
_encode: Final = Encoder(order="sorted").encode

FindClaim = Callable[[Pod, PodClaim], Claim | None]
"""The claim of an entry of a pod."""


class ClaimingPods:
    """Which pods of this scheduler have claims, and which of them wait for which claim."""

    def __init__(self, *, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self._claiming: set[PodUid] = set()
        self._names: dict[PodUid, tuple[Key, ...]] = {}
        """By pod that waits, the claims that it names."""
        self._naming: dict[Key, dict[PodUid, None]] = {}
        self.were_any = False
        """Whether there ever was a pod with claims that was not refused."""

    @property
    def are_any(self) -> bool:
        """Whether a pod has claims that is not refused and has not ended."""
        return bool(self._claiming)

    @property
    def do_wait(self) -> bool:
        return bool(self._names)

    def is_ours(self, pod: Pod) -> bool:
        """Whether this scheduler decides about the pod."""
        return pod.scheduler_name == self._scheduler_name

    def naming(self, key: Key) -> tuple[PodUid, ...]:
        """The pods without a node that name the claim."""
        return tuple(self._naming.get(key, ()))

    def replace(self, uid: PodUid, pod: Pod | None) -> None:
        """A pod was added, changed or removed."""
        if pod is not None and (not pod.device_claims or not self.is_ours(pod)):
            pod = None
        if pod is None or pod.shape.unsupported or pod.is_finished:
            self._claiming.discard(uid)
        else:
            self._claiming.add(uid)
            self.were_any = True
        for key in self._names.pop(uid, ()):
            del self._naming[key][uid]
            if not self._naming[key]:
                del self._naming[key]
        if pod is not None and pod.is_waiting:
            self._names[uid] = _names(pod)
            for key in self._names[uid]:
                self._naming.setdefault(key, {})[uid] = None

    def with_states(self, pod: Pod, find: FindClaim) -> Pod:
        """The pod with the states of its claims if it waits for this scheduler, else without."""
        is_concerned = pod.is_waiting and self.is_ours(pod)
        entries = tuple(
            [
                replace(each, state=state_of(find(pod, each)) if is_concerned else "")
                for each in pod.device_claims
            ]
        )
        return pod if entries == pod.device_claims else replace(pod, device_claims=entries)


def _names(pod: Pod) -> tuple[Key, ...]:
    return tuple(dict.fromkeys((pod.namespace, each.claim) for each in pod.device_claims if each.claim))


def state_of(claim: Claim | None) -> str:
    """A digest of the claim; empty if it does not exist."""
    return "" if claim is None else blake2b(_encode(claim), digest_size=_STATE_BYTES).hexdigest()
