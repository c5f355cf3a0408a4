"""Classes of pods with volumes: pods whose claims are in the same state are interchangeable.

The claims of a StatefulSet or of generic ephemeral volumes have a name for each pod. The scheduler compares
their states instead, so that a gang with such volumes has few kinds of pods.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from msgspec.msgpack import Encoder
from msgspec.structs import replace

from phalanx.model.gangs import Gang
from phalanx.model.names import ShapeKey
from phalanx.model.pods import Pod, PodShape, VolumeClaim

_KEY_BYTES: Final = 8
_MISSING: Final = VolumeClaim(why_unusable="it does not exist")
_encode: Final = Encoder(order="sorted").encode


class VolumeClasses:
    """Adds the states of claims to shapes, under a key that is the same in every cycle."""

    def __init__(self, claims: Mapping[str, VolumeClaim]) -> None:
        self._claims = claims
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
        shape, content = pod.shape, b"".join([encoded for encoded, _ in classes])
        known = self._shapes.get((shape.key, content))
        if known is None:
            volumes = tuple([states[place] for _, place in classes])
            digest = blake2b(content, digest_size=_KEY_BYTES).hexdigest()
            known = replace(shape, key=ShapeKey(f"{shape.key}@{digest}"), volumes=volumes)
            self._shapes[shape.key, content] = known
        return known


def _class(state: VolumeClaim) -> VolumeClaim:
    """The state without what distinguishes claims that are equal for the placement of a pod."""
    return replace(state, name="", owner="", for_one_pod=False)
