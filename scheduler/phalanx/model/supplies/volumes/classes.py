"""Classes of pods with volumes: pods whose claims are in the same state are interchangeable.

The claims of a StatefulSet or of generic ephemeral volumes have a name for each pod. The scheduler compares
their states instead, so that a gang with such volumes has few kinds of pods.

Volumes of drivers that some node limits also count: they are amounts of the shape, as host ports are. A
volume that several pods mount counts for each of those that wait, and for none of those that are placed,
since a node may keep it when one of them ends. That is safe but not exact: it may exclude a feasible node.

Claims that take a volume which exists already count too, and the space for volumes that are provisioned
(`published`). A claim that several members mount is not counted: it is one volume.
"""

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from itertools import combinations
from typing import Final

from msgspec.msgpack import Encoder
from msgspec.structs import replace

from phalanx.model.gangs import Gang
from phalanx.model.names import ShapeKey
from phalanx.model.pods import MountedClaim, Pod, PodShape, VolumeClaim, WantedVolume
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.volumes.attach_limits import ATTACH_LIMITS
from phalanx.model.supplies.volumes.published import ClusterVolumes
from phalanx.model.supplies.volumes.resources import space, static_volumes

VOLUME_KINDS_MAX: Final = 4
"""Kinds of claims of a gang and a StorageClass of which all combinations are counted. Their number doubles
with each kind. With more kinds, single ones and all together are counted."""

_KEY_BYTES: Final = 8
_MISSING: Final = VolumeClaim(why_unusable="it does not exist")
_encode: Final = Encoder(order="sorted").encode


class VolumeClasses:
    """Adds the states of claims to shapes, under a key that is the same in every cycle."""

    def __init__(self, snapshot: Snapshot) -> None:
        volumes = snapshot.part(ClusterVolumes)
        self._claims = claims = volumes.claims
        self._limited = frozenset(volumes.limited_drivers)
        self._offering = frozenset(volume.storage_class for volume in volumes.static_volumes)
        """StorageClasses with a volume that a claim may take."""
        is_counted = bool(self._limited) or any(map(_is_counted, claims.values()))
        self._shared = _shared_claims(snapshot.gangs.values()) if is_counted else frozenset()
        self._shapes: dict[tuple[ShapeKey, bytes], PodShape] = {}

    def with_volumes(self, gang: Gang) -> Gang:
        """The gang with the states of their claims in the shapes of its members."""
        if not any(pod.claims for pod in gang.members):
            return gang
        sets = _sets_of([state.wanted for pod in gang.members for state in self._counted(pod)])
        return replace(gang, members=tuple([self._with_sets(pod, sets) for pod in gang.members]))

    def pod_with_volumes(self, pod: Pod) -> Pod:
        """The pod with the states of its claims in its shape; the pod itself if it mounts none."""
        return self._with_sets(pod, _sets_of([state.wanted for state in self._counted(pod)]))

    def _with_sets(self, pod: Pod, sets: "_Sets") -> Pod:
        if not pod.claims or pod.shape.volumes is not None:
            return pod
        return replace(pod, shape=self._shape(pod, sets))

    def _state(self, pod: Pod, claim: MountedClaim) -> VolumeClaim:
        """The state of a claim, without alternatives that the pod does not have."""
        state = self._claims.get(claim.key, _MISSING)
        if state.wanted is None:
            return state
        if pod.volumes and claim.key in dict(pod.volumes):
            # the volume is decided, and no other one is looked for
            return replace(state, wanted=None, provisioning=None, node_affinity=())
        if state.provisioning is not None and state.wanted.storage_class not in self._offering:
            return replace(state, wanted=None)
        return state

    def _counted(self, pod: Pod) -> list[VolumeClaim]:
        """The states of the claims of a waiting pod that no other pod mounts."""
        if pod.node is not None:
            return []
        return [self._state(pod, claim) for claim in pod.claims if claim.key not in self._shared]

    def _shape(self, pod: Pod, sets: "_Sets") -> PodShape:
        states = [self._state(pod, claim) for claim in pod.claims]
        if pod.bind_backoff is not None and pod.bind_backoff.failed_on:
            failed_on = pod.bind_backoff.failed_on
            states = [
                replace(state, failed_on=failed_on) if state.provisioning is not None else state
                for state in states
            ]
        classes = sorted([(_encode(_class(state)), place) for place, state in enumerate(states)])
        counted = _amounts(self._counted(pod), sets)
        shape, attached = pod.shape, (*self._attached(pod), *counted.items())
        content = b"".join([encoded for encoded, _ in classes]) + (_encode(attached) if attached else b"")
        known = self._shapes.get((shape.key, content))
        if known is None:
            volumes = tuple([states[place] for _, place in classes])
            digest = blake2b(content, digest_size=_KEY_BYTES).hexdigest()
            known = replace(
                shape,
                key=ShapeKey(f"{shape.key}@{digest}"),
                volumes=volumes,
                supplied=tuple(sorted((*shape.supplied, *attached))),
                volume_sets=tuple([(name, sets.get(name, ())) for name in sorted(counted)]),
            )
            self._shapes[shape.key, content] = known
        return known

    def _attached(self, pod: Pod) -> tuple[tuple[str, int], ...]:
        """What the pod uses of attach limits."""
        if not self._limited:
            return ()
        keys = [claim.key for claim in pod.claims if pod.node is None or claim.key not in self._shared]
        states = [self._claims.get(key, _MISSING) for key in keys]
        volumes = [(each.driver, each.handle) for each in states if each.driver in self._limited]
        return tuple(ATTACH_LIMITS.used(volumes).items())


def _shared_claims(gangs: Iterable[Gang]) -> frozenset[str]:
    """The claims that several members of gangs mount."""
    members = (pod for gang in gangs for pod in gang.members if pod.claims)
    counts = Counter(claim.key for pod in members for claim in pod.claims)
    return frozenset(key for key, count in counts.items() if count > 1)


_Sets = dict[str, tuple[WantedVolume, ...]]
"""By resource, the kinds of claims that it counts."""


def _is_counted(state: VolumeClaim) -> bool:
    return state.wanted is not None or (
        state.provisioning is not None and state.provisioning.needs_space is not None
    )


def _sets_of(claims: Iterable[WantedVolume | None]) -> _Sets:
    """The combinations of kinds of claims that are counted: those of one class compete for its volumes."""
    by_class: dict[str, dict[WantedVolume, bytes]] = {}
    for kind in claims:
        if kind is not None:
            by_class.setdefault(kind.storage_class, {}).setdefault(kind, _encode(kind))
    found: _Sets = {}
    for name, encoded in by_class.items():
        kinds = sorted(encoded, key=lambda kind: encoded[kind])
        numbers = range(1, len(kinds) + 1) if len(kinds) <= VOLUME_KINDS_MAX else (1, len(kinds))
        for number in numbers:
            for some in combinations(kinds, number):
                content = b"".join([encoded[kind] for kind in some])
                digest = blake2b(content, digest_size=_KEY_BYTES).hexdigest()
                found[static_volumes(name, digest)] = some
    return found


def _amounts(claims: Iterable[VolumeClaim], sets: _Sets) -> dict[str, int]:
    """What claims use of the volumes that exist already, and of the space for new ones.

    A claim for which a volume may be provisioned can do without the former; if it may take one, it can do
    without the latter.
    """
    used: Counter[str] = Counter()
    for claim in claims:
        provisioning = claim.provisioning
        if provisioning is None and claim.wanted is not None:
            used.update(name for name, kinds in sets.items() if claim.wanted in kinds)
        elif provisioning is not None and provisioning.needs_space and claim.wanted is None:
            used[space(provisioning.storage_class)] += provisioning.needs_space
    return dict(used)


def _class(state: VolumeClaim) -> VolumeClaim:
    """The state without what distinguishes claims that are equal for the placement of a pod."""
    return replace(state, name="", owner="", handle="", for_one_pod=False)
