"""A cluster on a tree of spines and racks, partly busy: its GPU usage by node, and a drawing of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from phalanx.clock import seeded_random
from phalanx.model.api.core import Pod
from phalanx.model.api.pod_groups import CertificateStatus
from phalanx.model.names import API_VERSION, LABEL_POD_GROUP, LABEL_ROLE
from phalanx.model.resources import GPU
from rich.text import Text

from phalanx_simulator.demos.cluster import DemoCluster, Manifest
from phalanx_simulator.embedded import manifests

GPUS: Final = 8
"""GPUs of a node."""

TOPOLOGY: Final = "network"
LEVELS: Final = {
    "spine": "network.topology.nvidia.com/spine",
    "rack": "cloud.provider.com/topology-rack",
    "host": "kubernetes.io/hostname",
}
"""Level to node label, widest first."""

_BUSY_GPUS: Final = (0, 0, 2, 4, 4, 6, 8, 8)
"""Possible numbers of busy GPUs of a node, equally likely."""


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
        what=f"{len(busy)} pods of other users run",
    )


def _nodes(shape: Shape) -> Iterator[Manifest]:
    for spine in range(1, shape.spines + 1):
        for rack in range(1, shape.racks + 1):
            for number in range(1, shape.nodes + 1):
                labels = {LEVELS["spine"]: f"spine-{spine}", LEVELS["rack"]: f"rack-{spine}-{rack}"}
                yield manifests.node(f"node-{spine}-{rack}-{number}", gpus=GPUS, labels=labels)


def _pods_of_others(nodes: Iterable[str], *, seed: int) -> Iterator[Manifest]:
    random = seeded_random(seed)
    for name in nodes:
        gpus = random.choice(_BUSY_GPUS)
        if gpus:
            yield manifests.pod(
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
    asked = (
        container.resources.requests.get(GPU, 0)
        for container in pod.spec.containers
        if container.resources is not None
    )
    return sum(int(amounts) for amounts in asked)


FREE: Final = "·"
BUSY: Final = "░"
_ROLE_STYLES: Final = ("bold black on green", "bold black on cyan", "bold black on yellow")

_PROVERS: Final = {
    "cp-sat": "CP-SAT",
    "tree-dp": "a dynamic program on the tree",
    "closed-form": "counting",
    "relaxation": "a matching lower bound",
}
_DOMAINS: Final = "domains:"


def picture(tree: Tree, *, roles: Sequence[str]) -> list[Text]:
    """A line for each rack below its spine, with the gang's pods at its end."""
    lines: list[Text] = []
    for spine, racks in tree.items():
        free = [node.free for nodes in racks.values() for node in nodes]
        whole = _count("whole node", free.count(GPUS))
        lines.append(Text.assemble((spine, "bold"), f"  {sum(free)} GPUs free, {whole}"))
        lines += [_rack(rack, nodes, roles=roles) for rack, nodes in racks.items()]
    return lines


def legend(roles: Mapping[str, str]) -> Text:
    """The legend; `roles` describes a pod of each role."""
    parts: list[str | tuple[str, str]] = ["one character is one GPU:  "]
    for role, words in roles.items():
        parts += [(_letter(role), _style(role, list(roles))), f" {words}   "]
    parts += [(BUSY, "dim"), " of other jobs   ", (FREE, "dim"), " free"]
    return Text.assemble(*parts)


def certificate_in_words(certificate: CertificateStatus) -> str:
    """The number of domains of each level, and whether it is proven minimal."""
    counts = [
        _count(term.removeprefix(_DOMAINS), value)
        if value == bound
        else f"{_count(term.removeprefix(_DOMAINS), value)} (at least {bound})"
        for term, value, bound in zip(
            certificate.terms, certificate.objective, certificate.bound, strict=True
        )
        if term.startswith(_DOMAINS)
    ]
    levels = ", ".join(counts)
    if not is_fewest(certificate):
        return f"{levels}: not proven to be minimal"
    by = certificate.by or ""
    return f"{levels}: proven by {_PROVERS.get(by, by)}, no placement uses fewer"


def is_fewest(certificate: CertificateStatus) -> bool:
    """Whether no placement spans fewer domains.

    Tightness and cost are not compared.
    """
    counted = max(
        [at for at, term in enumerate(certificate.terms, 1) if term.startswith(_DOMAINS)], default=0
    )
    agree = certificate.objective[:counted] == certificate.bound[:counted]
    return certificate.proven or (counted > 0 and agree)


def racks_used(tree: Tree) -> Iterator[tuple[str, str]]:
    """Spine and rack of every rack that holds a pod of the gang."""
    for spine, racks in tree.items():
        for rack, nodes in racks.items():
            if any(node.gang for node in nodes):
                yield spine, rack


def _rack(name: str, nodes: Sequence[NodeUse], *, roles: Sequence[str]) -> Text:
    line = Text(f"  {name:<10}", no_wrap=True, overflow="ellipsis")
    for node in nodes:
        line.append_text(_node(node, roles=roles)).append(" ")
    return line.append(_share(nodes, roles=roles))


def _node(node: NodeUse, *, roles: Sequence[str]) -> Text:
    text = Text().append(BUSY * node.others, style="dim")
    for role in roles:
        text.append(_letter(role) * sum(node.gang.get(role, ())), style=_style(role, roles))
    return text.append(FREE * node.free, style="dim")


def _share(nodes: Sequence[NodeUse], *, roles: Sequence[str]) -> str:
    pods = [(role, sum(len(node.gang.get(role, ())) for node in nodes)) for role in roles]
    return ", ".join(_count(role, count) for role, count in pods if count)


def _letter(role: str) -> str:
    return role[:1].upper()


def _style(role: str, roles: Sequence[str]) -> str:
    return _ROLE_STYLES[roles.index(role) % len(_ROLE_STYLES)]


def _count(noun: str, count: int) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
