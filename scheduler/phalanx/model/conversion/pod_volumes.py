"""Conversion of the volumes of a pod: which PersistentVolumeClaims it mounts."""

from collections.abc import Iterator

from phalanx.model.api import core
from phalanx.model.pods import MountedClaim


def read_claims(pod: core.Pod) -> tuple[MountedClaim, ...]:
    """The claims that the pod mounts, each once, sorted by key.

    The claim of a generic ephemeral volume is named after the pod and the volume, as kube-controller-manager
    names it (`VolumeClaimName` in component-helpers of Kubernetes 1.37).
    """
    if not pod.spec.volumes:
        return ()
    found: dict[str, MountedClaim] = {}
    namespace = pod.metadata.namespace
    for volume in pod.spec.volumes:
        source = volume.persistent_volume_claim
        if source is not None and source.claim_name:
            key = f"{namespace}/{source.claim_name}"
            found.setdefault(key, MountedClaim(key=key))
        elif source is None and volume.ephemeral is not None:
            key = f"{namespace}/{pod.metadata.name}-{volume.name}"
            found[key] = MountedClaim(key=key, ephemeral=volume.name)
    return tuple(found[key] for key in sorted(found))


def unnamed_claims(spec: core.PodSpec) -> Iterator[str]:
    """Paths of claim names that are empty."""
    for index, volume in enumerate(spec.volumes):
        if volume.persistent_volume_claim is not None and not volume.persistent_volume_claim.claim_name:
            yield f"spec.volumes[{index}].persistentVolumeClaim.claimName"
