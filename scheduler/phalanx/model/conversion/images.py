"""Conversion of the images of pods and nodes."""

from sys import intern

from phalanx.model.api import core
from phalanx.model.images import normalized


def read_pod_images(spec: core.PodSpec) -> tuple[str, ...]:
    """The image of each container, init container and image volume, sorted; one that is used twice is there
    twice."""
    found = [each.image for each in (*spec.containers, *spec.init_containers)]
    found += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    return tuple(sorted(intern(normalized(image)) for image in found))


def read_node_images(status: core.NodeStatus) -> dict[str, int]:
    """The size of each image that the node has, in bytes, by each of its names.

    Of a name that is there twice the last one counts, as in kube-scheduler.
    """
    sizes = {intern(name): image.size_bytes for image in status.images for name in image.names}
    return dict(sorted(sizes.items()))
