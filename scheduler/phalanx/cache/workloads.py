"""Workloads: which one the pods of a controller belong to.

A chain of controllers is followed once for all pods of a controller, and again when an object in it changes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from msgspec import Struct

from phalanx.cache.events import ChangeLog
from phalanx.cache.table import Key, Table
from phalanx.limits import OWNER_CHAIN_MAX
from phalanx.model.api.kinds import kind_named
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.conversion.pod_groups import GangKey, gang_key
from phalanx.model.conversion.workload_members import Workload
from phalanx.model.conversion.workloads import read_workload
from phalanx.model.gangs import GangKind
from phalanx.model.names import PodUid
from phalanx.model.pods import Controller, Pod
from phalanx.model.reasons import Objection, Reason
from phalanx.model.workloads.known import POD, WorkloadKinds

OwnerId = tuple[str, str]
"""Namespace and UID of a controller of pods."""

_NONE: Final[Mapping[PodUid, Pod]] = {}


class ForeignMembers:
    """Pods that name another scheduler, by controller: a role whose pods these are is not waited for."""

    def __init__(self, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self._pods: dict[OwnerId, dict[PodUid, Pod]] = {}

    def __bool__(self) -> bool:
        return bool(self._pods)

    def of(self, owner: OwnerId) -> Mapping[PodUid, Pod]:
        return self._pods.get(owner, _NONE)

    def replace(self, old: Pod | None, new: Pod | None) -> list[tuple[str, Controller]]:
        """A pod was added, changed or removed: the namespaces and controllers whose gang this concerns."""
        ours = self._scheduler_name
        if (old is None or old.scheduler_name == ours) and (new is None or new.scheduler_name == ours):
            return []
        before, after = self._controller(old), self._controller(new)
        if before is not None and old is not None:
            found = self._pods[old.namespace, before.uid]
            del found[old.uid]
            if not found:
                del self._pods[old.namespace, before.uid]
        if after is not None and new is not None:
            self._pods.setdefault((new.namespace, after.uid), {})[new.uid] = new
        if old is not None and new is not None and before == after:
            is_same = (old.role, old.all_labels) == (new.role, new.all_labels)
            before, after = (None, None) if is_same else (before, None)
        ends = ((old, before), (new, after))
        return [(pod.namespace, each) for pod, each in ends if pod is not None and each is not None]

    def _controller(self, pod: Pod | None) -> Controller | None:
        if pod is None or pod.controller is None or pod.scheduler_name == self._scheduler_name:
            return None
        return pod.controller if gang_key(pod).kind is GangKind.WORKLOAD else None


_NOT_YET: Final = "not listed yet"


class _Chain(Struct):
    """The chain above the pods of one controller."""

    controller: Controller
    root: Controller | None
    """The outermost workload; None if only pods are above."""
    key: GangKey | None
    """The gang, of which a part may be one of its own; None without a workload."""
    passes: tuple[str, ...]
    """UIDs of the controllers in the chain, known or not."""
    kinds: tuple[str, ...]
    """Their kinds."""
    pods: int = 0
    """Pods that count on it."""


class WorkloadTable:
    """Objects that own pods, by kind.

    `moved(controller, old, new, log)`: the pods of this controller belong to another gang now, None for one
    each. `changed(gang, old, new, log)`: a workload changed that is above pods of this gang. `pod(uid)` is
    the pod of this UID, of any scheduler.
    """

    def __init__(
        self,
        *,
        scheduler_name: str,
        moved: Callable[[str, GangKey | None, GangKey | None, ChangeLog], None],
        changed: Callable[[GangKey, Workload | None, Workload | None, ChangeLog], None],
        pod: Callable[[PodUid], Pod | None],
        kinds: WorkloadKinds,
    ) -> None:
        self.kinds = kinds
        self.tables: Mapping[str, Table[WorkloadObject, Workload]] = {
            name: Table(
                read=partial(read_workload, kind, scheduler_name, kinds=kinds), changed=self._object_changed
            )
            for name, kind in kinds.by_name.items()
        }
        self._moved = moved
        self._changed = changed
        self._pod = pod
        self._by_uid: dict[str, Workload] = {}
        self._chains: dict[OwnerId, _Chain] = {}
        self._through: dict[str, dict[OwnerId, None]] = {}
        self._not_listed: dict[str, str] = dict.fromkeys(kinds.by_name, _NOT_YET)
        self._foreign = ForeignMembers(scheduler_name)
        self._owned: dict[str, dict[str, None]] = {}
        """UIDs of workloads by the UID of their controller."""

    # --- events -------------------------------------------------------------------------------------------

    def key_of(self, namespace: str, controller: Controller, log: ChangeLog) -> GangKey | None:
        """The gang of the pods of a controller: of the outermost known workload above them. None without
        one."""
        chain = self._chains.get((namespace, controller.uid))
        if chain is None:
            chain = self._follow(namespace, controller, log)
            self._put(chain, namespace)
        return chain.key

    def count(self, namespace: str, controller: Controller, pods: int) -> None:
        """So many more pods, or fewer, count on the chain of this controller, which `key_of` has followed."""
        owner = (namespace, controller.uid)
        chain = self._chains[owner]
        chain.pods += pods
        if not chain.pods:
            self._drop(owner)

    def set_listed(self, kind: str, why_not: str, log: ChangeLog) -> None:
        """All objects of the kind are known, or cannot be known because of the error `why_not`."""
        if self._not_listed.get(kind, "") == why_not:
            return
        if why_not:
            self._not_listed[kind] = why_not
        else:
            del self._not_listed[kind]
        for key in dict.fromkeys(chain.key for chain in self._chains.values()):
            if key is not None and key.dialect == kind and self.get(key) is None:
                self._changed(key, None, None, log)

    def pod_changed(self, old: Pod | None, new: Pod | None, log: ChangeLog) -> None:
        """A pod was added, changed or removed, which may own other pods, or be one of another scheduler."""
        for namespace, controller in self._foreign.replace(old, new):
            self._changed_below(namespace, controller, log)
        pod = new or old
        if pod is None or pod.uid not in self._through:
            return
        if old is None or new is None or old.controller != new.controller:
            for owner in tuple(self._through[pod.uid]):
                self._follow_again(owner, log)

    def _changed_below(self, namespace: str, controller: Controller, log: ChangeLog) -> None:
        """Pods of another scheduler, or a Job without pods, may be in a workload of which pods are ours."""
        key = self._follow(namespace, controller, ChangeLog()).key if self._chains else None
        if key is not None:
            self._changed(key, None, None, log)

    def _object_changed(self, _key: Key, old: Workload | None, new: Workload | None, log: ChangeLog) -> None:
        if old is not None and (new is None or new.group.uid != old.group.uid):
            self._replaced(old, None, log)
            old = None
        if new is not None:
            self._replaced(old, new, log)

    def _replaced(self, old: Workload | None, new: Workload | None, log: ChangeLog) -> None:
        """One object, of one UID, was added, changed or removed."""
        present = new or old
        assert present is not None
        uid = present.group.uid
        if new is None:
            self._by_uid.pop(uid, None)
        else:
            self._by_uid[uid] = new
        if old is None or new is None or old.owner != new.owner:
            self._index_owner(uid, old, new)
            if self._foreign.of((present.group.namespace, uid)):
                controller = Controller(kind="", name="", uid=uid, workload=present.kind)
                self._changed_below(present.group.namespace, controller, log)
        ended = {each.ended_role if each is not None else None for each in (old, new)}
        if present.owner is not None and len(ended) > 1:
            self._changed_below(present.group.namespace, present.owner, log)
        gangs: dict[GangKey, None] = {}
        for owner in tuple(self._through.get(uid, ())):
            chain = self._chains[owner]
            if old is None or new is None or old.owner != new.owner:
                chain = self._follow_again(owner, log)
            if chain.key is not None:
                gangs[chain.key] = None
        for key in gangs:
            self._changed(key, old, new, log)

    def _index_owner(self, uid: str, old: Workload | None, new: Workload | None) -> None:
        if old is not None and old.owner is not None:
            siblings = self._owned[old.owner.uid]
            del siblings[uid]
            if not siblings:
                del self._owned[old.owner.uid]
        if new is not None and new.owner is not None:
            self._owned.setdefault(new.owner.uid, {})[uid] = None

    def _follow_again(self, owner: OwnerId, log: ChangeLog) -> _Chain:
        before = self._chains[owner]
        chain = self._follow(owner[0], before.controller, log)
        chain.pods = before.pods
        self._drop(owner)
        self._put(chain, owner[0])
        if chain.key != before.key:
            self._moved(owner[1], before.key, chain.key, log)
        return chain

    def _follow(self, namespace: str, controller: Controller, log: ChangeLog) -> _Chain:
        """Owners are compared by UID and namespace: a name could be that of another object by now.

        Pods are no workloads: they lead to their owners.
        """
        passes: list[str] = []
        current: Controller | None = controller
        outermost: Controller | None = None
        workloads: list[Controller] = []
        while current is not None and current.workload and len(passes) < OWNER_CHAIN_MAX:
            passes.append(current.uid)
            outermost = current
            if current.workload == POD:
                pod = self._known_pod(namespace, current)
                outermost = current if pod is None else next(reversed(workloads), None)
                current = pod.controller if pod is not None else None
            else:
                workloads.append(current)
                found = self._known(namespace, current)
                current = found.owner if found is not None else None
        key = None
        if outermost is not None:
            key = GangKey(GangKind.WORKLOAD, namespace, outermost.uid, outermost.workload)
        kinds = self._to_read(workloads)
        log.workload_kinds(kinds)
        return _Chain(controller, outermost, key, tuple(dict.fromkeys(passes)), kinds)

    def _to_read(self, workloads: Iterable[Controller]) -> tuple[str, ...]:
        """The kinds of these, and those through which they make pods."""
        names = [each.workload for each in workloads]
        through = [other for name in names for other in self.kinds.by_name[name].through]
        return tuple(dict.fromkeys([*names, *[other for other in through if other in self.kinds.by_name]]))

    def _known_pod(self, namespace: str, controller: Controller) -> Pod | None:
        pod = self._pod(PodUid(controller.uid))
        return pod if pod is not None and pod.namespace == namespace else None

    def _known(self, namespace: str, controller: Controller) -> Workload | None:
        found = self._by_uid.get(controller.uid)
        if found is None or (found.kind, found.group.namespace) != (controller.workload, namespace):
            return None
        return found

    def _put(self, chain: _Chain, namespace: str) -> None:
        owner = (namespace, chain.controller.uid)
        self._chains[owner] = chain
        for uid in chain.passes:
            self._through.setdefault(uid, {})[owner] = None

    def _drop(self, owner: OwnerId) -> None:
        for uid in self._chains.pop(owner).passes:
            through = self._through[uid]
            del through[owner]
            if not through:
                del self._through[uid]

    # --- questions ----------------------------------------------------------------------------------------

    @property
    def needed(self) -> tuple[str, ...]:
        """The kinds of the objects above pods of ours."""
        return tuple(dict.fromkeys(kind for chain in self._chains.values() for kind in chain.kinds))

    def get(self, key: GangKey) -> Workload | None:
        found = self._by_uid.get(key.name)
        if found is None or (found.kind, found.group.namespace) != (key.dialect, key.namespace):
            return None
        return found

    def foreign_roles(self, key: GangKey, pods: Iterable[Pod]) -> frozenset[str]:
        """The roles of pods of other schedulers in the workload of a gang, in the same part of it. `pods`:
        those of ours."""
        if not self._foreign:
            return frozenset()
        part_label = self.kinds.by_name[key.dialect].part_label
        found: dict[PodUid, Pod] = {}
        waiting = [key.name, *(pod.uid for pod in pods)]
        seen = set(waiting)
        while waiting:
            owner = waiting.pop()
            inside = self._foreign.of((key.namespace, owner))
            found.update(inside)
            below = [uid for uid in (*inside, *self._owned.get(owner, ())) if uid not in seen]
            seen.update(below)
            waiting += below
        roles = [
            pod.role
            for pod in found.values()
            if not part_label or dict(pod.all_labels).get(part_label, "") == key.part
        ]
        return frozenset(roles)

    def ended_roles(self, key: GangKey, pods: Iterable[Pod]) -> Mapping[str, int]:
        """How many Jobs of each role of a workload have succeeded and own none of its pods."""
        owned = self._owned.get(key.name, {})
        there = {pod.controller.uid for pod in pods if pod.controller is not None} if owned else ()
        roles = [self._by_uid[uid].ended_role for uid in owned if uid not in there]
        return Counter([role for role in roles if role is not None])

    def owned_by(self, uid: str) -> frozenset[str]:
        """UIDs of all workloads that this one owns, directly or through others."""
        owned: dict[str, None] = {}
        waiting = [uid]
        while waiting:
            below = [each for each in self._owned.get(waiting.pop(), ()) if each not in owned]
            owned.update(dict.fromkeys(below))
            waiting += below
        return frozenset(owned)

    def of_uid(self, uid: str) -> Workload | None:
        return self._by_uid.get(uid)

    def root(self, namespace: str, controller: Controller) -> Controller:
        """The outermost workload above the pods of this controller, which `key_of` has followed and found."""
        root = self._chains[namespace, controller.uid].root
        assert root is not None
        return root

    def missing(self, namespace: str, root: Controller) -> Objection:
        """Why nothing is known of this workload."""
        kind = kind_named(root.workload, self.kinds)
        what = f"{kind.api_name} {namespace}/{root.name}"
        why = self._not_listed.get(root.workload)
        if why == _NOT_YET:
            message, step = f"{what} is not known yet: {kind.resource} are being listed", "Wait a moment"
        elif why is not None:
            message = f"{what} cannot be read: {why}"
            step = f"Allow the scheduler to list and watch {kind.resource}"
        else:
            message = f"{what} with the UID {root.uid} does not exist"
            step = f"Delete the pod: only a {kind.api_name} that exists can complete the gang"
        return Objection(Reason.WORKLOAD_NOT_FOUND, message, step)
