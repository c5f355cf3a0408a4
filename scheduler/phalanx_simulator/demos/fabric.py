"""A cluster on a tree of spines and racks, partly busy, and its usage by node."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from phalanx.clock import seeded_random
from phalanx.model.api.core import Pod
from phalanx.model.names import API_VERSION, LABEL_POD_GROUP, LABEL_ROLE
from phalanx.model.resources import GPU

from phalanx_simulator.demos.cluster import DemoCluster, Manifest
from phalanx_simulator.embedded import manifests as workloads

GPUS: Final = 8
"""GPUs of a node."""

TOPOLOGY: Final = "network"
LEVELS: Final = {
    "spine": "network.topology.nvidia.com/spine",
    "rack": "cloud.provider.com/topology-rack",
    "host": "kubernetes.io/hostname",
}
"""Level to node label, widest first."""

_USUAL_LOAD: Final = (0, 0, 2, 4, 4, 6, 8, 8)
"""Busy GPUs of a node: one of these, drawn by lot."""


class Shape(Struct, frozen=True):
    """Size of the tree, and the seed of its load."""

    spines: int
    racks: int
    nodes: int
    seed: int


class NodeUse(Struct, frozen=True):
    """GPU usage of a node: by role and pod of the gang, and by other pods."""

    gang: Mapping[str, tuple[int, ...]]
    others: int

    @property
    def free(self) -> int:
        """Free GPUs."""
        return GPUS - self.others - sum(sum(gpus) for gpus in self.gang.values())


Tree = Mapping[str, Mapping[str, Sequence[NodeUse]]]
"""Spine to rack to the use of its nodes."""


async def create_fabric(cluster: DemoCluster, shape: Shape) -> None:
    """Create the Topology, its nodes, and running pods of other users."""
    levels = [{"name": name, "nodeLabel": label} for name, label in LEVELS.items()]
    topology = {
        "apiVersion": API_VERSION,
        "kind": "Topology",
        "metadata": {"name": TOPOLOGY},
        "spec": {"levels": levels},
    }
    nodes = list(_nodes(shape))
    await cluster.create_nodes(*nodes)
    busy = list(_pods_of_others([node["metadata"]["name"] for node in nodes], seed=shape.seed))
    await cluster.create(topology, *busy)
    await cluster.until(
        lambda: sum(pod.status.phase == "Running" for pod in cluster.pods()) == len(busy) or None,
        what=f"{len(busy)} pods of others run",
    )


def _nodes(shape: Shape) -> Iterator[Manifest]:
    for spine in range(1, shape.spines + 1):
        for rack in range(1, shape.racks + 1):
            for number in range(1, shape.nodes + 1):
                labels = {LEVELS["spine"]: f"spine-{spine}", LEVELS["rack"]: f"rack-{spine}-{rack}"}
                yield workloads.node(f"node-{spine}-{rack}-{number}", gpus=GPUS, labels=labels)


def _pods_of_others(nodes: Iterable[str], *, seed: int) -> Iterator[Manifest]:
    lots = seeded_random(seed)
    for name in nodes:
        gpus = lots.choice(_USUAL_LOAD)
        if gpus:
            yield workloads.pod(
                f"other-{name}",
                scheduler="default-scheduler",
                requests={GPU: str(gpus)},
                nodeName=name,
            )


def tree_of(cluster: DemoCluster, *, gang: str) -> Tree:
    """GPU usage by spine and rack, as the API shows it."""
    uses: dict[str, list[Pod]] = {}
    for pod in cluster.pods():
        uses.setdefault(pod.spec.node_name, []).append(pod)
    tree: dict[str, dict[str, list[NodeUse]]] = {}
    for node in cluster.nodes():
        spine, rack = (node.metadata.labels[LEVELS[level]] for level in ("spine", "rack"))
        use = _use_of(uses.get(node.metadata.name, ()), gang=gang)
        tree.setdefault(spine, {}).setdefault(rack, []).append(use)
    return tree


def _use_of(pods: Iterable[Pod], *, gang: str) -> NodeUse:
    roles: dict[str, tuple[int, ...]] = {}
    others = 0
    for pod in pods:
        labels = pod.metadata.labels
        if labels.get(LABEL_POD_GROUP) == gang:
            role = labels.get(LABEL_ROLE, "")
            roles[role] = (*roles.get(role, ()), _gpus(pod))
        else:
            others += _gpus(pod)
    return NodeUse(gang=roles, others=others)


def _gpus(pod: Pod) -> int:
    asked = (one.resources.requests.get(GPU, 0) for one in pod.spec.containers if one.resources is not None)
    return sum(int(each) for each in asked)
