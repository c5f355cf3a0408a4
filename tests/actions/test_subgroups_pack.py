"""A subgroup that asks for a level gets the fullest domain that fits it, as a gang does.

The oracle counts the pods that fit each domain from the nodes as they are written. Its clusters have racks of
one node, so that a rack fits a subgroup if its node has as many GPUs free as the pods request together.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from phalanx.cli.manifests.documents import Document
from phalanx.cli.manifests.read import read_documents
from phalanx.cli.static_cluster import StaticCluster, run_until_stable
from phalanx.framework.config import SchedulerConfig
from phalanx.model.decisions import CycleResult

from tests.examples import holds

PHALANX = "scheduling.phalanx.dev/v1alpha1"
GPU = "nvidia.com/gpu"
SIZE = 8


class Cluster(Struct, frozen=True):
    """By zone, the used GPUs of each of its racks, which have SIZE."""

    zones: tuple[tuple[int, ...], ...]

    def free(self) -> dict[str, int]:
        """By node, which is a rack."""
        return {
            f"z{zone}-{rack}": SIZE - used
            for zone, racks in enumerate(self.zones)
            for rack, used in enumerate(racks)
        }

    def objects(self) -> list[dict[str, Any]]:
        levels = [{"name": name, "nodeLabel": name} for name in ("zone", "rack")]
        found = [
            {
                "apiVersion": PHALANX,
                "kind": "Topology",
                "metadata": {"name": "default"},
                "spec": {"levels": levels},
            }
        ]
        for name, free in self.free().items():
            labels = {"zone": name.partition("-")[0], "rack": name}
            status = {"allocatable": {"cpu": 64, "pods": 110, GPU: SIZE}}
            found.append(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": name, "labels": labels},
                    "status": status,
                }
            )
            if free < SIZE:
                found.append(pod(f"other-{name}", SIZE - free, node=name))
        return found


def pod(name: str, gpus: int, *, node: str = "", subgroup: str = "") -> dict[str, Any]:
    prefix = "scheduling.phalanx.dev"
    labels = {f"{prefix}/pod-group": "g", f"{prefix}/subgroup": subgroup} if subgroup else {}
    container = {"name": "main", "resources": {"limits": {GPU: gpus}}}
    spec = {"schedulerName": "default-scheduler" if node else "phalanx", "containers": [container]}
    meta = {"name": name, "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": spec | ({"nodeName": node} if node else {}),
    }


def placed(cluster: Cluster, group: dict[str, Any], pods: list[dict[str, Any]]) -> dict[str, str]:
    results = decided(cluster, group, pods)
    return {bind.name: bind.node for result in results for each in result.placements for bind in each.binds}


def decided(cluster: Cluster, group: dict[str, Any], pods: list[dict[str, Any]]) -> Sequence[CycleResult]:
    written = {"apiVersion": PHALANX, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": group}
    objects = [*cluster.objects(), written, *pods]
    documents = [Document("input", number, value) for number, value in enumerate(objects)]
    config = SchedulerConfig()
    results, _ = run_until_stable(
        StaticCluster(read_documents(documents).objects, config=config, now=0), config
    )
    return results


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    used = st.lists(st.integers(0, SIZE), min_size=1, max_size=3).map(tuple)
    return Cluster(tuple(draw(st.lists(used, min_size=1, max_size=3))))


@holds(40)
@given(clusters(), st.integers(1, 3), st.integers(1, 4))
def test_a_subgroup_gets_the_fullest_rack_that_fits(cluster: Cluster, count: int, gpus: int) -> None:
    group = {"subGroups": [{"name": "s", "minMember": count, "topology": {"required": "rack"}}]}
    found = placed(cluster, group, [pod(f"p{place}", gpus, subgroup="s") for place in range(count)])
    free = cluster.free()
    fitting = [amount for amount in free.values() if amount >= count * gpus]
    assert len(found) == (count if fitting else 0)
    capacity = {free[node] // gpus for node in found.values()}
    assert not found or capacity == {min(fitting) // gpus}
    assert len(set(found.values())) <= 1


@holds(40)
@given(clusters(), st.integers(1, 2))
def test_inside_the_fullest_zone_a_nested_subgroup_gets_the_fullest_rack(
    cluster: Cluster, count: int
) -> None:
    """Pods of one GPU each, in two subgroups with a rack each, inside one that requires a zone."""
    inner = [
        {"name": name, "minMember": count, "parent": "all", "topology": {"required": "rack"}} for name in "ab"
    ]
    group = {"subGroups": [{"name": "all", "topology": {"required": "zone"}}, *inner]}
    pods = [pod(f"{name}{place}", 1, subgroup=name) for name in "ab" for place in range(count)]
    found = placed(cluster, group, pods)
    free = cluster.free()
    zones: dict[str, list[int]] = {}
    for node, amount in free.items():
        zones.setdefault(node.partition("-")[0], []).append(amount)
    fitting = {name: racks for name, racks in zones.items() if sum(amount // count for amount in racks) >= 2}
    assert len(found) == (2 * count if fitting else 0)
    if found:
        (used,) = {node.partition("-")[0] for node in found.values()}
        assert sum(fitting[used]) == min(map(sum, fitting.values()))
        fullest = min(amount for amount in fitting[used] if amount >= count)
        assert fullest in (free[found["a0"]], free[found["b0"]])


@holds(60)
@given(
    st.lists(st.integers(0, SIZE), min_size=1, max_size=4).map(tuple),
    st.lists(st.integers(1, 3), min_size=1, max_size=4),
    st.sampled_from(["required", "preferred"]),
)
def test_several_subgroups_get_the_racks_of_the_least_capacity_together(
    used: tuple[int, ...], sizes: list[int], kind: str
) -> None:
    """Each subgroup counts the free GPUs of its rack; the oracle tries every choice of racks."""
    names = "abcd"[: len(sizes)]
    subgroups = [
        {"name": name, "minMember": size, "topology": {kind: "rack"}}
        for name, size in zip(names, sizes, strict=True)
    ]
    pods = [
        pod(f"{name}{place}", 1, subgroup=name)
        for name, size in zip(names, sizes, strict=True)
        for place in range(size)
    ]
    cluster = Cluster((used,))
    free = cluster.free()
    sums = [
        sum(free[rack] for rack in racks)
        for racks in product(free, repeat=len(sizes))
        if all(
            sum(size for size, at in zip(sizes, racks, strict=True) if at == rack) <= free[rack]
            for rack in free
        )
    ]
    results = decided(cluster, {"subGroups": subgroups}, pods)
    certificates = [each.certificate for result in results for each in result.placements]
    if kind == "required" and not sums:
        assert certificates == []
    elif sums:
        (certificate,) = certificates
        assert certificate is not None
        assert certificate.proven
        reached = dict(zip(certificate.terms, certificate.objective, strict=True))
        assert reached["subgroup-tightness:rack"] == min(sums)
        binds = [bind for result in results for each in result.placements for bind in each.binds]
        assert sum(
            free[rack] for rack in {(bind.name[0], bind.node): bind.node for bind in binds}.values()
        ) == min(sums)
