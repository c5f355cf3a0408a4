"""Extended resources that pods of this scheduler request, and which of them devices satisfy.

DeviceClasses are watched from the first pod with claims on, and from the first pod on that requests a
resource which no node offers: only a class can say that devices satisfy it.
"""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from phalanx.model.names import PodUid
from phalanx.model.pods import Pod, PodClaim
from phalanx.model.supplies.devices.claims import DeviceClass
from phalanx.model.supplies.devices.extended_resource_claims import extended_resources
from phalanx.model.supplies.devices.extended_resources import CLASS_PREFIX, EXTENDED_RESOURCE_CLAIM

_ENTRY = PodClaim(EXTENDED_RESOURCE_CLAIM, "", is_own=True, is_for_extended=True)


class ExtendedUse:
    """Pods of this scheduler by the extended resources that they request, and the classes of these."""

    def __init__(self, *, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self._users: dict[str, dict[PodUid, None]] = {}
        self._resources: dict[PodUid, tuple[str, ...]] = {}
        self._classes: Mapping[str, str] = {}
        self.are_sought = False
        """Whether a pod requested a resource that no node offers: DeviceClasses must be known."""

    @property
    def satisfied(self) -> dict[str, str]:
        """The resources that pods request and devices satisfy, each with its class."""
        return {name: found for name, found in self._classes.items() if name in self._users}

    def is_concerned(self, pod: Pod) -> bool:
        """Whether the pod counts here."""
        is_ours = pod.scheduler_name == self._scheduler_name
        return is_ours and pod.extended is not None and not pod.is_finished

    def replace(self, uid: PodUid, pod: Pod | None) -> bool:
        """A pod was added, changed or removed; whether there are more or fewer resources with users."""
        asked = pod.extended if pod is not None and self.is_concerned(pod) else None
        after = asked.resources if asked is not None else ()
        before = self._resources.pop(uid, ())
        if after:
            self._resources[uid] = after
        changed = False
        for name in after:
            changed = changed or name not in self._users
            self._users.setdefault(name, {})[uid] = None
        for name in before:
            if name not in after:
                del self._users[name][uid]
            if not self._users[name]:
                del self._users[name]
                changed = True
        return changed

    def classes_changed(self, classes: Mapping[str, DeviceClass]) -> tuple[PodUid, ...]:
        """The classes are others; which pods request a resource that this concerns."""
        before, self._classes = self._classes, extended_resources(classes)
        names = [name for name in self._users if before.get(name) != self._classes.get(name)]
        return tuple(dict.fromkeys(uid for name in names for uid in self._users[name]))

    def seek(self, is_offered: Callable[[str], bool]) -> bool:
        """Whether classes are sought, now that nodes offer other resources or pods request others."""
        if not self.are_sought:
            self.are_sought = any(
                name.startswith(CLASS_PREFIX) or not is_offered(name) for name in self._users
            )
        return self.are_sought

    def with_claim(self, pod: Pod) -> Pod:
        """The pod with an entry for the claim that it may need, while it has no node in the API."""
        needs = self.is_concerned(pod) and (pod.node is None or pod.assumed) and self._is_satisfied(pod)
        entries = tuple([each for each in pod.device_claims if not each.is_for_extended or each.claim])
        if needs:
            entries = (*entries, next((each for each in pod.device_claims if _is_entry(each)), _ENTRY))
        return pod if entries == pod.device_claims else replace(pod, device_claims=entries)

    def _is_satisfied(self, pod: Pod) -> bool:
        return pod.extended is not None and any(name in self._classes for name in pod.extended.resources)


def _is_entry(each: PodClaim) -> bool:
    return each.is_for_extended and not each.claim
