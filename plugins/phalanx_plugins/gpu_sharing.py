"""Places pods that request a share of a GPU only on nodes that share their GPUs.

Such a node has the label `scheduling.phalanx.dev/gpu-sharing: "true"` and the labels of GPU feature discovery
with the number of GPUs, and offers no whole `nvidia.com/gpu`, since the device plugin does not know which
shares are taken. For a request in bytes the label with the memory of a GPU is needed too.
"""

from phalanx.framework.plugin import NodeFilter, Plugin
from phalanx.framework.pod_view import PodView
from phalanx.framework.view import SessionView
from phalanx.model.names import NODE_GPU_COUNT, NODE_GPU_MEMORY, NODE_GPU_SHARING
from phalanx.model.nodes import Node
from phalanx.model.resources import GPU, Resources
from phalanx.model.supplies.gpu_shares.devices import (
    WHOLE_DEVICE,
    device_count,
    device_memory,
    requests_share,
    share_on_node,
)


class GpuSharing(Plugin):
    """Checks what nodes offer for shares. Whether enough is free is checked elsewhere."""

    name = "gpu-sharing"
    lasting_answers = True

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        """Reject nodes that do not offer GPU shares, for pods that request one."""
        requests = pod.shape.requests
        return _sharing_filter(requests) if requests_share(requests) else None


def _sharing_filter(requests: Resources) -> NodeFilter:
    def check(node: Node) -> str | None:
        if device_count(node.allocatable) == 0:
            return _why_not_shared(node)
        if share_on_node(requests, node.allocatable) <= WHOLE_DEVICE:
            return None
        if device_memory(node.allocatable) == 0:
            return f"label {NODE_GPU_MEMORY} has no valid memory of a GPU"
        return "insufficient memory of a GPU"

    return check


def _why_not_shared(node: Node) -> str:
    if node.labels.get(NODE_GPU_SHARING) != "true":
        return "do not share GPUs"
    if node.allocatable.get(GPU, 0) > 0:
        return f"offer whole {GPU}, which cannot be shared"
    return f"label {NODE_GPU_COUNT} has no valid number of shared GPUs"
