"""Pods: their state in the API, with assumed nodes on top."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec import structs

from phalanx.cache.events import Assumed, Awaited, AwaitsDevices, ChangeLog, Forgotten
from phalanx.cache.namespace_terms import NamespaceTerms, has_terms
from phalanx.cache.table import Key, is_late
from phalanx.model.api import core
from phalanx.model.awaited_pods import is_awaited
from phalanx.model.conversion.cluster_objects import PriorityLevel
from phalanx.model.conversion.pods import read_pod
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.names import PodUid
from phalanx.model.pods import BindBackoff, Pod
from phalanx.model.spread_defaults import DefaultConstraint
from phalanx.model.workloads.known import KNOWN, WorkloadKinds


class PodTable:
    """Pods by UID. `changed(old, new, log)` is called when a pod is added, removed or changed.

    A pod stays assumed until the API shows a node (the API wins if it is another node), until the pod ends,
    or until it is forgotten.
    """

    def __init__(
        self,
        pods: dict[PodUid, Pod],
        *,
        changed: Callable[[Pod | None, Pod | None, ChangeLog], None],
        classes: Callable[[], Mapping[str, PriorityLevel]],
        annotation_keys: tuple[str, ...] = (),
        kinds: WorkloadKinds = KNOWN,
        default_spread: Sequence[DefaultConstraint] = (),
        with_images: bool = False,
        claim_states: Callable[[Pod], Pod],
        scheduler_name: str,
    ) -> None:
        """`pods` is filled here; the tables of gangs and devices read it.

        `claim_states` adds the states of claims to devices to a pod.
        """
        self._shapes = ShapeCache(default_spread=default_spread, with_images=with_images)
        self._read = partial(read_pod, shapes=self._shapes, annotation_keys=annotation_keys, kinds=kinds)
        self._classes = classes
        self._claim_states = claim_states
        self._changed = changed
        self._terms = NamespaceTerms(scheduler_name=scheduler_name)
        self._pods = pods
        self._uids: dict[Key, PodUid] = {}
        self._versions: dict[Key, int] = {}
        self._assumed: dict[PodUid, Assumed] = {}
        self._awaiting: set[PodUid] = set()
        """Assumed pods whose binds wait for devices."""
        self._holds: dict[PodUid, BindBackoff] = {}
        self._without_priority: dict[PodUid, core.Pod] = {}

    # --- events -------------------------------------------------------------------------------------------

    def apply(self, written: core.Pod, log: ChangeLog) -> None:
        """A pod was added or modified. A version older than the known one is ignored."""
        pod = self._read(written, classes=self._classes())
        key = (pod.namespace, pod.name)
        if is_late(self._versions, key, written.metadata.resource_version):
            return
        self._make_way(key, pod.uid, log)
        if written.spec.priority is None:
            self._without_priority[pod.uid] = written
        elif self._without_priority:
            self._without_priority.pop(pod.uid, None)
        self._uids[key] = pod.uid
        self._put(pod, log)

    def delete(self, key: Key, uid: str, log: ChangeLog) -> None:
        """A pod was deleted. If `uid` is set, only the pod with this UID is removed."""
        known = self._uids.get(key)
        if known is not None and uid in ("", known):
            self._remove(known, log)

    def await_(self, event: Awaited, log: ChangeLog) -> None:
        """Pods of a suspended workload came, changed, or are awaited no longer."""
        for written in event.pods:
            self.apply(written, log)
        for key in event.gone:
            self.delete(key, "", log)

    def keys(self) -> tuple[Key, ...]:
        """See ObjectStore. No list of the API has pods that are only awaited."""
        return tuple([key for key, uid in self._uids.items() if not is_awaited(uid)])

    def assume(self, assumed: Assumed, log: ChangeLog) -> None:
        """Assume the pod on this node, unless it has a node, has ended or is gone."""
        pod = self._pods.get(assumed.bind.pod)
        if pod is not None and (pod.node is None or pod.assumed) and not pod.is_finished:
            self._assumed[pod.uid] = assumed
            self._put(_unassumed(pod), log)

    def forget(self, forgotten: Forgotten, log: ChangeLog) -> None:
        """Undo the assumption. Nothing happens if the API has shown a node meanwhile."""
        if self._assumed.pop(forgotten.pod, None) is not None:
            self._awaiting.discard(forgotten.pod)
            if forgotten.bind_backoff is not None:
                self._holds[forgotten.pod] = forgotten.bind_backoff
            self._put(_unassumed(self._pods[forgotten.pod]), log)

    def set_awaits_devices(self, event: AwaitsDevices, log: ChangeLog) -> None:
        """The bind of a pod waits for devices, or does not any more. Nothing happens if it is not assumed."""
        if event.pod in self._assumed and event.is_so != (event.pod in self._awaiting):
            (self._awaiting.add if event.is_so else self._awaiting.remove)(event.pod)
            self._put(_unassumed(self._pods[event.pod]), log)

    def claims_changed(self, uid: PodUid, log: ChangeLog) -> None:
        """The states of claims to devices of this pod may be others."""
        pod = self._pods.get(uid)
        if pod is not None:
            self._put(_unassumed(pod), log)

    def forget_versions(self) -> None:
        """Accept the next versions as they are: a list is authoritative even if etcd was restored."""
        self._versions.clear()

    def classes_changed(self, log: ChangeLog) -> None:
        """Convert the pods again whose priority the API server has not filled in."""
        for written in tuple(self._without_priority.values()):
            self._put(self._read(written, classes=self._classes()), log)

    def _make_way(self, key: Key, uid: PodUid, log: ChangeLog) -> None:
        """Remove conflicting pods: a name belongs to one pod and a UID to one name; the latest event wins."""
        before = self._uids.get(key)
        if before is not None and before != uid:
            self._remove(before, log)
        known = self._pods.get(uid)
        if known is not None and (known.namespace, known.name) != key:
            self._remove(uid, log)

    def _put(self, pod: Pod, log: ChangeLog) -> None:
        """Store `pod` as it is in the API, and reapply or end its assumption."""
        if self._assumed and pod.uid in self._assumed:
            if pod.node is not None or pod.is_finished:
                del self._assumed[pod.uid]
                self._awaiting.discard(pod.uid)
            else:
                there = self._assumed[pod.uid]
                pod = structs.replace(
                    pod,
                    node=there.bind.node,
                    device=there.bind.device,
                    charged_queue=there.queue or None,
                    volumes=there.bind.volumes,
                    assumed=True,
                    awaits_devices=pod.uid in self._awaiting,
                )
        if self._holds and pod.uid in self._holds:
            if pod.node is None or pod.assumed:
                pod = structs.replace(pod, bind_backoff=self._holds[pod.uid])
            else:
                del self._holds[pod.uid]
        if pod.device_claims or pod.extended is not None:
            pod = self._claim_states(pod)
        if self._store(pod, log):
            self._terms_left(pod.namespace, log)

    def _store(self, pod: Pod, log: ChangeLog) -> bool:
        """Store the pod as it counts; return whether it had terms before, of which some may be gone."""
        old = self._pods.get(pod.uid)
        had_terms = old is not None and self._terms.concern(old)
        if had_terms or has_terms(pod):
            pod = self._terms.admit(pod)
        if old != pod:
            self._pods[pod.uid] = pod
            self._changed(old, pod, log)
        return had_terms

    def _terms_left(self, namespace: str, log: ChangeLog) -> None:
        """Pods that wait because of the terms of their namespace may be within the bound now."""
        while (uid := self._terms.first_in_line(namespace)) is not None:
            self._store(self._pods[uid], log)

    def _remove(self, uid: PodUid, log: ChangeLog) -> None:
        pod = self._pods.pop(uid)
        key = (pod.namespace, pod.name)
        del self._uids[key]
        self._versions.pop(key, None)
        self._assumed.pop(uid, None)
        self._awaiting.discard(uid)
        self._holds.pop(uid, None)
        self._without_priority.pop(uid, None)
        self._changed(pod, None, log)
        if self._terms.concern(pod):
            self._terms.remove(pod)
            self._terms_left(pod.namespace, log)

    # --- questions ----------------------------------------------------------------------------------------

    def get(self, uid: PodUid) -> Pod | None:
        """A pod, with its assumed node if it has one."""
        return self._pods.get(uid)

    def named(self, namespace: str, name: str) -> Pod | None:
        uid = self._uids.get((namespace, name))
        return self._pods.get(uid) if uid is not None else None

    def values(self) -> tuple[Pod, ...]:
        return tuple(self._pods.values())


def _unassumed(pod: Pod) -> Pod:
    """The pod as it is in the API."""
    if not pod.assumed:
        return pod
    return structs.replace(
        pod, node=None, device=None, charged_queue=None, volumes=(), assumed=False, awaits_devices=False
    )
