"""Tables of ResourceSlices, DeviceTaintRules, DeviceClasses and ResourceClaims.

These kinds are watched from the first pod of this scheduler on that has claims and is not refused. A claim as
it is shown to others has the allocation that this scheduler assumes for it. What follows from claims is kept
by claim, so that the cost of an event and of a check before a bind does not grow with their number.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct, structs

from phalanx.cache.devices.charges import DeviceCharges
from phalanx.cache.devices.claiming_pods import ClaimingPods
from phalanx.cache.devices.extended_resource_claims import ExtendedResourceClaims
from phalanx.cache.devices.extended_use import ExtendedUse
from phalanx.cache.devices.grant_check import GrantCheck
from phalanx.cache.devices.leftover_claims import holders, is_unready, leftover_claims
from phalanx.cache.devices.users import ClaimUsers, PublishedDevices, frees
from phalanx.cache.events import ChangeLog
from phalanx.cache.supply_tables import SupplyTables
from phalanx.cache.table import Key, ObjectStore, Table, VersionedTable
from phalanx.model.api.kinds import DEVICE_KINDS
from phalanx.model.decisions import Bind, GiveBack
from phalanx.model.names import PodUid
from phalanx.model.nodes import Node
from phalanx.model.pods import Pod, PodClaim
from phalanx.model.supplies.devices import api as devices
from phalanx.model.supplies.devices.claims import Allocation, AwaitedClaim, Claim, ClaimGrant, DeviceClass
from phalanx.model.supplies.devices.cluster import ClusterDevices
from phalanx.model.supplies.devices.pools import Slice, TaintRule
from phalanx.model.supplies.devices.read import (
    read_device_class,
    read_resource_claim,
    read_slice,
    read_taint_rule,
)


class _Assumed(Struct, frozen=True):
    """An allocation that this scheduler decided for pods that are not bound yet, or not seen with it."""

    allocation: Allocation
    pods: tuple[PodUid, ...]


class DeviceTables(SupplyTables):
    """The kinds that describe devices, and the allocations that the API does not show yet."""

    name = ClusterDevices.supply

    def __init__(
        self,
        *,
        scheduler_name: str,
        pod: Callable[[PodUid], Pod | None],
        changed: Callable[[PodUid, ChangeLog], None],
    ) -> None:
        """`pod` returns a pod, with its assumed node. `changed` is called for a pod that waits when one of
        its claims has changed."""
        self.slices: Table[devices.ResourceSlice, Slice] = Table(read=read_slice, changed=self._slice_changed)
        self.classes: Table[devices.DeviceClass, DeviceClass] = Table(
            read=read_device_class, changed=self._class_changed
        )
        self.claims: VersionedTable[devices.ResourceClaim, Claim] = VersionedTable(
            read=read_resource_claim, changed=self._claim_changed
        )
        self.rules: Table[devices.DeviceTaintRule, TaintRule | None] = Table(
            read=read_taint_rule, changed=self._rule_changed
        )
        self.tables: dict[str, ObjectStore[Any]] = {
            "ResourceSlice": self.slices,
            "DeviceClass": self.classes,
            "ResourceClaim": self.claims,
            "DeviceTaintRule": self.rules,
        }
        self._pod, self._pod_has_changed = pod, changed
        self._pods = ClaimingPods(scheduler_name=scheduler_name)
        self._extended = ExtendedUse(scheduler_name=scheduler_name)
        self._extended_claims = ExtendedResourceClaims()
        self._shown: dict[Key, Claim] = {}
        """The claims, with what is assumed for them."""
        self._charges = DeviceCharges(
            scheduler_name=scheduler_name, pod=pod, claim=self._shown.get, classes=self.classes.by_name
        )
        self._are_sorted = True
        self._keys: dict[str, dict[Key, None]] = {}
        """The claims of each UID: one, unless an old one is not seen deleted yet."""
        self._users = ClaimUsers()
        self._published = PublishedDevices(self._taint_rules)
        self._check = GrantCheck(self._shown.get, self._users, self._published)
        self._held: dict[PodUid, None] = {}
        """Pods of ours without a node for which claims are held."""
        self._unready: dict[Key, None] = {}
        """Claims whose devices are not ready, or have failed, and which are reserved for nobody."""
        self._view: ClusterDevices | None = None
        self._slices: tuple[Slice, ...] | None = None
        self._rules: tuple[TaintRule, ...] | None = None
        self._unlisted = set(DEVICE_KINDS)
        self._assumed: dict[str, _Assumed] = {}
        """By UID of the claim."""
        self._claims_of: dict[PodUid, tuple[str, ...]] = {}
        """By pod, the claims with an assumed allocation."""
        self._grants: dict[PodUid, tuple[ClaimGrant, ...]] = {}
        """What was decided for the claims of pods, until they end."""

    # --- questions ----------------------------------------------------------------------------------------

    def view(self) -> ClusterDevices:
        """All of them. It is the same object until something changes, and so is each of its parts."""
        if self._view is None:
            if not self._are_sorted:
                ordered = sorted(self._shown.items())
                self._shown.clear()
                self._shown.update(ordered)
                self._are_sorted = True
            if self._slices is None:
                self._slices = tuple(self.slices.by_name().values())
            self._view = ClusterDevices(
                slices=self._slices,
                classes=self.classes.by_name(),
                claims=tuple(self._shown.values()),
                extended=self._extended.satisfied,
                taint_rules=self._taint_rules(),
                are_claimed=self._pods.are_any,
                are_listed=not self._unlisted,
            )
        return self._view

    def _taint_rules(self) -> tuple[TaintRule, ...]:
        if self._rules is None:
            self._rules = tuple(rule for rule in self.rules.by_name().values() if rule is not None)
        return self._rules

    @property
    def needed(self) -> tuple[str, ...]:
        """The kinds that must be watched, from the first pod with claims on; classes perhaps before."""
        if self._pods.were_any:
            return DEVICE_KINDS
        return ("DeviceClass",) if self._extended.are_sought else ()

    def has_claim(self, uid: str) -> bool:
        return uid in self._keys

    def with_states(self, pod: Pod) -> Pod:
        """The pod as it is stored: one that waits has the states of its claims, by which its gang is tried
        again when one of them changes; one with a node has what its queue is charged for them."""
        pod = self._pods.with_states(self._extended.with_claim(pod), self._claim_of)
        charges = self._charges.of(pod)
        return pod if charges == pod.charges else structs.replace(pod, charges=charges)

    def _claim_of(self, pod: Pod, entry: PodClaim) -> Claim | None:
        if entry.is_for_extended and not entry.claim:
            return self._shown.get(self._extended_claims.real_of(pod.uid))
        return self._shown.get((pod.namespace, entry.claim))

    def leftover(self, now: int) -> tuple[GiveBack, ...]:
        """Claims that are held for pods of this scheduler without a node, or that nobody can use."""
        if not (self._held or self._unready) or not self.needed:
            return ()
        keys = {key for uid in self._held for key in self._users.of_holder(uid)} | self._unready.keys()
        return leftover_claims(
            [self._shown[key] for key in sorted(keys)],
            self._waiting,
            lambda claim: self._pods.naming((claim.namespace, claim.name)),
            now=now,
        )

    def conflict(self, pod: Pod, node: Node) -> str:
        """Why the pod must not be bound to the node with what was decided for its claims; empty if nothing
        forbids it."""
        grants = self._grants.get(pod.uid)
        if grants is None or not _may_be_charged(pod):
            return ""
        return self._check.conflict(
            [self._extended_claims.as_shown(pod.uid, each, self._shown) for each in grants], node
        )

    def awaited(self, pod: PodUid) -> tuple[AwaitedClaim, ...]:
        """The claims of a placed pod whose devices are not ready, by their binding conditions."""
        found = (self._check.awaited(each, self._real(pod, each)) for each in self._grants.get(pod, ()))
        return tuple([each for each in found if each is not None])

    def _real(self, pod: PodUid, grant: ClaimGrant) -> Claim | None:
        """The claim of a grant as the API shows it."""
        key = (
            (grant.namespace, grant.name)
            if grant.extended_claim is None
            else self._extended_claims.real_of(pod)
        )
        return self.claims.get(key)

    def not_ready(self, pod: PodUid) -> str:
        """The first claim whose devices are not ready."""
        return next(map(str, self.awaited(pod)), "")

    def provided(self, pod: Pod, node: Node) -> frozenset[str]:
        """The extended resources for which devices were decided for the pod, and that the node lacks."""
        extended_claim = [
            each.extended_claim for each in self._grants.get(pod.uid, ()) if each.extended_claim is not None
        ]
        names = {use.resource for each in extended_claim for use in each.mappings}
        return frozenset(name for name in names if not node.allocatable.get(name))

    def _waiting(self, uid: PodUid) -> Pod | None:
        pod = self._pod(uid)
        return pod if pod is not None and self._pods.is_ours(pod) and pod.is_waiting else None

    # --- events -------------------------------------------------------------------------------------------

    def pod_changed(self, old: Pod | None, new: Pod | None, log: ChangeLog) -> None:
        """A pod was added, changed or removed, of any scheduler."""
        pod = new or old
        assert pod is not None
        had_some = old is not None and old.extended is not None
        if (had_some or pod.extended is not None) and self._extended.replace(pod.uid, new):
            self._view = None
        if pod.device_claims or (old is not None and old.device_claims):
            were, needed = self._pods.are_any, self.needed
            self._pods.replace(pod.uid, new)
            if self.needed != needed:
                log.workload_kinds(self.needed)
            if self._pods.are_any != were:
                self._view = None
        if new is None or new.is_finished:
            self.forget(pod.uid, log)
        self._note_held(pod.uid)

    def before_list(self, kind: str) -> None:
        """A list is authoritative even if etcd was restored."""
        if kind == "ResourceClaim":
            self.claims.forget_versions()

    def gang_changed(self, old: Pod | None, new: Pod | None, log: ChangeLog) -> None:
        """Another pod, or this one, may be charged now for a claim that several pods use."""
        uids: dict[PodUid, None] = {}
        for pod in (old, new):
            if pod is not None and _may_be_charged(pod):
                uids[pod.uid] = None
        for uid in uids:
            self._charge_again(self._charges.replace(uid, self._pod(uid)), log)

    def nodes_changed(self, is_offered: Callable[[str], bool], log: ChangeLog) -> None:
        """Ask for the classes if pods request resources that no node offers."""
        if self._extended.seek(is_offered) and not self._pods.were_any and "DeviceClass" in self._unlisted:
            log.workload_kinds(self.needed)

    def set_listed(self, kind: str, log: ChangeLog) -> None:
        """All objects of the kind are known."""
        if kind in self._unlisted:
            self._unlisted.discard(kind)
            self._view = None
            log.mark_supply_changed(self.name, do_gangs_wait=self._pods.do_wait)

    def assume(self, bind: Bind, log: ChangeLog) -> None:
        """Assume the decided allocations, until the API shows one or the pod is forgotten or gone."""
        if not bind.grants:
            return
        pod, grants = bind.pod, bind.grants
        self.forget(pod, log)
        self._grants[pod] = grants
        for each in grants:
            if each.extended_claim is not None:
                self._make(pod, each, log)
        existing = [each for each in grants if each.extended_claim is None]
        decided = {
            each.uid: each.allocation
            for each in existing
            if each.allocation is not None and not self._is_allocated(each)
        }
        if decided:
            self._claims_of[pod] = tuple(decided)
        for claim, allocation in decided.items():
            known = self._assumed.get(claim)
            pods = known.pods if known is not None and known.allocation == allocation else ()
            for other in known.pods if known is not None and not pods else ():
                self._drop(other, claim)
            self._assumed[claim] = _Assumed(allocation, (*pods, pod))
            self._show(claim, log)
        if any(self._charges.is_less_than_counted((each.namespace, each.name)) for each in existing):
            log.mark_capacity_grew()

    def _make(self, pod: PodUid, grant: ClaimGrant, log: ChangeLog) -> None:
        """Show a claim for extended resources as if it existed already."""
        real = self._shown.get(self._extended_claims.real_of(pod))
        if real is None or real.allocation is None:
            self._show_one(self._extended_claims.make(pod, grant), log)

    def _is_allocated(self, grant: ClaimGrant) -> bool:
        """Whether the API shows an allocation already: another pod of the gang may have been first."""
        known = self.claims.get((grant.namespace, grant.name))
        return known is not None and known.uid == grant.uid and known.allocation is not None

    def forget(self, pod: PodUid, log: ChangeLog) -> None:
        """End what is assumed for a pod, which is not bound or has ended."""
        self._grants.pop(pod, None)
        if (made := self._extended_claims.unmake(pod)) is not None:
            self._show_one(made, log)
        for claim in self._claims_of.pop(pod, ()):
            assumed = self._assumed[claim]
            left = tuple(each for each in assumed.pods if each != pod)
            if left:
                self._assumed[claim] = _Assumed(assumed.allocation, left)
            else:
                del self._assumed[claim]
            self._show(claim, log)

    def _claim_changed(self, key: Key, old: Claim | None, new: Claim | None, log: ChangeLog) -> None:
        uids = dict.fromkeys(each.uid for each in (old, new) if each is not None)
        if old is not None:
            self._keys[old.uid].pop(key)
            if not self._keys[old.uid]:
                del self._keys[old.uid]
        if new is not None:
            self._keys.setdefault(new.uid, {})[key] = None
        if old is not None and (new is None or new.uid != old.uid):
            self._end(old.uid)
        if new is not None and new.allocation is not None:
            self._end(new.uid)
        self._extended_claims.replace(key, old, new)
        self._show_one(key, log)
        if new is not None and new.is_for_extended and new.allocation is not None:
            made = self._extended_claims.unmake(PodUid(new.owner))
            if made is not None:
                self._show_one(made, log, is_moved=True)
        for uid in uids:
            self._show(uid, log)

    def _end(self, claim: str) -> None:
        assumed = self._assumed.pop(claim, None)
        for pod in assumed.pods if assumed is not None else ():
            self._drop(pod, claim)

    def _drop(self, pod: PodUid, claim: str) -> None:
        left = tuple(each for each in self._claims_of.pop(pod) if each != claim)
        if left:
            self._claims_of[pod] = left

    def _slice_changed(self, key: Key, old: Slice | None, new: Slice | None, log: ChangeLog) -> None:
        self._slices = None
        self._published.replace(key, old, new)
        self._changed(key, old, new, log)

    def _charge_again(self, pods: Iterable[PodUid], log: ChangeLog) -> None:
        for uid in pods:
            self._pod_has_changed(uid, log)

    def _class_changed(
        self, key: Key, old: DeviceClass | None, new: DeviceClass | None, log: ChangeLog
    ) -> None:
        self._changed(key, old, new, log)
        if (old.extended_resource if old else "") != (new.extended_resource if new else ""):
            self._charge_again(self._charges.pods, log)
        for uid in self._extended.classes_changed(self.classes.by_name()):
            self._pod_has_changed(uid, log)

    def _rule_changed(self, key: Key, old: object, new: object, log: ChangeLog) -> None:
        self._rules = None
        self._published.rules_changed()
        self._changed(key, old, new, log)

    def _changed(self, _key: Key, _old: object, _new: object, log: ChangeLog) -> None:
        self._view = None
        log.mark_supply_changed(self.name, do_gangs_wait=self._pods.do_wait)

    # --- claims as they are shown -------------------------------------------------------------------------

    def _show(self, uid: str, log: ChangeLog) -> None:
        """Show the claims of this UID with what is assumed for them now."""
        for key in tuple(self._keys.get(uid, ())):
            self._show_one(key, log)

    def _show_one(self, key: Key, log: ChangeLog, *, is_moved: bool = False) -> None:
        """`is_moved`: another claim has the same devices instead."""
        old, new = (
            self._shown.get(key),
            self._extended_claims.made.get(key) or self._with_assumed(self.claims.get(key)),
        )
        if old == new:
            return
        self._view = None
        if new is None:
            del self._shown[key]
        else:
            self._are_sorted = self._are_sorted and old is not None
            self._shown[key] = new
        self._users.replace(key, old, new)
        if new is not None and is_unready(new):
            self._unready[key] = None
        else:
            self._unready.pop(key, None)
        for uid in dict.fromkeys((*holders(old), *holders(new))):
            self._note_held(PodUid(uid))
        if frees(old, new) and not is_moved:
            log.mark_supply_freed(self.name, do_gangs_wait=self._pods.do_wait)
        owners = [PodUid(each.owner) for each in (old, new) if each is not None and each.is_for_extended]
        for uid in dict.fromkeys((*self._pods.naming(key), *owners, *self._charges.claim_changed(key))):
            self._pod_has_changed(uid, log)

    def _with_assumed(self, claim: Claim | None) -> Claim | None:
        if claim is None or claim.allocation is not None or claim.uid not in self._assumed:
            return claim
        assumed = self._assumed[claim.uid]
        reserved = (*claim.reserved_for, *assumed.pods)
        return structs.replace(claim, allocation=assumed.allocation, reserved_for=reserved)

    def _note_held(self, uid: PodUid) -> None:
        if self._users.of_holder(uid) and self._waiting(uid) is not None:
            self._held[uid] = None
        else:
            self._held.pop(uid, None)


def _may_be_charged(pod: Pod) -> bool:
    return bool(pod.device_claims) or pod.extended is not None
