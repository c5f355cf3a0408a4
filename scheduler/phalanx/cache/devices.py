"""Tables of ResourceSlices, DeviceTaintRules, DeviceClasses and ResourceClaims.

These kinds are watched from the first pod of this scheduler on that has claims and is not refused.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, structs

from phalanx.cache.events import ChangeLog
from phalanx.cache.grant_check import GrantCheck
from phalanx.cache.table import Key, ObjectStore, Table, VersionedTable
from phalanx.model.api import devices
from phalanx.model.api.kinds import DEVICE_KINDS
from phalanx.model.conversion.devices import (
    read_device_class,
    read_resource_claim,
    read_slice,
    read_taint_rule,
)
from phalanx.model.devices.claims import Allocation, Claim, ClaimGrant, DeviceClass
from phalanx.model.devices.cluster import ClusterDevices
from phalanx.model.devices.pools import Slice, TaintRule
from phalanx.model.names import PodUid
from phalanx.model.nodes import Node
from phalanx.model.pods import Pod


class _Assumed(Struct, frozen=True):
    """An allocation that this scheduler decided for pods that are not bound yet, or not seen with it."""

    allocation: Allocation
    pods: tuple[PodUid, ...]


class DeviceTables:
    """The kinds that describe devices, and the allocations that the API does not show yet."""

    def __init__(self) -> None:
        self.slices: Table[devices.ResourceSlice, Slice] = Table(read=read_slice, changed=self._changed)
        self.classes: Table[devices.DeviceClass, DeviceClass] = Table(
            read=read_device_class, changed=self._changed
        )
        self.claims: VersionedTable[devices.ResourceClaim, Claim] = VersionedTable(
            read=read_resource_claim, changed=self._claim_changed
        )
        self._uids: set[str] = set()
        """Of all claims."""
        self.rules: Table[devices.DeviceTaintRule, TaintRule | None] = Table(
            read=read_taint_rule, changed=self._changed
        )
        self.tables: dict[str, ObjectStore[Any]] = {
            "ResourceSlice": self.slices,
            "DeviceClass": self.classes,
            "ResourceClaim": self.claims,
            "DeviceTaintRule": self.rules,
        }
        self._view: ClusterDevices | None = None
        self._unlisted = set(DEVICE_KINDS)
        self._were_claimed = False
        self._claiming: set[PodUid] = set()
        """Pods of this scheduler with claims that are not refused and have not ended."""
        self._assumed: dict[str, _Assumed] = {}
        """By UID of the claim."""
        self._claims_of: dict[PodUid, tuple[str, ...]] = {}
        """By pod, the claims with an assumed allocation."""
        self._grants: dict[PodUid, tuple[ClaimGrant, ...]] = {}
        """What was decided for the claims of pods, until they end."""
        self._check: tuple[ClusterDevices, GrantCheck] | None = None

    def view(self) -> ClusterDevices:
        """All of them. It is the same object until something changes."""
        if self._view is None:
            self._view = ClusterDevices(
                slices=tuple(self.slices.by_name().values()),
                classes=self.classes.by_name(),
                claims=tuple(
                    self._with_assumed(claim)
                    for key in sorted(self.claims.keys())
                    if (claim := self.claims.get(key)) is not None
                ),
                taint_rules=tuple(rule for rule in self.rules.by_name().values() if rule is not None),
                are_claimed=bool(self._claiming),
                are_listed=not self._unlisted,
            )
        return self._view

    @property
    def needed(self) -> tuple[str, ...]:
        """The kinds that must be watched, from the first pod with claims on."""
        return DEVICE_KINDS if self._were_claimed else ()

    def pod_changed(self, uid: PodUid, pod: Pod | None, log: ChangeLog) -> None:
        """A pod was added, changed or removed; None for a pod of another scheduler too."""
        before = bool(self._claiming)
        if pod is None or not pod.device_claims or pod.shape.unsupported or pod.is_finished:
            self._claiming.discard(uid)
        else:
            self._claiming.add(uid)
            if not self._were_claimed:
                self._were_claimed = True
                log.workload_kinds(DEVICE_KINDS)
        if bool(self._claiming) != before:
            self._view = None

    def has_claim(self, uid: str) -> bool:
        """Whether a claim with this UID is known."""
        return uid in self._uids

    def set_listed(self, kind: str, log: ChangeLog) -> None:
        """All objects of the kind are known."""
        if kind in self._unlisted:
            self._unlisted.discard(kind)
            self._view = None
            log.mark_cluster_changed()

    def assume(self, pod: PodUid, grants: Iterable[ClaimGrant]) -> None:
        """Assume the decided allocations, until the API shows one or the pod is forgotten or gone."""
        grants = tuple(grants)
        self.forget(pod, ChangeLog())
        if grants:
            self._grants[pod] = grants
        decided = {
            each.uid: each.allocation
            for each in grants
            if each.allocation is not None and not self._is_allocated(each)
        }
        for claim, allocation in decided.items():
            known = self._assumed.get(claim)
            pods = known.pods if known is not None and known.allocation == allocation else ()
            for other in known.pods if known is not None and not pods else ():
                self._drop(other, claim)
            self._assumed[claim] = _Assumed(allocation, (*pods, pod))
        if decided:
            self._claims_of[pod] = tuple(decided)
            self._view = None

    def _is_allocated(self, grant: ClaimGrant) -> bool:
        """Whether the API shows an allocation already: another pod of the gang may have been first."""
        known = self.claims.get((grant.namespace, grant.name))
        return known is not None and known.uid == grant.uid and known.allocation is not None

    def forget(self, pod: PodUid, log: ChangeLog) -> None:
        """End what is assumed for a pod, which is not bound or has ended."""
        self._grants.pop(pod, None)
        claims = self._claims_of.pop(pod, ())
        for claim in claims:
            assumed = self._assumed[claim]
            left = tuple(each for each in assumed.pods if each != pod)
            if left:
                self._assumed[claim] = _Assumed(assumed.allocation, left)
            else:
                del self._assumed[claim]
        if claims:
            self._view = None
            log.mark_cluster_changed()

    def conflict(self, pod: Pod, node: Node) -> str:
        """Why the pod must not be bound to the node with what was decided for its claims; empty if nothing
        forbids it."""
        grants = self._grants.get(pod.uid)
        if grants is None:
            return ""
        view = self.view()
        if self._check is None or self._check[0] is not view:
            self._check = (view, GrantCheck(view))
        return self._check[1].conflict(grants, node)

    def check(self) -> None:
        """Assert that the indices of assumed allocations agree."""
        pairs = {(claim, pod) for pod, each in self._claims_of.items() for claim in each}
        known = {(claim, pod) for claim, each in self._assumed.items() for pod in each.pods}
        assert pairs == known, "claims with assumed allocations differ from those of pods"
        assert all(self._claims_of.values()), "an empty entry by pod"
        assert self._uids == {claim.uid for claim in self.claims.values()}, "UIDs of claims differ"

    def _with_assumed(self, claim: Claim) -> Claim:
        if claim.allocation is not None or claim.uid not in self._assumed:
            return claim
        assumed = self._assumed[claim.uid]
        reserved = (*claim.reserved_for, *assumed.pods)
        return structs.replace(claim, allocation=assumed.allocation, reserved_for=reserved)

    def _claim_changed(self, _key: Key, old: Claim | None, new: Claim | None, log: ChangeLog) -> None:
        self._view = None
        if old is not None:
            self._uids.discard(old.uid)
        if new is not None:
            self._uids.add(new.uid)
        if old is not None and (new is None or new.uid != old.uid):
            self._end(old.uid)
        if new is not None and new.allocation is not None:
            self._end(new.uid)
        if old is None or new is None or not _only_took(old, new):
            log.mark_cluster_changed()

    def _end(self, claim: str) -> None:
        assumed = self._assumed.pop(claim, None)
        for pod in assumed.pods if assumed is not None else ():
            self._drop(pod, claim)

    def _drop(self, pod: PodUid, claim: str) -> None:
        left = tuple(each for each in self._claims_of.pop(pod) if each != claim)
        if left:
            self._claims_of[pod] = left

    def _changed(self, _key: Key, _old: object, _new: object, log: ChangeLog) -> None:
        self._view = None
        log.mark_cluster_changed()


def _only_took(old: Claim, new: Claim) -> bool:
    """Whether nothing changed but that devices or consumers were added, so that nothing more may fit."""
    if old.allocation is not None and old.allocation != new.allocation:
        return False
    if not set(old.reserved_for) <= set(new.reserved_for):
        return False
    return structs.replace(old, allocation=new.allocation, reserved_for=new.reserved_for) == new
