"""The oracle's choice of the members that a verdict is about, in cases that docs/roles.md decides."""

from typing import Any

from tests.advice.clusters import ASKER, GPU, GROUP_LABEL, READY, SUBGROUP_LABEL, Document
from tests.advice.first_choice import described, first_choice
from tests.advice.following import is_asking
from tests.advice.obstacles import contradiction
from tests.advice.refusals import refusal_of

NODE: Document = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "labels": {"kubernetes.io/hostname": "n"}},
    "spec": {},
    "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "9", GPU: "2"}, "conditions": READY},
}


def cluster(*pods: Document, **spec: Any) -> list[Document]:
    api, metadata = "scheduling.phalanx.dev/v1alpha1", {"name": ASKER, "labels": {}}
    return [NODE, {"apiVersion": api, "kind": "PodGroup", "metadata": metadata, "spec": spec}, *pods]


def pod(name: str, gpu: int = 1, *, part: str = "", node: str = "") -> Document:
    labels = {GROUP_LABEL: ASKER, **({SUBGROUP_LABEL: part} if part else {})}
    amounts = {GPU: str(gpu)}
    spec: Document = {
        "schedulerName": "phalanx",
        "containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}],
        **({"nodeName": node} if node else {}),
    }
    metadata = {"name": f"{ASKER}-{name}", "labels": labels}
    status = {"phase": "Running" if node else "Pending"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def chosen(documents: list[Document] | None) -> list[str]:
    assert documents is not None
    return [each["metadata"]["name"].removeprefix(f"{ASKER}-") for each in documents if is_asking(each)]


def test_the_oldest_members_are_chosen() -> None:
    """`phalanx decide` takes the order of the documents for the order of creation."""
    assert chosen(first_choice(cluster(pod("b"), pod("c"), pod("a"), minMember=2))) == ["b", "c"]


def test_seed_200797() -> None:
    """The members of subgroup two are older than those of subgroup three."""
    refusal = refusal_of(200_797)
    assert refusal is not None
    assert contradiction(refusal) == ""


def test_members_that_no_node_can_take_are_last() -> None:
    assert chosen(first_choice(cluster(pod("a", gpu=3), pod("b"), pod("c"), minMember=2))) == ["b", "c"]


def test_a_subgroup_that_no_node_can_take_is_last() -> None:
    parts = [{"name": "one", "minMember": 1}, {"name": "two", "minMember": 1}]
    pods = (pod("a", gpu=3, part="one"), pod("b", part="two"))
    assert chosen(first_choice(cluster(*pods, minMember=1, minSubGroups=1, subGroups=parts))) == ["b"]


def test_of_a_gang_that_runs_the_first_member_that_fits_the_empty_cluster_is_chosen() -> None:
    pods = (pod("a", node="n"), pod("b", gpu=2), pod("c"))
    assert chosen(first_choice(cluster(*pods, minMember=1))) == ["a", "c"]
    assert chosen(first_choice(cluster(*pods[:2], minMember=1))) == ["a", "b"]


def test_members_of_subgroups_that_have_started_go_before_other_subgroups() -> None:
    parts = [{"name": "one", "minMember": 1}, {"name": "two", "minMember": 1}]
    pods = (pod("a", part="two"), pod("b", part="one", node="n"), pod("c", part="one"))
    documents = cluster(*pods, minMember=1, minSubGroups=1, subGroups=parts)
    assert chosen(described(documents)) == ["b", "c"]
    assert chosen(described(documents[:-1])) == ["a", "b"]
    assert first_choice(documents[:-1]) is None
