"""Places pods only on nodes that can mount their volumes.

A bound PersistentVolumeClaim restricts its pods to the nodes of the volume's node affinity. A claim that does
not exist or is not bound delays the gang.
"""

from phalanx.framework.plugin import NodeFilter, Plugin
from phalanx.framework.pod_view import PodView
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.nodes import Node
from phalanx.model.reasons import Objection, Reason
from phalanx.model.selectors import node_matches_any
from phalanx.model.snapshot import VolumeClaim


class Volumes(Plugin):
    """Checks PersistentVolumeClaims, which the cache has joined with their volumes."""

    name = "volumes"
    lasting_answers = True

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        """Report the first claim of a waiting member that cannot be used yet."""
        for pod in gang.members:
            for name in pod.shape.claims if pod.is_waiting else ():
                key = f"{pod.namespace}/{name}"
                claim = view.claims.get(key)
                problem = "it does not exist" if claim is None else claim.why_unusable
                if problem:
                    return Objection(
                        reason=Reason.VOLUME_NOT_BOUND,
                        message=f"PersistentVolumeClaim {key} cannot be used: {problem}",
                        next_step=f"Create or bind PersistentVolumeClaim {key}",
                    )
        return None

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        """Reject nodes that cannot mount all volumes of the pod."""
        claims = {key.rpartition("/")[2]: view.claims.get(key) for key in pod.claims}
        bound = {name: claim for name, claim in claims.items() if claim is not None and claim.node_affinity}
        return _mount_filter(bound) if bound else None


def _mount_filter(claims: dict[str, VolumeClaim]) -> NodeFilter:
    def check(node: Node) -> str | None:
        for name, claim in claims.items():
            if not node_matches_any(node, claim.node_affinity):
                return f"volume of claim {name} is not accessible"
        return None

    return check
