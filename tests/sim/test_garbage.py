"""Objects that are deleted, and objects that stay, after an owner or a namespace was deleted."""

from typing import Any

from phalanx_simulator.embedded.apiserver.requests import Target
from phalanx_simulator.embedded.manifests import namespace, pod, pod_group
from phalanx_simulator.embedded.store import Key

from tests.sim.conftest import RESOURCES, Cluster
from tests.sim.waiting import find, pods, until

GROUPS = RESOURCES["PodGroup"]


def owned(name: str, *owners: dict[str, Any]) -> dict[str, Any]:
    manifest = pod(name)
    manifest["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "PodGroup",
            "name": one["metadata"]["name"],
            "uid": one["metadata"]["uid"],
        }
        for one in owners
    ]
    return manifest


def delete(cluster: Cluster, name: str, policy: str) -> None:
    target = Target(cluster.server.types.named(GROUPS), "default", name)
    cluster.server.registry.delete(target, {"propagationPolicy": policy})


def is_gone(cluster: Cluster, resource: str, name: str, space: str = "default") -> bool:
    return cluster.server.store.get(Key(resource, space, name)) is None


async def test_dependents_are_deleted_with_their_last_owner(cluster: Cluster) -> None:
    first, second = cluster.create(pod_group("one", min_member=1), pod_group("two", min_member=1))
    cluster.create(owned("both", first, second), owned("only", first), pod("free"))
    delete(cluster, "one", "Background")
    await until(cluster.server, lambda: "only" not in pods(cluster.server))
    assert set(pods(cluster.server)) == {"both", "free"}
    delete(cluster, "two", "Background")
    await until(cluster.server, lambda: set(pods(cluster.server)) == {"free"})


async def test_an_object_whose_owner_never_existed_is_deleted(cluster: Cluster) -> None:
    cluster.create(owned("late", {"metadata": {"name": "ghost", "uid": "ghost"}}))
    await until(cluster.server, lambda: not pods(cluster.server))


async def test_orphans_stay(cluster: Cluster) -> None:
    (group,) = cluster.create(pod_group("one", min_member=1))
    cluster.create(owned("child", group))
    delete(cluster, "one", "Orphan")
    await until(cluster.server, lambda: is_gone(cluster, GROUPS, "one"))
    assert "ownerReferences" not in pods(cluster.server)["child"]["metadata"]


async def test_foreground_deletion_removes_the_owner_last(cluster: Cluster) -> None:
    (group,) = cluster.create(pod_group("one", min_member=1))
    child = owned("child", group)
    child["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.create(child)
    delete(cluster, "one", "Foreground")
    await until(cluster.server, lambda: "deletionTimestamp" in pods(cluster.server)["child"]["metadata"])
    assert "deletionTimestamp" in find(cluster.server, GROUPS, "one", "default")["metadata"]
    cluster.client.update(Key("pods", "default", "child"), _released)
    await until(cluster.server, lambda: is_gone(cluster, GROUPS, "one"))
    assert pods(cluster.server) == {}


def _released(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "metadata": {**item["metadata"], "finalizers": []}}


async def test_a_deleted_namespace_is_emptied_and_removed(cluster: Cluster) -> None:
    cluster.create(namespace("tenant"), pod("p", namespace="tenant"), pod("q"))
    cluster.create(pod_group("g", min_member=1, namespace="tenant"))
    cluster.delete("namespaces", "tenant", namespace="")
    await until(cluster.server, lambda: is_gone(cluster, "namespaces", "tenant", ""))
    assert set(pods(cluster.server)) == {"q"}
    assert is_gone(cluster, GROUPS, "g", "tenant")
