"""Pods: what the API says of them, and on top of it what we have decided and the API does not say yet."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import structs

from phalanx.cache.events import Assumed, ChangeLog, Forgotten
from phalanx.cache.table import Key
from phalanx.model.api import core
from phalanx.model.conversion.cluster_objects import PriorityLevel
from phalanx.model.conversion.pods import read_pod
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.names import PodUid
from phalanx.model.pods import BindBackoff, Pod

_VERSION_DIGITS: Final = 19


class PodTable:
    """Pods by UID. `changed(old, new, log)` is called when one comes, goes or differs.

    An assumed pod is on its node until the API names one (ours or another's: the API wins), until it ends, or
    until it is forgotten.
    """

    def __init__(
        self,
        *,
        changed: Callable[[Pod | None, Pod | None, ChangeLog], None],
        classes: Callable[[], Mapping[str, PriorityLevel]],
        annotation_keys: tuple[str, ...] = (),
    ) -> None:
        self._annotation_keys = annotation_keys
        self._changed = changed
        self._classes = classes
        self._shapes = ShapeCache()
        self._pods: dict[PodUid, Pod] = {}
        self._uids: dict[Key, PodUid] = {}
        self._versions: dict[Key, int] = {}
        self._assumed: dict[PodUid, Assumed] = {}
        self._holds: dict[PodUid, BindBackoff] = {}
        self._without_priority: dict[PodUid, core.Pod] = {}

    # --- events -------------------------------------------------------------------------------------------

    def apply(self, written: core.Pod, log: ChangeLog) -> None:
        """A pod was added or modified. A version older than the one known is a late echo and is ignored."""
        pod = self._read(written)
        key = (pod.namespace, pod.name)
        if self._is_late(key, written.metadata.resource_version):
            return
        self._make_way(key, pod.uid, log)
        if written.spec.priority is None:
            self._without_priority[pod.uid] = written
        elif self._without_priority:
            self._without_priority.pop(pod.uid, None)
        self._uids[key] = pod.uid
        self._put(pod, log)

    def delete(self, key: Key, uid: str, log: ChangeLog) -> None:
        """A pod is gone; with a `uid`, only if it is that very one."""
        known = self._uids.get(key)
        if known is not None and uid in ("", known):
            self._remove(known, log)

    def keys(self) -> tuple[Key, ...]:
        """Every known pod."""
        return tuple(self._uids)

    def assume(self, assumed: Assumed, log: ChangeLog) -> None:
        """Count this pod as being on this node, unless it has a node, has ended or is gone."""
        pod = self._pods.get(assumed.pod)
        if pod is not None and (pod.node is None or pod.assumed) and not pod.is_finished:
            self._assumed[pod.uid] = assumed
            self._put(_unassumed(pod), log)

    def forget(self, forgotten: Forgotten, log: ChangeLog) -> None:
        """Take the assumption back; nothing happens where the API has named a node meanwhile."""
        if self._assumed.pop(forgotten.pod, None) is not None:
            if forgotten.bind_backoff is not None:
                self._holds[forgotten.pod] = forgotten.bind_backoff
            self._put(_unassumed(self._pods[forgotten.pod]), log)

    def forget_versions(self) -> None:
        """Take what comes next as it is: a list is the truth even where the server was set back in time."""
        self._versions.clear()

    def classes_changed(self, log: ChangeLog) -> None:
        """Read again the pods whose priority no API server has filled in."""
        for written in tuple(self._without_priority.values()):
            self._put(self._read(written), log)

    def _read(self, written: core.Pod) -> Pod:
        return read_pod(
            written,
            shapes=self._shapes,
            classes=self._classes(),
            annotation_keys=self._annotation_keys,
        )

    def _make_way(self, key: Key, uid: PodUid, log: ChangeLog) -> None:
        """A name has one pod and a UID one name: the newer word counts."""
        before = self._uids.get(key)
        if before is not None and before != uid:
            self._remove(before, log)
        known = self._pods.get(uid)
        if known is not None and (known.namespace, known.name) != key:
            self._remove(uid, log)

    def _is_late(self, key: Key, version: str) -> bool:
        """Pods also arrive by other ways than the watch. Versions are numbers that grow over all pods."""
        if not (version.isascii() and version.isdigit() and len(version) <= _VERSION_DIGITS):
            return False
        number = int(version)
        late = number < self._versions.get(key, 0)
        if not late:
            self._versions[key] = number
        return late

    def _put(self, pod: Pod, log: ChangeLog) -> None:
        """`pod` is as the API has it; the assumption comes on top, or ends here."""
        if self._assumed and pod.uid in self._assumed:
            if pod.node is not None or pod.is_finished:
                del self._assumed[pod.uid]
            else:
                there = self._assumed[pod.uid]
                pod = structs.replace(pod, node=there.node, device=there.device, assumed=True)
        if self._holds and pod.uid in self._holds:
            if pod.node is None or pod.assumed:
                pod = structs.replace(pod, bind_backoff=self._holds[pod.uid])
            else:
                del self._holds[pod.uid]
        old = self._pods.get(pod.uid)
        if old != pod:
            self._pods[pod.uid] = pod
            self._changed(old, pod, log)

    def _remove(self, uid: PodUid, log: ChangeLog) -> None:
        pod = self._pods.pop(uid)
        key = (pod.namespace, pod.name)
        del self._uids[key]
        self._versions.pop(key, None)
        self._assumed.pop(uid, None)
        self._holds.pop(uid, None)
        self._without_priority.pop(uid, None)
        self._changed(pod, None, log)

    # --- questions ----------------------------------------------------------------------------------------

    def get(self, uid: PodUid) -> Pod | None:
        """A pod, assumed where it is."""
        return self._pods.get(uid)

    def values(self) -> tuple[Pod, ...]:
        """Every pod."""
        return tuple(self._pods.values())

    def check(self) -> None:
        """Assert that the indices agree and that no assumption outlives its reason."""
        assert {
            key: pod.uid for pod in self._pods.values() for key in [(pod.namespace, pod.name)]
        } == self._uids
        assert self._versions.keys() <= self._uids.keys(), "versions of pods that are gone"
        assert self._without_priority.keys() <= self._pods.keys(), "manifests of pods that are gone"
        assert self._holds == {
            pod.uid: pod.bind_backoff for pod in self._pods.values() if pod.bind_backoff is not None
        }
        assert self._assumed == {
            pod.uid: Assumed(pod.uid, pod.node, pod.device)
            for pod in self._pods.values()
            if pod.assumed and pod.node is not None
        }


def _unassumed(pod: Pod) -> Pod:
    """The pod as the API has it."""
    return structs.replace(pod, node=None, device=None, assumed=False) if pod.assumed else pod
