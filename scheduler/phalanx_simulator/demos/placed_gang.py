"""Act 2: a gang of two roles on a tree of spines and racks, most of them busy."""

from collections.abc import Iterator
from typing import Final

from phalanx.model.api.pod_groups import CertificateStatus, PodGroup
from phalanx.model.resources import GPU
from rich.console import Group

from phalanx_simulator.demos.cluster import DemoCluster, DemoFailed, Manifest
from phalanx_simulator.demos.environment import Stage
from phalanx_simulator.demos.fabric import (
    TOPOLOGY,
    Shape,
    Tree,
    certificate_in_words,
    create_fabric,
    is_fewest,
    legend,
    picture,
    racks_used,
    tree_of,
)
from phalanx_simulator.embedded import manifests

TITLE: Final = "A gang of 64 GPUs and two roles on a busy tree"

_GANG: Final = "pretrain"
_SHAPE: Final = Shape(spines=3, racks=4, nodes=6, seed=36)
_ROLES: Final = {"trainer": (6, 8), "sampler": (4, 4)}
"""Role to number of pods and GPUs of each."""

_PODS: Final = sum(count for count, _ in _ROLES.values())
_STORY: Final = (
    "6 trainers of 8 GPUs and 4 samplers of 4 GPUs start together or not at all. Their PodGroup requires one "
    "spine for all of them and prefers few racks. 3 spines of 4 racks of 6 nodes of 8 GPUs; other jobs are "
    "there already."
)


async def play(stage: Stage) -> str:
    """Place the gang, draw it, and describe its certificate.

    Raises DemoFailed.
    """
    cluster, console = stage.phalanx, stage.console
    console.print(_STORY, end="\n\n")
    await create_fabric(cluster, _SHAPE)
    await cluster.create(_pod_group(), *_pods())
    group = await cluster.until(lambda: _placed(cluster), what=f"PodGroup {_GANG} runs with a certificate")
    tree = tree_of(cluster, gang=_GANG)
    console.print(Group(*picture(tree, roles=list(_ROLES)), ""))
    console.print(legend({role: f"a {role} ({gpus} GPUs)" for role, (_, gpus) in _ROLES.items()}))
    return _verdict(group, tree)


def _pod_group() -> Manifest:
    roles = [{"name": role, "count": count} for role, (count, _) in _ROLES.items()]
    topology = {"name": TOPOLOGY, "required": "spine", "preferred": "rack"}
    return manifests.pod_group(_GANG, min_member=_PODS, roles=roles, topology=topology)


def _pods() -> Iterator[Manifest]:
    for role, (count, gpus) in _ROLES.items():
        yield from manifests.gang(_GANG, {role: count}, requests={GPU: str(gpus)})


def _placed(cluster: DemoCluster) -> PodGroup | None:
    """The PodGroup once its status has a certificate and all its pods run."""
    group = cluster.pod_group(_GANG)
    if group is None or group.status.certificate is None or group.status.counts is None:
        return None
    return group if group.status.counts.running == _PODS else None


def _verdict(group: PodGroup, tree: Tree) -> str:
    """The certificate in words, checked against the pods' nodes."""
    certificate = group.status.certificate or CertificateStatus(proven=False)
    said = certificate_in_words(certificate)
    used = list(racks_used(tree))
    seen = {"domains:spine": len({spine for spine, _ in used}), "domains:rack": len(used)}
    reached = dict(zip(certificate.terms, certificate.objective, strict=True))
    if not is_fewest(certificate) or any(reached.get(term) != count for term, count in seen.items()):
        raise DemoFailed(f"the pods are in {seen}, and the PodGroup's status says {said}")
    return f"All 64 GPUs are in {used[0][0]}. {said[:1].upper()}{said[1:]}."
