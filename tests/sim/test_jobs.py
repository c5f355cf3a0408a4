"""The Job controller: members, replacements, completion, failure."""

from phalanx_simulator.embedded.controllers.jobs import _indexes, _ranges
from phalanx_simulator.embedded.manifests import job, node
from phalanx_simulator.embedded.store import Key

from tests.sim.conftest import Cluster
from tests.sim.waiting import find, phases, pods, until

INDEX = "batch.kubernetes.io/job-completion-index"


def index_of(pod: dict[str, dict[str, dict[str, str]]]) -> str:
    return pod["metadata"]["labels"][INDEX]


async def with_members(cluster: Cluster, count: int) -> None:
    await until(cluster.server, lambda: len(pods(cluster.server)) == count)


def bind_all(cluster: Cluster, target: str) -> None:
    for name, pod in pods(cluster.server).items():
        if not pod["spec"].get("nodeName"):
            cluster.bind(name, target)


def conditions(cluster: Cluster, name: str) -> list[str]:
    status = find(cluster.server, "jobs.batch", name, "default")["status"]
    return [one["type"] for one in status.get("conditions", [])]


async def test_a_job_creates_its_members(cluster: Cluster) -> None:
    (created,) = cluster.create(job("train", members=3, group="train"))
    await with_members(cluster, 3)
    members = pods(cluster.server)
    assert sorted(map(index_of, members.values())) == ["0", "1", "2"]
    assert all(name.startswith(f"train-{index_of(pod)}-") for name, pod in members.items())
    for pod in members.values():
        (owner,) = pod["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (created["metadata"]["uid"], True)
        assert pod["metadata"]["labels"]["scheduling.phalanx.dev/pod-group"] == "train"


async def test_a_job_completes(cluster: Cluster) -> None:
    cluster.create(node("a"), job("train", members=3, run_s=0))
    await with_members(cluster, 3)
    bind_all(cluster, "a")
    await until(cluster.server, lambda: "Complete" in conditions(cluster, "train"))
    status = find(cluster.server, "jobs.batch", "train", "default")["status"]
    assert (status["succeeded"], status["completedIndexes"], status["active"]) == (3, "0-2", 0)
    assert all("finalizers" not in pod["metadata"] for pod in pods(cluster.server).values())


async def test_a_failed_member_is_replaced_under_its_index(cluster: Cluster) -> None:
    cluster.create(node("a", gpus=1), job("train", members=2))
    await with_members(cluster, 2)
    bind_all(cluster, "a")
    await with_members(cluster, 3)
    (failed,) = [name for name, phase in phases(cluster.server).items() if phase == "Failed"]
    (fresh,) = [name for name, phase in phases(cluster.server).items() if phase == "Pending"]
    assert index_of(pods(cluster.server)[fresh]) == index_of(pods(cluster.server)[failed])
    assert find(cluster.server, "jobs.batch", "train", "default")["status"]["failed"] == 1


async def test_a_deleted_member_is_replaced(cluster: Cluster) -> None:
    cluster.create(job("train", members=2))
    await with_members(cluster, 2)
    victim = min(pods(cluster.server))
    cluster.delete("pods", victim)
    await until(cluster.server, lambda: victim not in pods(cluster.server) and len(pods(cluster.server)) == 2)


async def test_a_job_fails_at_its_backoff_limit(cluster: Cluster) -> None:
    too_large = job("train", members=1)
    too_large["spec"]["backoffLimit"] = 2
    cluster.create(node("a", gpus=0), too_large)

    def failed() -> bool:
        bind_all(cluster, "a")
        return "Failed" in conditions(cluster, "train")

    await until(cluster.server, failed)
    assert len(pods(cluster.server)) == 3


async def test_a_job_without_indexes(cluster: Cluster) -> None:
    plain = job("train", members=4, run_s=0)
    plain["spec"] |= {"completionMode": "NonIndexed", "parallelism": 2}
    cluster.create(node("a"), plain)
    await with_members(cluster, 2)

    def complete() -> bool:
        bind_all(cluster, "a")
        return "Complete" in conditions(cluster, "train")

    await until(cluster.server, complete)
    assert list(phases(cluster.server).values()) == ["Succeeded"] * 4


async def test_the_pods_of_a_deleted_job_are_deleted(cluster: Cluster) -> None:
    cluster.create(job("train", members=2))
    await with_members(cluster, 2)
    cluster.delete("jobs.batch", "train")
    await with_members(cluster, 0)


def test_ranges_of_indexes() -> None:
    assert _ranges([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"
    assert _indexes("0-2,5,7-8") == [0, 1, 2, 5, 7, 8]
    assert (_ranges([]), _indexes("")) == ("", [])


async def test_with_a_lower_parallelism_pods_without_nodes_go_first(cluster: Cluster) -> None:
    cluster.create(node("a"), job("train", members=4))
    await with_members(cluster, 4)
    kept = sorted(pods(cluster.server))[1:3]
    for name in kept:
        cluster.bind(name, "a")
    cluster.client.update(
        Key("jobs.batch", "default", "train"),
        lambda found: {**found, "spec": {**found["spec"], "parallelism": 2}},
    )
    await with_members(cluster, 2)
    assert sorted(pods(cluster.server)) == kept
    status = find(cluster.server, "jobs.batch", "train", "default")["status"]
    assert (status["active"], status["failed"]) == (2, 0)
