"""Assert that what the tables of a cache keep event by event equals what follows from all objects."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from phalanx.cache.applications import ApplicationTable
from phalanx.cache.attached_volumes import AttachedVolumes, mounts
from phalanx.cache.cache import Cache
from phalanx.cache.claims import ClaimTables, mounted
from phalanx.cache.devices.charges import DeviceCharges
from phalanx.cache.devices.claiming_pods import ClaimingPods, FindClaim
from phalanx.cache.devices.extended_resource_claims import ExtendedResourceClaims
from phalanx.cache.devices.extended_use import ExtendedUse
from phalanx.cache.devices.leftover_claims import holders, is_unready
from phalanx.cache.devices.tables import DeviceTables
from phalanx.cache.devices.users import ClaimUsers, PublishedDevices
from phalanx.cache.events import Assumed, ChangeLog
from phalanx.cache.evictable_pods import EvictablePodTable
from phalanx.cache.gang_view import GangView
from phalanx.cache.gangs import GangTable
from phalanx.cache.group_trees import IN_TREES, GroupTrees
from phalanx.cache.nodes import NodeTable
from phalanx.cache.nominations import NominationTable
from phalanx.cache.placed_pods import PlacedPodIndex
from phalanx.cache.pods import PodTable
from phalanx.cache.table import Key
from phalanx.cache.usage import ForeignUsage, Ledger, QueueUsage
from phalanx.cache.workloads import ForeignMembers, OwnerId, WorkloadTable
from phalanx.model.conversion.pod_groups import GangKey
from phalanx.model.dialects.composite import COMPOSITE
from phalanx.model.dialects.native import NATIVE
from phalanx.model.dialects.yunikorn import read_application
from phalanx.model.gangs import GangKind
from phalanx.model.names import NodeName, PodUid
from phalanx.model.pods import Controller, Pod
from phalanx.model.resources import Resources
from phalanx.model.supplies.devices.claims import Claim, DeviceClass
from phalanx.model.supplies.devices.pools import Slice
from phalanx.model.supplies.known import pod_usage


def check_cache(cache: Cache) -> None:
    """Assert that incrementally updated state equals the state recomputed from all objects."""
    cache._refresh()
    pods = cache._pods.values()
    _check_pod_table(cache._pods)
    _check_node_table(cache._nodes, pods, cache._claims.attached.usage())
    _check_foreign_usage(cache._foreign, pods)
    _check_evictable_pods(cache.evictable, pods)
    _check_nomination_table(cache._nominations, pods)
    _check_placed_pod_index(cache._placed_pods, pods)
    _check_gang_table(cache._gangs, pods)
    _check_claim_tables(cache._claims, pods)
    _check_device_tables(cache._devices, pods)


def _check_pod_table(table: PodTable) -> None:
    """Assert that the indices are consistent and that no assumption is left over."""
    assert {
        key: pod.uid for pod in table._pods.values() for key in [(pod.namespace, pod.name)]
    } == table._uids
    assert table._versions.keys() <= table._uids.keys(), "versions of deleted pods remain"
    assert table._without_priority.keys() <= table._pods.keys(), "manifests of deleted pods remain"
    assert table._awaiting == {pod.uid for pod in table._pods.values() if pod.awaits_devices}
    assert table._holds == {
        pod.uid: pod.bind_backoff for pod in table._pods.values() if pod.bind_backoff is not None
    }
    assert {uid: _shown(each) for uid, each in table._assumed.items()} == {
        pod.uid: (pod.node, pod.device, pod.volumes, pod.charged_queue or "")
        for pod in table._pods.values()
        if pod.assumed and pod.node is not None
    }


def _shown(assumed: Assumed) -> tuple[object, ...]:
    """What the pod shows of it."""
    bind = assumed.bind
    return bind.node, bind.device, bind.volumes, assumed.queue


def _check_node_table(table: NodeTable, pods: Iterable[Pod], attached: Mapping[NodeName, Resources]) -> None:
    """Assert that the usage equals that of `pods`, which are all pods, and of attached volumes."""
    recomputed: Ledger[NodeName] = Ledger()
    for node, amounts in attached.items():
        recomputed.add(node, amounts)
    for pod in pods:
        if pod.node is not None and pod.holds_node:
            recomputed.add(pod.node, pod_usage(pod))
    assert recomputed.view() == table._used.view(), "usage of nodes differs from the sum of their pods"
    assert table._written.keys() == set(table._nodes.keys()), "state of a deleted node remains"
    assert table.view().keys() == {key[1] for key in table._nodes.keys()}  # noqa: SIM118


def _check_foreign_usage(table: ForeignUsage, pods: Iterable[Pod]) -> None:
    """Assert that the usage equals that of `pods`, which are all pods."""
    recomputed = ForeignUsage(scheduler_name=table._scheduler_name)
    for pod in pods:
        recomputed.replace(None, pod)
    assert recomputed.view() == table.view(), "foreign usage differs from the sum of its pods"
    assert recomputed.terminating() == table.terminating(), "foreign pods that are being deleted differ"


def _check_evictable_pods(table: EvictablePodTable, pods: Iterable[Pod]) -> None:
    """Assert that these are those among `pods`, which are all pods."""
    recomputed = EvictablePodTable(scheduler_name=table._scheduler_name, is_selected=table._is_selected)
    for pod in pods:
        recomputed.replace(None, pod, ChangeLog())
    assert recomputed.view() == table.view(), "evictable pods differ from those among all pods"


def _check_nomination_table(table: NominationTable, pods: Iterable[Pod]) -> None:
    """Assert that the view equals that of `pods`, which are all pods."""
    recomputed = NominationTable(scheduler_name=table._scheduler_name, believed=table._believed)
    for pod in pods:
        recomputed.replace(None, pod, ChangeLog())
    assert recomputed.view() == table.view(), "nominated pods differ from those among all pods"


def _check_placed_pod_index(table: PlacedPodIndex, pods: Iterable[Pod]) -> None:
    """Assert that the counts equal those of `pods`, which are all pods."""
    pods = tuple(pods)
    recomputed = PlacedPodIndex(
        scheduler_name=table._scheduler_name, pods=lambda: pods, gangs_move=table._gangs_move
    )
    for pod in pods:
        recomputed.replace(None, pod, ChangeLog())
    assert recomputed.view() == table.view(), "counts of placed pods differ from the sum of all pods"


def _check_gang_table(table: GangTable, pods: Iterable[Pod]) -> None:
    """Assert that every pod of ours is in exactly one gang, and that the usage of queues is correct."""
    pods = tuple(pods)
    ours = sorted([pod.uid for pod in pods if pod.scheduler_name == table._scheduler_name])
    members = [pod for gang in table.view().values() for pod in gang.members]
    assert ours == sorted([pod.uid for pod in members if pod.scheduler_name == table._scheduler_name])
    _check_gang_view(table._known)
    assert list(table.view()) == sorted([gang.id for gangs in table._gangs.values() for gang in gangs])
    assert table._gangs.keys() <= table._pods.keys(), "gangs without candidates"
    _check_workload_table(
        table.workloads,
        (
            (pod.namespace, controller)
            for found in table._pods.values()
            for pod in found.values()
            if (controller := table._followed(pod)) is not None
        ),
        pods,
    )
    assert all(table._pods.values()), "an empty entry of candidates"
    _check_application_table(table._applications)
    _check_group_trees(table._trees)
    moved = [
        (pod, key)
        for key, found in table._pods.items()
        for pod in found.values()
        if pod.other_groups or pod.dialect == NATIVE.name
    ]
    assert all(table._key_of(pod, ChangeLog()) == key for pod, key in moved), "pods of moved PodGroups"
    parts = {key for found in table._parts.values() for key in found}
    assert parts == {key for key in table._pods if key.part}, "parts of workloads"
    recomputed = QueueUsage(scheduler_name=table._scheduler_name)
    for key, gangs in table._gangs.items():
        recomputed.replace(key, gangs)
    assert recomputed.view() == table.usage(), "usage of queues differs from the sum of their gangs"


def _check_gang_view(table: GangView) -> None:
    """Assert that the view is sorted."""
    assert list(table.view()) == table._order == sorted(table._by_id), "gangs are not sorted"


def _check_workload_table(
    table: WorkloadTable, owners: Iterator[tuple[str, Controller]], pods: Iterable[Pod]
) -> None:
    """Assert that there is one chain per controller of these pods of ours, and no other, each as it is
    now. `pods`: those of all schedulers."""
    _check_foreign_members(table._foreign, pods)
    counts: dict[OwnerId, int] = {}
    for namespace, controller in owners:
        owner = (namespace, controller.uid)
        counts[owner] = counts.get(owner, 0) + 1
    assert {owner: chain.pods for owner, chain in table._chains.items()} == counts, "chains of controllers"
    for owner, chain in table._chains.items():
        assert chain.key == table._follow(owner[0], chain.controller, ChangeLog()).key, "an old chain"
    through = {(uid, owner) for uid, owners in table._through.items() for owner in owners}
    assert through == {(uid, owner) for owner, chain in table._chains.items() for uid in chain.passes}
    known = [workload for kind in table.tables.values() for workload in kind.values()]
    owned = {(each.owner.uid, each.group.uid) for each in known if each.owner is not None}
    assert owned == {(owner, uid) for owner, uids in table._owned.items() for uid in uids}, "owners"
    assert table._by_uid == {each.group.uid: each for each in known}, "workloads by UID"


def _check_foreign_members(table: ForeignMembers, pods: Iterable[Pod]) -> None:
    """Assert that these are the pods of other schedulers among all pods."""
    expected = {
        ((pod.namespace, controller.uid), pod.uid)
        for pod in pods
        if (controller := table._controller(pod)) is not None
    }
    assert expected == {(owner, uid) for owner, found in table._pods.items() for uid in found}, "foreign"


def _check_application_table(table: ApplicationTable) -> None:
    """Assert that each application is what its first pod defines."""
    assert {key: read_application(table._pods[ages[0][3]]) for key, ages in table._ages.items()} == (
        table._groups
    )
    listed = {uid for ages in table._ages.values() for *_, uid in ages}
    assert listed == table._pods.keys(), "pods that define applications"


def _check_group_trees(table: GroupTrees) -> None:
    """Assert that the trees are what the objects say."""
    expected: dict[Key, set[GangKey]] = {}
    tables = (table._pod_groups.values(), table._composites.values())
    for dialect, groups in zip(IN_TREES, tables, strict=True):
        for group in groups:
            if group.parent:
                child = GangKey(GangKind.POD_GROUP, group.namespace, group.name, dialect)
                expected.setdefault((group.namespace, group.parent), set()).add(child)
    assert {key: set(found) for key, found in table._inside.items()} == expected, "groups in groups"
    placed = {
        (group.namespace, group.name): table._outermost(group.namespace, group.parent)
        or GangKey(GangKind.POD_GROUP, group.namespace, group.name, NATIVE.name)
        for group in table._pod_groups.values()
        if group.parent
    }
    assert table._placed == placed, "gangs of PodGroups with a parent"
    for key, group in table._gangs.items():
        written = table._composites if key.dialect == COMPOSITE.name else table._pod_groups
        found = written.get((key.namespace, key.name))
        assert found is not None, "a gang of a group that is gone"
        assert group == table._read(key, found), "an old gang of a tree"


def _check_claim_tables(table: ClaimTables, pods: Iterable[Pod]) -> None:
    """Assert that no state remains of deleted claims, and that their pods are those of `pods`."""
    pods = tuple(pods)
    _check_attached_volumes(table.attached, pods)
    mounting: dict[str, dict[PodUid, Pod]] = {}
    for pod in pods:
        for claim in mounted(pod):
            mounting.setdefault(claim.key, {})[pod.uid] = pod
    assert mounting == table._pods, "the pods that mount claims differ from those of all pods"
    keys = set(table.claims.keys())
    assert table._resolved.keys() == keys, "state of a deleted claim remains"
    assert {key for users in table._by_volume.values() for key in users} == keys
    assert all(table._by_volume.values()), "an empty entry by volume"
    decided = {(volume, pod.uid) for pod in pods for _, volume in pod.volumes}
    assert decided == {(volume, uid) for volume, users in table._decided.items() for uid in users}


def _check_attached_volumes(table: AttachedVolumes, pods: Iterable[Pod]) -> None:
    """Assert that what was counted event by event equals what follows from all objects."""
    mounting: dict[NodeName, dict[PodUid, Pod]] = {}
    for pod in pods:
        if (node := mounts(pod)) is not None:
            mounting.setdefault(node, {})[pod.uid] = pod
    assert mounting == table._pods, "the pods with volumes differ from those of all pods"
    nodes = [NodeName(key[1]) for key in table.csi_nodes.keys()]  # noqa: SIM118
    usage = {node: amounts for node in nodes if (amounts := table._usage(node))}
    assert usage == table._used, "usage of attach limits differs from the volumes of nodes"
    attached = Counter(each.node for each in table.attachments.values())
    assert attached == {node: len(each) for node, each in table._attached.items()}
    drivers = [driver for some in table.csi_nodes.values() for driver in some]
    limiting = Counter(driver.name for driver in drivers if driver.limit is not None)
    assert limiting == table._limiting, "the drivers with limits differ from those of all nodes"


def _check_device_tables(table: DeviceTables, pods: Iterable[Pod]) -> None:
    """Assert that what is kept equals what follows from all objects."""
    pairs = {(claim, pod) for pod, each in table._claims_of.items() for claim in each}
    known = {(claim, pod) for claim, each in table._assumed.items() for pod in each.pods}
    assert pairs == known, "claims with assumed allocations differ from those of pods"
    assert all(table._claims_of.values()), "an empty entry by pod"
    claims = {key: table.claims.get(key) for key in table.claims.keys()}  # noqa: SIM118
    shown = {key: table._with_assumed(each) for key, each in claims.items()} | table._extended_claims.made
    assert table._shown == shown, "claims differ"
    assert {key: uid for uid, keys in table._keys.items() for key in keys} == {
        key: each.uid for key, each in claims.items() if each is not None
    }, "UIDs of claims differ"
    _check_claim_users(table._users, table._shown)
    slices = {key: table.slices.get(key) for key in table.slices.keys()}  # noqa: SIM118
    _check_published_devices(
        table._published, {key: each for key, each in slices.items() if each is not None}
    )
    assert table._unready.keys() == {key for key, each in table._shown.items() if is_unready(each)}
    held = {uid for each in table._shown.values() for uid in holders(each)}
    assert table._held.keys() == {uid for uid in held if table._waiting(PodUid(uid)) is not None}
    pods = tuple(pods)
    _check_claiming_pods(table._pods, pods, table._claim_of)
    _check_extended_use(table._extended, pods, table.classes.by_name())
    _check_device_charges(table._charges, pods)
    _check_extended_resource_claims(
        table._extended_claims, {key: each for key, each in claims.items() if each is not None}
    )


def _check_claim_users(table: ClaimUsers, claims: Mapping[Key, Claim]) -> None:
    """Assert that the indices are those of these claims."""
    rebuilt = ClaimUsers()
    for key, claim in claims.items():
        rebuilt.replace(key, None, claim)
    assert table._of_device == rebuilt._of_device, "users of devices differ"
    assert table._of_holder == rebuilt._of_holder, "claims that are held for pods differ"


def _check_published_devices(table: PublishedDevices, slices: Mapping[Key, Slice]) -> None:
    """Assert that the devices are those of these slices."""
    rebuilt = PublishedDevices(table._rules)
    for key, each in slices.items():
        rebuilt.replace(key, None, each)
    assert table._slices == rebuilt._slices, "slices of pools differ"
    for pool, known in table._known.items():
        assert known == rebuilt._of(pool), f"the devices of {pool} differ"


def _check_claiming_pods(table: ClaimingPods, pods: Iterable[Pod], find: FindClaim) -> None:
    """Assert that what is kept follows from these pods."""
    rebuilt = ClaimingPods(scheduler_name=table._scheduler_name)
    for pod in pods:
        rebuilt.replace(pod.uid, pod)
        assert pod == table.with_states(pod, find), f"states of the claims of pod {pod} differ"
    assert table._claiming == rebuilt._claiming, "pods with claims differ"
    assert table._names == rebuilt._names, "names of claims differ"
    assert table._naming == rebuilt._naming, "pods that name claims differ"


def _check_extended_use(table: ExtendedUse, pods: Iterable[Pod], classes: Mapping[str, DeviceClass]) -> None:
    """Assert that what is kept follows from these objects."""
    rebuilt = ExtendedUse(scheduler_name=table._scheduler_name)
    rebuilt.classes_changed(classes)
    for pod in pods:
        rebuilt.replace(pod.uid, pod)
        assert pod == rebuilt.with_claim(pod), f"the entry for extended resources of pod {pod} differs"
    assert table._users == rebuilt._users, "pods that request extended resources differ"
    assert table._classes == rebuilt._classes, "classes of extended resources differ"


def _check_device_charges(table: DeviceCharges, pods: Iterable[Pod]) -> None:
    """Assert that what is kept follows from these pods, and that they have the charges that do."""
    rebuilt = DeviceCharges(
        scheduler_name=table._scheduler_name, pod=table._pod, claim=table._claim, classes=table._classes
    )
    pods = tuple(pods)
    for pod in pods:
        rebuilt.replace(pod.uid, pod)
    assert table._placed == rebuilt._placed, "placed pods with claims differ"
    assert table._users == rebuilt._users, "placed pods of claims differ"
    assert table._charged == rebuilt._charged, "pods that are charged for claims differ"
    for pod in pods:
        assert pod.charges == table.of(pod), f"what is charged for pod {pod} differs"


def _check_extended_resource_claims(table: ExtendedResourceClaims, claims: Mapping[Key, Claim]) -> None:
    """Assert that what is kept follows from these claims."""
    rebuilt = ExtendedResourceClaims()
    for key, claim in claims.items():
        rebuilt.replace(key, None, claim)
    assert {uid: set(keys) for uid, keys in table._real.items()} == {
        uid: set(keys) for uid, keys in rebuilt._real.items()
    }, "claims for extended resources differ"
    assert table.made.keys() == set(table._keys.values()), "decided claims for extended resources differ"
