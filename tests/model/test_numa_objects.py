"""Reading NodeResourceTopology objects and pods: policies, aligned resources, invalid fields."""

from typing import Any

import pytest
from phalanx.limits import AMOUNT_MAX
from phalanx.model.api.node_topologies import NodeResourceTopology
from phalanx.model.conversion.shapes import read_shape
from phalanx.model.nodes import Numa
from phalanx.model.resources import CPU, GPU, MEMORY
from phalanx.model.supplies.numa.read import NUMA_CONTAINERS_MAX, NUMA_ZONES_MAX, NumaReport, read_zones
from phalanx.model.supplies.numa.zones import numa_request

from tests.model.written import pod, written
from tests.node_topologies import node_topology

GI = 1 << 30
HALF = {"cpu": "32", GPU: "4"}


def read(document: dict[str, Any]) -> NumaReport:
    return read_zones(written(NodeResourceTopology, document))


def zones_of(document: dict[str, Any]) -> Numa:
    found = read(document).numa
    assert found is not None
    return found


def old(*policies: str) -> dict[str, Any]:
    return {**node_topology("n", HALF), "attributes": [], "topologyPolicies": list(policies)}


def test_zones_are_read() -> None:
    numa = zones_of(node_topology("n", HALF, HALF, available=[{"cpu": "1500m"}, HALF]))
    half = ((CPU, 32000), (GPU, 4))
    assert numa.layout.zones == (half, half)
    assert numa.available == (((CPU, 1500), (GPU, 0)), half)
    assert numa.layout.bound == ((CPU, AMOUNT_MAX), (GPU, AMOUNT_MAX))
    assert not numa.layout.by_container


def test_zones_that_differ_in_a_few_bytes_are_equal_and_usage_is_exact() -> None:
    first, second = (
        zones_of(
            node_topology("n", {"memory": f"{64 * GI + odd}"}, available=[{"memory": f"{60 * GI + odd}"}])
        )
        for odd in (1, 5000)
    )
    assert first == second
    assert first.layout.zones == (((MEMORY, 64 * GI),),)
    assert first.published == ((MEMORY, 4 * GI),)
    small = node_topology("n", {"memory": f"{GI + 1}"})
    assert zones_of(small).layout.zones == (((MEMORY, GI + 1),),)


@pytest.mark.parametrize(
    ("policies", "by_container"),
    [
        (["SingleNUMANodePodLevel"], False),
        (["SingleNUMANodeContainerLevel"], True),
        (["RestrictedPodLevel"], False),
        (["Restricted"], True),
    ],
)
def test_the_older_spelling_of_policies_is_read(policies: list[str], by_container: bool) -> None:
    numa = zones_of(old(*policies))
    assert numa.layout.by_container is by_container
    strict = policies[0].startswith("Single")
    assert dict(numa.layout.bound)[GPU] == (AMOUNT_MAX if strict else 4)


@pytest.mark.parametrize("policies", [[], ["None"], ["BestEffort"], ["BestEffortPodLevel"]])
def test_other_topology_manager_policies_are_ignored(policies: list[str]) -> None:
    assert read(old(*policies)) == NumaReport()


def test_attributes_override_the_older_spelling() -> None:
    document = {**node_topology("n", HALF, policy="none"), "topologyPolicies": ["SingleNUMANodePodLevel"]}
    assert read(document) == NumaReport()
    document = node_topology("n", HALF, scope="container")
    assert zones_of({**document, "topologyPolicies": ["None"]}).layout.by_container


def test_a_restricted_kubelet_counts_all_cores_of_a_zone_and_the_memory_of_pods() -> None:
    document = node_topology("n", {"cpu": "30", "memory": "4Gi"}, {"cpu": "28"}, policy="restricted")
    for zone in document["zones"]:
        for each in zone["resources"]:
            each["capacity"] = {"cpu": "32", "memory": "8Gi"}[each["name"]]
    assert zones_of(document).layout.bound == ((CPU, 32000), (MEMORY, 4 << 30))


def test_other_kinds_of_zones_are_no_numa_nodes() -> None:
    document = node_topology("n", HALF, HALF)
    document["zones"][1]["type"] = "Cache"
    assert len(zones_of(document).layout.zones) == 1
    document["zones"][0]["type"] = "Die"
    assert read(document) == NumaReport()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"attributes": [{"name": "topologyManagerPolicy", "value": "some"}]}, "attributes[0].value: 'some'"),
        ({"attributes": [{"name": "topologyManagerScope", "value": ""}]}, "attributes[0].value: ''"),
        ({"attributes": [], "topologyPolicies": ["Mine"]}, "topologyPolicies[0]: 'Mine'"),
        ({"zones": [{"name": "0", "type": "Node"}] * 2}, "zones[1].name: '0'"),
        (
            {"zones": [{"name": str(each), "type": "Node"} for each in range(NUMA_ZONES_MAX + 1)]},
            f"zones: are too many, expected at most {NUMA_ZONES_MAX}",
        ),
    ],
)
def test_invalid_fields_are_reported(change: dict[str, Any], says: str) -> None:
    (problem,) = read({**node_topology("n", HALF), **change}).problems
    assert problem.message.startswith(f"NodeResourceTopology field {says}")


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        ({"name": GPU, "allocatable": "x", "available": "4"}, "allocatable: 'x'"),
        ({"name": GPU, "available": "4"}, "allocatable: ''"),
        ({"name": GPU, "allocatable": "-1", "available": "4"}, "allocatable: '-1'"),
        ({"name": GPU, "allocatable": "4", "available": "many"}, "available: 'many'"),
        ({"name": "cpu", "allocatable": "4", "available": "4"}, "name: 'cpu'"),
    ],
)
def test_an_invalid_amount_counts_as_zero(resource: dict[str, str], path: str) -> None:
    document = node_topology("n", {"cpu": "32"})
    document["zones"][0]["resources"].append(resource)
    found = read(document)
    (problem,) = found.problems
    assert problem.message.startswith(f"NodeResourceTopology field zones[0].resources[1].{path}")
    assert found.numa is not None
    assert dict(found.numa.available[0]).get(GPU, 0) == 0
    assert dict(found.numa.layout.zones[0])[CPU] == 32000


def test_available_is_at_most_allocatable() -> None:
    document = node_topology("n", {GPU: "4"}, available=[{GPU: "9"}])
    assert zones_of(document).available == (((GPU, 4),),)
    del document["zones"][0]["resources"][0]["available"]
    assert zones_of(document).available == (((GPU, 0),),)


# --- pods ---------------------------------------------------------------------------------------------------

FIRM = {"cpu": "2", "memory": "1Gi"}
MIB = 1 << 20


def container(name: str = "c", **fields: Any) -> dict[str, Any]:
    """A container with limits; the API server sets equal requests by default."""
    policy = {"restartPolicy": fields.pop("restart")} if "restart" in fields else {}
    return {"name": name, "resources": fields or {"limits": FIRM}, **policy}


def aligned(*containers: dict[str, Any], **spec: Any) -> dict[str, int]:
    """The aligned amounts of the whole pod."""
    name = read_shape(pod(containers=list(containers), **spec)).numa
    return dict(numa_request(name).pod) if name else {}


def test_a_guaranteed_pod_is_aligned_in_cores_memory_and_devices() -> None:
    asked = {**FIRM, GPU: "2", "hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi"}
    expected = {CPU: 2000, MEMORY: 1 << 30, GPU: 2, "hugepages-2Mi": 4 * MIB}
    assert aligned(container(limits=asked)) == expected
    assert aligned(container(limits=asked, requests=asked)) == expected


def test_only_devices_of_other_pods_are_aligned() -> None:
    assert aligned(container(requests={**FIRM, GPU: "2"}, limits={GPU: "2"})) == {GPU: 2}
    assert aligned(container(limits={GPU: "2"})) == {GPU: 2}
    assert aligned(container(requests=FIRM)) == {}
    assert aligned(container(limits={"cpu": "2"})) == {}
    assert aligned(container(), container(requests=FIRM)) == {}


def test_fractional_cores_are_not_aligned() -> None:
    half = {"cpu": "500m", "memory": "1Gi"}
    assert aligned(container(), container(limits=half)) == {CPU: 2000, MEMORY: 2 << 30}


def test_pod_level_limits_make_a_pod_guaranteed() -> None:
    one = container(requests={"cpu": "1"})
    assert aligned(one, resources={"limits": FIRM}) == {CPU: 1000}
    assert aligned(one, resources={"limits": {"cpu": "2"}}) == {}


def test_requests_are_kept_per_container_including_init_containers() -> None:
    sidecar = container("s", limits=FIRM, restart="Always")
    spec = {"containers": [container("a"), container("b"), container("g", limits={**FIRM, GPU: "1"})]}
    found = numa_request(read_shape(pod(**spec, initContainers=[sidecar, container("i")])).numa)
    small = ((CPU, 2000), (MEMORY, 1 << 30))
    assert found.containers == ((small, 4), ((*small, (GPU, 1)), 1))
    assert dict(found.pod) == {CPU: 8000, MEMORY: 4 << 30, GPU: 1}


def test_too_many_different_containers_count_as_the_largest() -> None:
    count = NUMA_CONTAINERS_MAX + 1
    containers = [container(limits={"example.com/x": str(each + 1)}) for each in range(count)]
    found = numa_request(read_shape(pod(containers=containers)).numa)
    assert found.containers == (((("example.com/x", count),), count),)


def test_pods_with_different_containers_have_different_shapes() -> None:
    one = pod(containers=[container(limits={GPU: "2"})])
    two = pod(containers=[container(limits={GPU: "1"}), container(limits={GPU: "1"})])
    assert read_shape(one).requests == read_shape(two).requests
    assert read_shape(one).key != read_shape(two).key


def test_a_request_for_an_internal_numa_resource_is_invalid() -> None:
    shape = read_shape(pod(requests={"numa?[x]": "1"}))
    assert "numa?[x]" not in shape.requests
    assert "numa?[x]" in shape.invalid[0]
