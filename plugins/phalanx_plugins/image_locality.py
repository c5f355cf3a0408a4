"""Prefers nodes that have the images of a pod, if the configuration gives images a price.

The price is the score of kube-scheduler's plugin ImageLocality, in reverse. An image counts by its size,
times the part of the nodes that have it: so a few nodes with an image do not attract all pods. All together
count from 23 MiB to 1000 MiB for each container. A node without the images costs `weight`. One with as much
as counts costs 0.

By default `weight` is 0, and images are not read at all. With a price, nodes with other images differ, so
that searches take longer.
"""

from collections.abc import Iterable
from typing import Final

from phalanx.framework.plugin import NodeCost, Plugin
from phalanx.framework.pod_view import PodView
from phalanx.framework.view import SessionView
from phalanx.model.images import ImagePrices
from phalanx.model.nodes import Node

_MIB: Final = 1 << 20
LEAST: Final = 23 * _MIB
MOST_OF_ONE: Final = 1000 * _MIB
BEST: Final = 100
"""The best score in kube-scheduler."""


class ImageLocality(Plugin):
    """`status.images` of nodes against the images of pods."""

    name = "image-locality"
    lasting_answers = True
    Arguments = ImagePrices

    def __init__(self, arguments: ImagePrices) -> None:
        self._weight = arguments.weight

    def node_cost(self, pod: PodView, view: SessionView) -> NodeCost | None:
        """What a node costs because it lacks images of the pod."""
        images = pod.shape.images
        if not self._weight or not images:
            return None
        nodes = [state.node.images for state in view.nodes.values()]
        spread = {image: sum(1 for each in nodes if image in each) for image in images}
        if not any(spread.values()):
            return None
        return _cost_of(images, spread, len(nodes), self._weight)


def _cost_of(images: Iterable[str], spread: dict[str, int], nodes: int, weight: int) -> NodeCost:
    images = tuple(images)
    most = MOST_OF_ONE * len(images)

    def cost(node: Node) -> int:
        there = sum(node.images.get(image, 0) * spread[image] // nodes for image in images)
        score = BEST * (min(max(there, LEAST), most) - LEAST) // (most - LEAST)
        return weight * (BEST - score) // BEST

    return cost
