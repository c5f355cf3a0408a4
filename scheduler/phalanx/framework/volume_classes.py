"""Classes of pods with volumes: pods whose claims are in the same state are interchangeable.

The claims of a StatefulSet or of generic ephemeral volumes have a name for each pod. The scheduler compares
their states instead, so that a gang with such volumes has few kinds of pods.

Volumes of drivers that some node limits also count: they are amounts of the shape, as host ports are. A
volume that several pods mount counts for each of those that wait, and for none of those that are placed,
since a node may keep it when one of them ends. That is safe but not exact: it may exclude a feasible node.
"""

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from msgspec.msgpack import Encoder
from msgspec.structs import replace

from phalanx.model.attach_limits import attach_requests
from phalanx.model.gangs import Gang
from phalanx.model.names import ShapeKey
from phalanx.model.pods import Pod, PodShape, VolumeClaim
from phalanx.model.snapshot import Snapshot

_KEY_BYTES: Final = 8
_MISSING: Final = VolumeClaim(why_unusable="it does not exist")
_encode: Final = Encoder(order="sorted").encode


class VolumeClasses:
    """Adds the states of claims to shapes, under a key that is the same in every cycle."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._claims = claims = snapshot.claims
        self._limited = frozenset(snapshot.limited_drivers)
        self._shared = _shared_claims(snapshot.gangs.values()) if self._limited else frozenset()
        self._shapes: dict[tuple[ShapeKey, bytes], PodShape] = {}
        self.are_needed: Final = bool(claims)
        """Whether the cluster has claims at all."""

    def with_volumes(self, gang: Gang) -> Gang:
        """The gang with the states of their claims in the shapes of its members."""
        if not any(pod.claims for pod in gang.members):
            return gang
        return replace(gang, members=tuple([self.pod_with_volumes(pod) for pod in gang.members]))

    def pod_with_volumes(self, pod: Pod) -> Pod:
        """The pod with the states of its claims in its shape; the pod itself if it mounts none."""
        if not pod.claims or pod.shape.volumes is not None:
            return pod
        return replace(pod, shape=self._shape(pod))

    def _shape(self, pod: Pod) -> PodShape:
        states = [self._claims.get(claim.key, _MISSING) for claim in pod.claims]
        if pod.bind_backoff is not None and pod.bind_backoff.failed_on:
            failed_on = pod.bind_backoff.failed_on
            states = [
                replace(state, failed_on=failed_on) if state.provisioning is not None else state
                for state in states
            ]
        classes = sorted([(_encode(_class(state)), place) for place, state in enumerate(states)])
        shape, attached = pod.shape, self._attached(pod)
        content = b"".join([encoded for encoded, _ in classes]) + (_encode(attached) if attached else b"")
        known = self._shapes.get((shape.key, content))
        if known is None:
            volumes = tuple([states[place] for _, place in classes])
            digest = blake2b(content, digest_size=_KEY_BYTES).hexdigest()
            known = replace(
                shape,
                key=ShapeKey(f"{shape.key}@{digest}"),
                volumes=volumes,
                host_ports=tuple(sorted((*shape.host_ports, *attached))),
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
        return tuple(attach_requests(volumes).items())


def _shared_claims(gangs: Iterable[Gang]) -> frozenset[str]:
    """The claims that several members of gangs mount."""
    members = (pod for gang in gangs for pod in gang.members if pod.claims)
    counts = Counter(claim.key for pod in members for claim in pod.claims)
    return frozenset(key for key, count in counts.items() if count > 1)


def _class(state: VolumeClaim) -> VolumeClaim:
    """The state without what distinguishes claims that are equal for the placement of a pod."""
    return replace(state, name="", owner="", handle="", for_one_pod=False)
