"""Workload files: the shipped ones can be read, and errors name the field."""

from typing import Any

import pytest

from bench.harness import cluster, workloads
from bench.harness.dialects import PlainDialect
from bench.harness.workloads import BadWorkload
from tests.bench.builders import WORKER, workload

PLAIN = PlainDialect(scheduler_name="any")


@pytest.mark.parametrize("name", workloads.names())
def test_shipped_workloads_can_be_read(name: str) -> None:
    found = workloads.load(name)
    assert found.name == name
    assert found.pods > 0
    assert len(cluster.running_pods(found, PLAIN)) == sum(gang.size for gang in found.existing())


@pytest.mark.parametrize("name", ["10000x1", "1000x10", "100x100", "10x1000", "mixed"])
def test_the_splits_have_the_same_number_of_pods(name: str) -> None:
    assert workloads.load(name).pods == 10_000


def role(**fields: Any) -> dict[str, Any]:
    return {"gangs": [{"count": 1, "roles": [{**WORKER, **fields}]}]}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"nodes": {"count": 0}}, "nodes.count"),
        ({"nodes": {"count": 1, "cpus": 4}}, "cpus"),
        ({"nodes": {"count": 4, "rack": 16, "spine": 100}}, "nodes.spine"),
        ({"gangs": []}, "gangs"),
        ({"gangs": [{"count": 1, "existing": True, "roles": [WORKER]}]}, "nothing to place"),
        ({"gangs": [{"count": 1, "level": "zone", "roles": [WORKER]}]}, "gangs[0].level"),
        ({"gangs": [{"count": 1, "roles": [WORKER, WORKER]}]}, "gangs[0].roles: two"),
        (role(name="Worker"), "gangs[0].roles[0].name"),
        (role(count=0), "gangs[0].roles[0].count"),
        (role(requests={"cpu": 1}), "gangs[0].roles[0].requests"),
        (role(requests={"cpu": "one"}), "gangs[0].roles[0].requests.cpu"),
        (role(requests={"cpu": "5"}), "more than a whole node"),
        (role(requests={"example.com/fpga": "1"}), "requests.example.com/fpga"),
        ({"clock": "wall"}, "clock"),
        ({"until": "bored"}, "until"),
        ({"limitSeconds": 0}, "limitSeconds"),
        ({"run_seconds": 5}, "run_seconds"),
        ({"arrival": {"perSecond": 5}}, "arrival.perSecond"),
        ({"name": "mine"}, "name"),
    ],
)
def test_invalid_workloads_are_reported(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(BadWorkload) as refusal:
        workload(**fields)
    assert "workload few" in str(refusal.value)
    assert named in str(refusal.value)


@pytest.mark.parametrize("text", ["", "- a\n", "about: [", "just words"])
def test_a_workload_that_is_no_mapping_is_refused(text: str) -> None:
    with pytest.raises(BadWorkload, match="workload few"):
        workloads.read(text, name="few")


def test_an_unknown_workload_lists_the_known_ones() -> None:
    with pytest.raises(BadWorkload, match="100x100"):
        workloads.load("nowhere")


def test_gangs_of_several_kinds_are_interleaved_in_proportion() -> None:
    found = workload(
        gangs=[{"count": 4, "roles": [WORKER]}, {"count": 2, "roles": [{**WORKER, "count": 3}]}],
    )
    assert [gang.size for gang in found.arriving()] == [2, 3, 2, 2, 3, 2]
    assert [gang.name for gang in found.arriving()][:2] == ["gang-00000", "gang-00001"]


def test_existing_pods_fill_nodes_in_order() -> None:
    found = workload(
        gangs=[{"count": 3, "existing": True, "roles": [WORKER]}, {"count": 1, "roles": [WORKER]}]
    )
    pods = cluster.running_pods(found, PLAIN)
    assert [pod["spec"]["nodeName"] for pod in pods] == ["node-00000"] * 4 + ["node-00001"] * 2
    assert all("bench/unobserved" in pod["metadata"]["labels"] for pod in pods)
    assert found.pods == 2


def test_existing_pods_that_do_not_fit_are_refused() -> None:
    found = workload(
        gangs=[{"count": 5, "existing": True, "roles": [WORKER]}, {"count": 1, "roles": [WORKER]}]
    )
    with pytest.raises(cluster.DoesNotFit, match="existing-00004"):
        cluster.running_pods(found, PLAIN)


def test_nodes_carry_their_rack_spine_and_zone() -> None:
    nodes = cluster.nodes(workload(nodes={"count": 17, "cores": 4, "rack": 2, "spine": 4, "gpus": 8}))
    labels = nodes[-1]["metadata"]["labels"]
    assert labels["cloud.provider.com/topology-rack"] == "rack-8"
    assert labels["cloud.provider.com/topology-spine"] == "spine-4"
    assert labels["topology.kubernetes.io/zone"] == "zone-1"
    assert nodes[-1]["status"]["allocatable"]["nvidia.com/gpu"] == "8"


def test_feature_gates_and_api_versions_are_separated() -> None:
    gates = ("One=true", "scheduling.k8s.io/v1beta1=true", "Two=false")
    settings = cluster.settings(gates, workload())
    features = "--feature-gates=One=true,Two=false"
    assert settings["apiserver_flags"] == (features, "--runtime-config=scheduling.k8s.io/v1beta1=true")
    assert settings["controller_manager_flags"] == (features,)
    assert cluster.settings((), workload())["apiserver_flags"] == ()
