"""Changes to the objects of a cluster, for the question what would happen. Nothing is written to the API."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from phalanx.cli.exits import BadInput
from phalanx.cli.released_claims import made_again
from phalanx.model.api.core import Namespace, Node, NodeSpec, NodeStatus, Pod, PodStatus
from phalanx.model.api.kinds import kind_name
from phalanx.model.api.meta import KubeObject
from phalanx.model.api.queues import Queue
from phalanx.model.names import HOSTNAME_KEY
from phalanx.model.nodes import is_state_taint
from phalanx.model.pods import PodPhase
from phalanx.model.supplies.devices.api import ResourceClaim

Key = tuple[str, str, str]
"""Kind, namespace and name."""

_ON_EVERY_NODE: Final = "DaemonSet"
_ENDED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)


def key_of(item: KubeObject) -> Key:
    """What identifies an object."""
    return (kind_name(item), item.metadata.namespace, item.metadata.name)


class Objects:
    """The objects of a cluster, to be changed."""

    def __init__(self, objects: Iterable[KubeObject]) -> None:
        self._by_key = {key_of(item): item for item in objects}
        self.drained: list[Pod] = []
        """Pods that were on drained nodes."""

    def all(self) -> tuple[KubeObject, ...]:
        return tuple(self._by_key.values())

    def submit(self, objects: Sequence[KubeObject]) -> None:
        """Add objects, or replace those of the same name. The namespaces of the cluster stay as they are."""
        for item in objects:
            if not (isinstance(item, Namespace) and key_of(item) in self._by_key):
                self._by_key[key_of(item)] = item

    def drain(self, name: str, *, now: str) -> None:
        """Cordon a node and evict its pods. Controllers create them again, without a node.

        Pods without a controller, and those of a DaemonSet, are gone. Raises BadInput for an unknown node.
        """
        node = self._node(name, "--drain")
        self._by_key[key_of(node)] = replace(node, spec=replace(node.spec, unschedulable=True))
        for pod in [item for item in self.all() if isinstance(item, Pod) and item.spec.node_name == name]:
            if pod.status.phase in _ENDED:
                continue
            del self._by_key[key_of(pod)]
            owners = [owner for owner in pod.metadata.owner_references if owner.controller]
            if any(owner.kind == _ON_EVERY_NODE for owner in owners):
                continue
            self.drained.append(pod)
            if owners or pod.metadata.labels:
                created = created_again(pod, now=now)
                claims = [item for item in self.all() if isinstance(item, ResourceClaim)]
                self.submit((created, *made_again(claims, pod, created)))

    def add_nodes(self, number: int, *, like: str, state_taints: Sequence[str]) -> None:
        """Add nodes like this one, but without its pods, its cordon and its faults. Raises BadInput.

        `state_taints`: those of the configuration.
        """
        model = self._node(like, "--like")
        taints = tuple(taint for taint in model.spec.taints if not is_state_taint(taint.key, state_taints))
        status: NodeStatus = replace(model.status, conditions=())
        place = 0
        for _ in range(number):
            while ("Node", "", name := f"{like}-added-{place}") in self._by_key:
                place += 1
            labels = {key: name if value == like else value for key, value in model.metadata.labels.items()}
            labels[HOSTNAME_KEY] = name
            metadata = replace(model.metadata, name=name, uid=name, labels=labels)
            self._by_key["Node", "", name] = Node(metadata, NodeSpec(taints=taints), status)

    def set_weight(self, name: str, weight: int) -> None:
        """Change the weight of a queue. Raises BadInput for an unknown queue."""
        queue = self._by_key.get(("Queue", "", name))
        if not isinstance(queue, Queue):
            raise BadInput(f"--queue: expected a queue that exists, found {name}")
        self._by_key[key_of(queue)] = replace(queue, spec=replace(queue.spec, weight=weight))

    def _node(self, name: str, flag: str) -> Node:
        node = self._by_key.get(("Node", "", name))
        if not isinstance(node, Node):
            raise BadInput(f"{flag}: expected a node that exists, found {name}")
        return node


def created_again(pod: Pod, *, now: str) -> Pod:
    """The pod that a controller creates in place of this one: without a node.

    Claims that are made of templates get the names of the old ones.
    """
    metadata = replace(
        pod.metadata,
        uid=f"{pod.metadata.uid}-again",
        creation_timestamp=now,
        deletion_timestamp=None,
        annotations=_without_ours(pod.metadata.annotations),
    )
    claims = pod.status.resource_claim_statuses
    status: PodStatus = PodStatus(phase=str(PodPhase.PENDING), resource_claim_statuses=claims)
    return Pod(metadata, replace(pod.spec, node_name=""), status)


def _without_ours(annotations: Mapping[str, str]) -> dict[str, str]:
    """Without what the scheduler writes with a bind."""
    written = ("charged-queue", "gpu-index", "gpu-taken")
    return {key: value for key, value in annotations.items() if not key.endswith(written)}
