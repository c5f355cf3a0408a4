"""What is left of volumes that exist already, and of the space in which drivers provision new ones.

Amounts of a node are upper bounds: how many volumes that satisfy certain claims the node can mount, and how
many bytes can be provisioned for it alone. Budgets bound what several nodes have together. Where volumes are
for one node each, or for disjoint sets of nodes, both together are exact for a gang with few kinds of claims
(Hall's theorem). `choose` decides which claim gets which volume. It is exact for the chosen nodes.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.limits import VOLUME_SPACE_MAX
from phalanx.model.decisions import Bind
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName, PodUid
from phalanx.model.nodes import Node, NodeState
from phalanx.model.pods import Assignments, Pod, PodShape, Term, VolumeClaim, WantedVolume
from phalanx.model.reasons import Reason
from phalanx.model.resources import Resources
from phalanx.model.selectors import labels_match, node_matches_any
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.supply import Decided, SessionSupply, SharedAmounts, SupplyLacking
from phalanx.model.supplies.volumes.attach_limits import ATTACH_LIMITS
from phalanx.model.supplies.volumes.classes import VolumeClasses
from phalanx.model.supplies.volumes.published import (
    ClusterVolumes,
    StaticVolume,
    StorageCapacity,
    match_all,
    mismatch,
)
from phalanx.model.supplies.volumes.resources import SPACE, STATIC, class_of, is_space

VOLUME_BLOCKS_MAX: Final = 64
"""Sets of nodes that share volumes or space, of one StorageClass, that are counted. Zones are fewer."""

VolumeSets = Mapping[str, tuple[WantedVolume, ...]]
"""By resource, the kinds of claims that it counts."""


class OpenVolumes(SessionSupply):
    """The volumes of one session. They follow its placements."""

    names = (STATIC, SPACE)
    reason = Reason.VOLUME_NOT_BOUND
    next_step = "Create more PersistentVolumes, or wait until other claims release some"

    def __init__(self, snapshot: Snapshot, nodes: Mapping[NodeName, NodeState], decided: Decided) -> None:
        self._classes = VolumeClasses(snapshot)
        self.cluster = snapshot.part(ClusterVolumes)
        self._gangs = snapshot.gangs
        self._nodes = nodes
        self._decided = decided
        self._places = _Places(nodes)
        self._groups: list[_Group] | None = None
        self._groups_of: dict[NodeName, list[int]] = {}
        self._fitting: dict[tuple[int, WantedVolume], tuple[StaticVolume, ...]] = {}
        self._segments: dict[str, tuple[_Segment, ...]] = {}
        self._taken: tuple[int, frozenset[str]] = (-1, frozenset())
        self._used: tuple[int, Mapping[tuple[str, NodeName], int]] = (-1, {})
        self._assumed: Mapping[tuple[str, NodeName], int] | None = None

    # --- volumes ------------------------------------------------------------------------------------------

    def candidates(self, node: NodeName, wanted: WantedVolume) -> list[StaticVolume]:
        """The volumes that the node can mount and that satisfy the claim, the smallest first."""
        self._group()
        found = [self._fit(number, wanted) for number in self._groups_of.get(node, ())]
        return list(found[0]) if len(found) == 1 else sorted(chain(*found), key=_by_size)

    def amount(self, node: NodeName, resource: str, kinds: tuple[WantedVolume, ...]) -> int:
        """What the node has of the resource now."""
        if is_space(resource):
            return self._space_on(node, class_of(resource))
        return self._count(self._numbers_of(node), kinds)

    def with_needs(self, gang: Gang) -> Gang:
        """With the states of claims."""
        return self._classes.with_volumes(gang)

    def pod_with_needs(self, pod: Pod) -> Pod:
        """With the states of its claims."""
        return self._classes.pod_with_volumes(pod)

    def project(self, shapes: Sequence[PodShape]) -> "VolumeProjection | None":
        """Amounts of each resource."""
        sets = _sets_of(shapes)
        return VolumeProjection(self, sets) if sets else None

    def shared_amounts(self, pods: Sequence[Pod]) -> list[SharedAmounts]:
        """What several nodes have of these resources together."""
        found: list[SharedAmounts] = []
        for name, kinds in _sets_of(pod.shape for pod in pods).items():
            found += self._space_budgets(name) if is_space(name) else self._volume_budgets(name, kinds)
        return found

    def _volume_budgets(self, name: str, kinds: tuple[WantedVolume, ...]) -> Iterable[SharedAmounts]:
        groups = self._group()
        total = self._count(range(len(groups)), kinds)
        text = f"volumes of StorageClass {class_of(name)}"
        yield SharedAmounts(text, remaining={name: total})
        blocks = {group.nodes for group in groups if 1 < len(group.nodes) < len(self._nodes)}
        for nodes in sorted(blocks, key=sorted)[:VOLUME_BLOCKS_MAX]:
            numbers = {number for node in nodes for number in self._groups_of[node]}
            count = self._count(sorted(numbers), kinds)
            if count < total:
                yield SharedAmounts(f"{text} on {len(nodes)} nodes", remaining={name: count}, nodes=nodes)

    def complete(self, binds: list[Bind], assignments: Assignments) -> list[Bind]:
        """Claims get volumes that exist already."""
        chosen = self.choose(assignments)
        return [replace(bind, volumes=chosen[bind.pod]) if bind.pod in chosen else bind for bind in binds]

    def shortage(self, resource: str, node: NodeName) -> str | None:
        """The limit of a driver."""
        if not resource.startswith(f"{ATTACH_LIMITS.name}["):
            return None
        name = ATTACH_LIMITS.what(resource)
        drivers = self.cluster.csi_nodes.get(node, ())
        limit = next((driver.limit for driver in drivers if driver.name == name), None)
        return f"the limit of {limit} volumes of {name} is reached"

    def choose(self, assignments: Assignments) -> Mapping[PodUid, tuple[tuple[str, str], ...]]:
        """A different volume for each claim that needs one; the smallest ones. Raises SupplyLacking.

        A claim for which a volume can be provisioned gets one that is left over, or none.
        """
        claims = self._claims_of(assignments)
        if not claims:
            return {}
        taken = self._taken_names()
        lists = [
            [each.name for each in self._shared_candidates(claim) if each.name not in taken]
            for claim in claims
        ]
        needed = [number for number, claim in enumerate(claims) if not self._can_be_provisioned(claim)]
        names = match_all([lists[number] for number in needed])
        if names is None:
            texts = sorted(claims[number].key for number in needed)
            raise SupplyLacking(_lacking(texts, claims[needed[0]].wanted.storage_class))
        chosen = dict(zip(needed, names, strict=True))
        left = set(names)
        for number in sorted(set(range(len(claims))) - set(needed)):
            free = next((name for name in lists[number] if name not in left), None)
            if free is not None:
                chosen[number] = free
                left.add(free)
        found: dict[PodUid, list[tuple[str, str]]] = {}
        for number, name in sorted(chosen.items()):
            for uid in claims[number].pods:
                found.setdefault(uid, []).append((claims[number].key, name))
        return {uid: tuple(sorted(pairs)) for uid, pairs in found.items()}

    def _claims_of(self, assignments: Assignments) -> list["_Claim"]:
        """The claims that take a volume which exists already, the smallest first."""
        found: dict[str, _Claim] = {}
        for node, pods in assignments:
            for pod in pods:
                for mounted in pod.claims:
                    state = self.cluster.claims.get(mounted.key)
                    if state is None or state.wanted is None or not self.cluster.static_volumes:
                        continue
                    claim = found.setdefault(mounted.key, _Claim(mounted.key, state, state.wanted, [], []))
                    claim.nodes.append(node)
                    claim.pods.append(pod.uid)
        return sorted(found.values(), key=lambda claim: (claim.wanted.size, claim.key))

    def _shared_candidates(self, claim: "_Claim") -> list[StaticVolume]:
        """The candidates that all nodes of the pods with the claim can mount."""
        first, *others = dict.fromkeys(claim.nodes)
        found = self.candidates(first, claim.wanted)
        for node in others:
            there = {each.name for each in self.candidates(node, claim.wanted)}
            found = [each for each in found if each.name in there]
        return found

    def _can_be_provisioned(self, claim: "_Claim") -> bool:
        if claim.state.provisioning is None:
            return False
        space = self.space_for(claim.state)
        return all(can_be_provisioned(claim.state, self._nodes[node].node, space) for node in claim.nodes)

    def _group(self) -> list["_Group"]:
        """The volumes by the nodes that can mount them."""
        if self._groups is None:
            volumes: dict[frozenset[NodeName], list[StaticVolume]] = {}
            for terms, same in _by_terms(self.cluster.static_volumes).items():
                volumes.setdefault(self._places.of_any(terms), []).extend(same)
            self._groups = [
                _Group(nodes, tuple(sorted(same, key=_by_size))) for nodes, same in volumes.items() if nodes
            ]
            for number, group in enumerate(self._groups):
                for node in group.nodes:
                    self._groups_of.setdefault(node, []).append(number)
        return self._groups

    def _numbers_of(self, node: NodeName) -> Sequence[int]:
        self._group()
        return self._groups_of.get(node, ())

    def _fit(self, number: int, wanted: WantedVolume) -> tuple[StaticVolume, ...]:
        key = (number, wanted)
        if key not in self._fitting:
            volumes = self._group()[number].volumes
            self._fitting[key] = tuple([each for each in volumes if not mismatch(each, wanted)])
        return self._fitting[key]

    def _count(self, numbers: Iterable[int], kinds: tuple[WantedVolume, ...]) -> int:
        """The volumes of these groups that satisfy a claim of one of the kinds and are not taken."""
        taken = self._taken_names()
        if len(kinds) == 1 and not taken:
            return sum(len(self._fit(number, kinds[0])) for number in numbers)
        names = {each.name for number in numbers for kind in kinds for each in self._fit(number, kind)}
        return len(names - taken)

    def _taken_names(self) -> frozenset[str]:
        """The volumes that placements of this cycle have got."""
        version = self._decided.placements_version
        if self._taken[0] != version:
            binds = (bind for placement in self._decided.placements for bind in placement.binds)
            names = frozenset(name for bind in binds for _, name in bind.volumes)
            self._taken = (version, names)
        return self._taken[1]

    # --- space --------------------------------------------------------------------------------------------

    def space_for(self, claim: VolumeClaim) -> "SpaceFilter":
        """The nodes with enough space for a new volume of the claim."""
        return SpaceFilter(claim, self.cluster.storage_capacities)

    def _space_on(self, node: NodeName, storage_class: str) -> int:
        """Bytes for this node alone; practically unlimited where it shares them with others."""
        segments = [each for each in self._segments_of(storage_class) if node in each.nodes]
        if any(each.total is None or len(each.nodes) > 1 for each in segments):
            return VOLUME_SPACE_MAX
        total = sum(each.total or 0 for each in segments)
        return max(0, min(VOLUME_SPACE_MAX, total - self._used_space().get((storage_class, node), 0)))

    def _space_budgets(self, name: str) -> Iterable[SharedAmounts]:
        storage_class = class_of(name)
        segments = self._segments_of(storage_class)
        shared = {each.nodes for each in segments if len(each.nodes) > 1 and each.total is not None}
        for nodes in sorted(shared, key=sorted)[:VOLUME_BLOCKS_MAX]:
            there = [each for each in segments if not each.nodes.isdisjoint(nodes)]
            if any(each.total is None for each in there):
                continue
            used = self._used_space()
            total = sum(each.total or 0 for each in there)
            total -= sum(used.get((storage_class, node), 0) for node in nodes)
            text = f"space of StorageClass {storage_class} on {len(nodes)} nodes"
            yield SharedAmounts(text, remaining={name: max(0, total)}, nodes=nodes)

    def _segments_of(self, storage_class: str) -> tuple["_Segment", ...]:
        if storage_class not in self._segments:
            capacities = self.cluster.storage_capacities.get(storage_class, ())
            self._segments[storage_class] = tuple(
                [
                    _Segment(
                        self._places.of(each.nodes),
                        None if each.total is None else max(each.total, each.largest),
                    )
                    for each in capacities
                ]
            )
        return self._segments[storage_class]

    def _used_space(self) -> Mapping[tuple[str, NodeName], int]:
        """Bytes by StorageClass and node that decided pods will use, of claims without a volume."""
        version = self._decided.placements_version
        if self._used[0] != version:
            used = dict(self._assumed_space())
            for placement in self._decided.placements:
                members = {pod.uid: pod for pod in self._gangs[placement.gang].members}
                for bind in placement.binds:
                    self._add_space(members[bind.pod], bind.node, used)
            self._used = (version, used)
        return self._used[1]

    def _assumed_space(self) -> Mapping[tuple[str, NodeName], int]:
        if self._assumed is None:
            found: dict[tuple[str, NodeName], int] = {}
            for gang in self._gangs.values():
                for pod in gang.members:
                    if pod.assumed and pod.claims and pod.node is not None:
                        self._add_space(pod, pod.node, found)
            self._assumed = found
        return self._assumed

    def _add_space(self, pod: Pod, node: NodeName, used: dict[tuple[str, NodeName], int]) -> None:
        for mounted in pod.claims:
            state = self.cluster.claims.get(mounted.key)
            provisioning = state.provisioning if state is not None else None
            if provisioning is not None and provisioning.needs_space:
                key = (provisioning.storage_class, node)
                used[key] = used.get(key, 0) + provisioning.needs_space


class VolumeProjection(Struct, frozen=True):
    """What nodes have of the resources for volumes that certain pods use."""

    volumes: OpenVolumes
    sets: VolumeSets

    def request(self, pod: Pod, requests: Resources) -> Resources:
        """They are supplied amounts of the shape."""
        return requests

    def free(self, state: NodeState, free: Resources) -> Resources:
        """What the node has now."""
        node, sets = state.node.name, self.sets.items()
        return {**free, **{name: self.volumes.amount(node, name, kinds) for name, kinds in sets}}


def _sets_of(shapes: Iterable[PodShape]) -> VolumeSets:
    """The resources that these pods use."""
    return {name: kinds for shape in shapes for name, kinds in shape.volume_sets}


class SpaceFilter:
    """The nodes for which a driver has enough space for the volume of a claim."""

    def __init__(self, claim: VolumeClaim, published: Mapping[str, Sequence[StorageCapacity]]) -> None:
        provisioning = claim.provisioning
        assert provisioning is not None
        self._is_needed = provisioning.needs_space is not None
        size = provisioning.needs_space or 0
        self.lacking = f"not enough space for claim {claim.name} of StorageClass {provisioning.storage_class}"
        self._by_label: dict[tuple[str, str], list[Term]] = {}
        """Selectors by a label that a node must have for them: most select one node or zone."""
        self._others: list[Term] = []
        for capacity in published.get(provisioning.storage_class, ()) if self._is_needed else ():
            if capacity.largest >= size:
                self._add(capacity.nodes)

    def _add(self, nodes: Term) -> None:
        label = _single_label(nodes)
        if label is None:
            self._others.append(nodes)
        else:
            self._by_label.setdefault(label, []).append(nodes)

    def is_on(self, node: Node) -> bool:
        """Whether it has space for this node."""
        if not self._is_needed:
            return True
        found = (self._by_label.get(label, ()) for label in node.labels.items() if self._by_label)
        return any(labels_match(node.labels, term) for term in chain(self._others, *found))


def can_be_provisioned(claim: VolumeClaim, node: Node, space: SpaceFilter) -> bool:
    """Whether a volume can be provisioned for the claim and this node."""
    if claim.node_affinity and not node_matches_any(node, claim.node_affinity):
        return False
    return space.is_on(node)


class _Group(Struct, frozen=True):
    """Volumes that the same nodes can mount."""

    nodes: frozenset[NodeName]
    volumes: tuple[StaticVolume, ...]


class _Segment(Struct, frozen=True):
    """Nodes for which a driver provisions from one pool, and its bytes; None if it does not say."""

    nodes: frozenset[NodeName]
    total: int | None


class _Claim(Struct):
    """A claim of an assignment, with the nodes of its pods."""

    key: str
    state: VolumeClaim
    wanted: WantedVolume
    nodes: list[NodeName]
    pods: list[PodUid]


class _Places:
    """Finds the nodes that match terms, by an index of the labels of nodes."""

    def __init__(self, nodes: Mapping[NodeName, NodeState]) -> None:
        self._nodes = nodes
        self._all = frozenset(nodes)
        self._by_label: dict[str, dict[str, list[NodeName]]] = {}

    def of_any(self, terms: tuple[Term, ...]) -> frozenset[NodeName]:
        """The nodes that match one of these alternatives; all nodes if there are none."""
        if not terms:
            return self._all
        return frozenset(
            name
            for term in terms
            if term.requirements
            for name in self._candidates(term)
            if node_matches_any(self._nodes[name].node, (term,))
        )

    def of(self, term: Term) -> frozenset[NodeName]:
        """The nodes whose labels match a label selector."""
        return frozenset(
            name for name in self._candidates(term) if labels_match(self._nodes[name].node.labels, term)
        )

    def _candidates(self, term: Term) -> Iterable[NodeName]:
        label = _single_label(term)
        if label is None:
            return self._all
        key, value = label
        if key not in self._by_label:
            index = self._by_label[key] = {}
            for name, state in self._nodes.items():
                if key in state.node.labels:
                    index.setdefault(state.node.labels[key], []).append(name)
        return self._by_label[key].get(value, ())


def _single_label(term: Term) -> tuple[str, str] | None:
    """A label that a node must have to match the term."""
    for each in term.requirements:
        if each.operator == "In" and len(each.values) == 1 and not each.on_field:
            return each.key, each.values[0]
    return None


def _by_terms(volumes: Iterable[StaticVolume]) -> dict[tuple[Term, ...], list[StaticVolume]]:
    found: dict[tuple[Term, ...], list[StaticVolume]] = {}
    for volume in volumes:
        found.setdefault(volume.nodes, []).append(volume)
    return found


def _by_size(volume: StaticVolume) -> tuple[int, str]:
    return volume.size, volume.name


def _lacking(keys: Sequence[str], storage_class: str) -> str:
    shown = ", ".join(keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
    return f"the available volumes of StorageClass {storage_class} do not suffice together for claims {shown}"
