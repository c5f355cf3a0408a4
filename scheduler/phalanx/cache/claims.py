"""PersistentVolumeClaims: their states, which follow from several kinds of objects, and their pods."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from phalanx.cache.attached_volumes import NO_VOLUME, AttachedVolumes, VolumeId
from phalanx.cache.events import ChangeLog
from phalanx.cache.nodes import NodeTable
from phalanx.cache.supply_tables import SupplyTables
from phalanx.cache.table import Key, ObjectStore, Table
from phalanx.model.api import core
from phalanx.model.api.kinds import STORAGE_KINDS
from phalanx.model.api.storage import CSIDriver, CSIStorageCapacity
from phalanx.model.names import PodUid
from phalanx.model.nodes import Node
from phalanx.model.pods import MountedClaim, Pod, VolumeClaim
from phalanx.model.supplies.volumes.published import (
    ClaimUser,
    ClusterVolumes,
    StaticVolume,
    StorageCapacity,
    UnboundClaim,
    in_use,
    may_be_named,
)
from phalanx.model.supplies.volumes.read import (
    ClaimSource,
    ClassSource,
    VolumeSource,
    is_reserved_for,
    read_claim,
    read_storage_class,
    read_volume,
    resolve_claim,
)
from phalanx.model.supplies.volumes.read_drivers import (
    CapacitySource,
    DriverSource,
    read_capacity,
    read_driver,
)


class ClaimTables(SupplyTables):
    """The kinds that describe volumes, and the state of each claim that follows from them.

    It also knows the pods that mount claims which only one pod may use.
    """

    name = ClusterVolumes.supply

    def __init__(self, *, scheduler_name: str, nodes: NodeTable) -> None:
        self._scheduler_name = scheduler_name
        self.attached = AttachedVolumes(nodes=nodes, of_claim=self._volume_of, of_volume=self._id_of)
        self.claims: Table[core.PersistentVolumeClaim, ClaimSource] = Table(
            read=read_claim, changed=self._claim_changed
        )
        self.volumes: Table[core.PersistentVolume, VolumeSource] = Table(
            read=read_volume, changed=self._volume_changed
        )
        self.classes: Table[core.StorageClass, ClassSource] = Table(
            read=read_storage_class, changed=self._class_changed
        )
        self.drivers: Table[CSIDriver, DriverSource] = Table(read=read_driver, changed=self._driver_changed)
        self.capacities: Table[CSIStorageCapacity, CapacitySource] = Table(
            read=read_capacity, changed=self._capacity_changed
        )
        self._needed: tuple[str, ...] = ()
        self.tables: Mapping[str, ObjectStore[Any]] = {
            "PersistentVolumeClaim": self.claims,
            "PersistentVolume": self.volumes,
            "StorageClass": self.classes,
            "CSIDriver": self.drivers,
            "CSIStorageCapacity": self.capacities,
            **self.attached.tables,
        }
        self._capacities: Mapping[str, tuple[StorageCapacity, ...]] | None = None
        self._by_volume: dict[str, dict[Key, None]] = {}
        """By volume, the claims that name it."""
        self._naming: dict[Key, dict[str, None]] = {}
        """By claim, the volumes that name it."""
        self._decided: dict[str, dict[PodUid, None]] = {}
        """By volume, the assumed pods for which it was decided."""
        self._static: tuple[StaticVolume, ...] | None = None
        self._resolved: dict[Key, VolumeClaim] = {}
        self._all_claims: Mapping[str, VolumeClaim] | None = None
        self._filter_view: ClusterVolumes | None = None
        self._view: tuple[ClusterVolumes | None, ClusterVolumes] = (None, ClusterVolumes())
        """What filters see, and all of it."""
        self._pods: dict[str, dict[PodUid, Pod]] = {}
        """By claim, the pods that mount it and have not ended."""
        self._users: Mapping[str, tuple[ClaimUser, ...]] | None = None

    @property
    def needed(self) -> tuple[str, ...]:
        """From the first claim on with a volume of a CSI driver, or for which one is provisioned.

        A pod that is placed before they are listed may not get its volume, or wait until it is attached."""
        return self._needed

    def view(self) -> ClusterVolumes:
        """All of them. It is the same object until something changes, and so is each of its parts."""
        volumes, users, limited = self.filter_view(), self.users(), self.attached.limited_drivers
        base, known = self._view
        if base is not volumes or known.claim_users is not users or known.limited_drivers is not limited:
            known = replace(volumes, claim_users=users, limited_drivers=limited)
            self._view = (volumes, known)
        return known

    def filter_view(self) -> ClusterVolumes:
        """Without the users of claims, of which the checked pod is one."""
        drivers, known = self.attached.csi_nodes.by_name(), self._filter_view
        if known is None or known.csi_nodes is not drivers:
            known = self._filter_view = ClusterVolumes(
                claims=self._claims_by_key(),
                storage_capacities=self._storage_capacities(),
                static_volumes=self._static_volumes(),
                csi_nodes=drivers,
            )
        return known

    def _claims_by_key(self) -> Mapping[str, VolumeClaim]:
        """By "namespace/name", sorted."""
        if self._all_claims is None:
            self._all_claims = {"/".join(key): self._resolved[key] for key in sorted(self._resolved)}
        return self._all_claims

    def _storage_capacities(self) -> Mapping[str, tuple[StorageCapacity, ...]]:
        """What drivers have left, by StorageClass."""
        if self._capacities is None:
            found: dict[str, list[StorageCapacity]] = {}
            for key in sorted(self.capacities.keys()):
                source = self.capacities.get(key)
                if source is not None and source.capacity is not None:
                    found.setdefault(source.storage_class, []).append(source.capacity)
            self._capacities = {name: tuple(found[name]) for name in sorted(found)}
        return self._capacities

    def _static_volumes(self) -> tuple[StaticVolume, ...]:
        """Volumes that claims may take, sorted by size and name.

        A volume that a claim names and will get is taken, though its own change may arrive later.
        """
        if self._static is None:
            offers = [
                source.offer
                for source in self.volumes.values()
                if source.is_available and not self._is_taken(source.offer)
            ]
            self._static = tuple(sorted(offers, key=lambda offer: (offer.size, offer.name)))
        return self._static

    def _is_taken(self, volume: StaticVolume) -> bool:
        if volume.name in self._decided:
            return True
        claims = (self.claims.get(key) for key in self._by_volume.get(volume.name, ()))
        return any(
            claim is not None and (claim.is_bound or may_be_named(volume, claim.wanted)) for claim in claims
        )

    def _volume_conflict(self, pod: Pod) -> str:
        """Why a claim of an assumed pod cannot get the volume that was decided for it; empty if it can."""
        for key, name in pod.volumes:
            claim, volume = self.claims.get(split_key(key)), self.volumes.get(("", name))
            if claim is None or claim.volume:
                continue
            if volume is None or volume.deleting:
                return f"PersistentVolume {name} for PersistentVolumeClaim {key} is gone since the decision"
            if not volume.is_available and not is_reserved_for(volume, claim):
                return f"PersistentVolume {name} for PersistentVolumeClaim {key} was taken since the decision"
        return ""

    def users(self) -> Mapping[str, tuple[ClaimUser, ...]]:
        """The pods that mount a claim which only one pod may use, sorted by claim, as Snapshot has them.

        It is the same mapping until something changes.
        """
        if self._users is None:
            keys = sorted(key for key in self._pods if self._is_for_one_pod(key))
            self._users = {key: self._users_of(key) for key in keys}
        return self._users

    def conflict(self, pod: Pod, node: Node) -> str:
        """Of claims that only one pod may use, and of volumes that were decided."""
        for claim in pod.claims:
            users = self.users().get(claim.key, ())
            if users and users[0].uid != pod.uid:
                return in_use(claim.key, users[0])
        return self._volume_conflict(pod) if pod.volumes else ""

    def shortage(self, pod: Pod) -> str:
        """Of volumes that may be attached."""
        driver = self.attached.conflict(pod) if pod.claims else ""
        return f"has more volumes of {driver} than its limit" if driver else ""

    def unbound(self, pod: Pod) -> tuple[UnboundClaim, ...]:
        """The claims of a pod that are not bound yet, or cannot be used any more."""
        found = (self._unbound(claim.key) for claim in pod.claims)
        return tuple([claim for claim in found if claim is not None])

    def _unbound(self, key: str) -> UnboundClaim | None:
        namespace, name = split_key(key)
        source, resolved = self.claims.get((namespace, name)), self._resolved.get((namespace, name))
        if source is None or resolved is None:
            return UnboundClaim(namespace, name, "", failure="it does not exist")
        if not resolved.why_unusable and source.volume:
            return None
        needs_node = resolved.provisioning is not None
        is_binding = not resolved.why_unusable or (
            bool(source.volume) and not source.lost and not source.deleting
        )
        return UnboundClaim(
            namespace,
            name,
            source.reference.uid,
            selected_node=source.selected_node,
            needs_node=needs_node,
            failure="" if is_binding else resolved.why_unusable,
        )

    def pod_changed(self, old: Pod | None, new: Pod | None, log: ChangeLog) -> None:
        """A pod was added, changed or removed."""
        if not ((old is not None and old.claims) or (new is not None and new.claims)):
            return
        if old is not None:
            for claim in mounted(old):
                pods = self._pods[claim.key]
                del pods[old.uid]
                if not pods:
                    del self._pods[claim.key]
        if new is not None:
            for claim in mounted(new):
                self._pods.setdefault(claim.key, {})[new.uid] = new
        self._volumes_decided(old, new, log)
        self.attached.pod_changed(old, new, log)
        if any(self._is_for_one_pod(claim.key) for claim in (*mounted(old), *mounted(new))):
            self._users = None
            if old is None or new is None or _use(old) != _use(new):
                log.mark_cluster_changed()

    def _volumes_decided(self, old: Pod | None, new: Pod | None, log: ChangeLog) -> None:
        """Volumes are decided for a pod, or not any more."""
        before = {(volume, old.uid) for _, volume in old.volumes} if old is not None else set()
        after = {(volume, new.uid) for _, volume in new.volumes} if new is not None else set()
        if before == after:
            return
        self._static = self._filter_view = None
        for volume, uid in before:
            users = self._decided[volume]
            del users[uid]
            if not users:
                del self._decided[volume]
        for volume, uid in after:
            self._decided.setdefault(volume, {})[uid] = None
        if before - after:
            log.mark_cluster_changed()

    def _is_for_one_pod(self, key: str) -> bool:
        resolved = self._resolved.get(split_key(key))
        return resolved is not None and resolved.for_one_pod

    def _users_of(self, key: str) -> tuple[ClaimUser, ...]:
        """Placed pods in the API are before assumed ones, which are before those that wait."""
        pods = [
            pod
            for pod in self._pods[key].values()
            if pod.holds_node or (pod.is_waiting and pod.scheduler_name == self._scheduler_name)
        ]
        pods.sort(key=lambda pod: (not pod.holds_node, pod.assumed, pod.created, pod.uid))
        return tuple([ClaimUser(pod.uid, str(pod), pod.holds_node) for pod in pods])

    def _claim_changed(
        self, key: Key, old: ClaimSource | None, new: ClaimSource | None, log: ChangeLog
    ) -> None:
        if old is not None:
            users = self._by_volume[old.volume]
            del users[key]
            if not users:
                del self._by_volume[old.volume]
        if new is not None:
            self._by_volume.setdefault(new.volume, {})[key] = None
        before, after = _named(old), _named(new)
        if before != after:
            self._static = self._filter_view = None
            if before is not None:
                log.mark_cluster_changed()
        self._resolve(key, log)

    def _volume_changed(
        self, key: Key, old: VolumeSource | None, new: VolumeSource | None, log: ChangeLog
    ) -> None:
        before, after = _named_by(old), _named_by(new)
        if before is not None:
            volumes = self._naming[before]
            del volumes[key[1]]
            if not volumes:
                del self._naming[before]
        if after is not None:
            self._naming.setdefault(after, {})[key[1]] = None
        if (old is not None and old.is_available) or (new is not None and new.is_available):
            self._static = self._filter_view = None
            if new is not None and new.is_available:
                log.mark_cluster_changed()
        for claim in dict.fromkeys((*self._by_volume.get(key[1], ()), before, after)):
            if claim is not None:
                self._resolve(claim, log)
        self.attached.volume_changed(key[1], log)

    def _class_changed(
        self, _key: Key, _old: ClassSource | None, _new: ClassSource | None, log: ChangeLog
    ) -> None:
        """A class matters only to claims without a volume, or whose volume does not exist."""
        for claim in tuple(self._resolved):
            source = self.claims.get(claim)
            if source is not None and self.volumes.get(("", source.volume)) is None:
                self._resolve(claim, log)

    def _driver_changed(
        self, key: Key, _old: DriverSource | None, _new: DriverSource | None, log: ChangeLog
    ) -> None:
        for claim in [claim for claim, resolved in self._resolved.items() if resolved.driver == key[1]]:
            self._resolve(claim, log)

    def _volume_of(self, claim: str) -> VolumeId:
        resolved = self._resolved.get(split_key(claim))
        return (resolved.driver, resolved.handle) if resolved is not None else NO_VOLUME

    def _id_of(self, volume: str) -> VolumeId:
        source = self.volumes.get(("", volume))
        return (source.driver, source.handle) if source is not None else NO_VOLUME

    def _capacity_changed(
        self, _key: Key, old: CapacitySource | None, new: CapacitySource | None, log: ChangeLog
    ) -> None:
        self._capacities = self._filter_view = None
        if new is not None and not _only_shrank(old, new):
            log.mark_cluster_changed()

    def _resolve(self, key: Key, log: ChangeLog) -> None:
        source = self.claims.get(key)
        if source is None:
            self._resolved.pop(key, None)
            self._all_claims = self._users = self._filter_view = None
            self.attached.claim_changed("/".join(key), log)
            return
        resolved = resolve_claim(
            source,
            volume=self.volumes.get(("", source.volume)),
            storage_class=self.classes.get(("", source.storage_class)),
            drivers=self.drivers.by_name(),
            reserved=self._reserved_for(key, source),
        )
        if resolved.handle and not self._needed:
            self._needed = STORAGE_KINDS
            log.workload_kinds(STORAGE_KINDS)
        if self._resolved.get(key) != resolved:
            self._resolved[key] = resolved
            self._all_claims = self._users = self._filter_view = None
            self.attached.claim_changed("/".join(key), log)
            log.mark_cluster_changed()

    def _reserved_for(self, key: Key, source: ClaimSource) -> VolumeSource | None:
        """The first volume that names the claim and can be bound to it."""
        for name in sorted(self._naming.get(key, ())):
            volume = self.volumes.get(("", name))
            if volume is not None and is_reserved_for(volume, source):
                return volume
        return None


def _only_shrank(old: CapacitySource | None, new: CapacitySource) -> bool:
    """Whether no volume that found no space before can find some now."""
    if new.capacity is None:
        return True
    if old is None or old.capacity is None or old.storage_class != new.storage_class:
        return False
    return old.capacity.nodes == new.capacity.nodes and new.capacity.largest <= old.capacity.largest


def _named_by(volume: VolumeSource | None) -> Key | None:
    claim = volume.claim if volume is not None else None
    return (claim.namespace, claim.name) if claim is not None else None


def _named(claim: ClaimSource | None) -> tuple[object, ...] | None:
    """The volume that the claim names, and what decides whether it gets it; None if it names none."""
    if claim is None or not claim.volume:
        return None
    return claim.volume, claim.is_bound, claim.wanted


def split_key(key: str) -> Key:
    """Namespace and name of "namespace/name"."""
    namespace, _, name = key.partition("/")
    return namespace, name


def mounted(pod: Pod | None) -> tuple[MountedClaim, ...]:
    """The claims of a pod that others may mount too: not those of its ephemeral volumes."""
    if pod is None or not pod.claims or pod.is_finished:
        return ()
    return tuple([claim for claim in pod.claims if not claim.ephemeral])


def _use(pod: Pod) -> tuple[object, ...]:
    return pod.holds_node, pod.is_waiting, mounted(pod)
