"""What must be true at the end of every run, whatever happened in it."""

from collections.abc import Mapping

from tests.e2e.conftest import Cluster
from tests.e2e.findings import allocatable, bound_twice, overcommitted, partial
from tests.e2e.pod_history import Pod, PodHistory
from tests.e2e.workloads import nodes_of


async def assert_whole(cluster: Cluster, history: PodHistory, *, sizes: Mapping[str, int]) -> None:
    """All gangs are bound completely, no pod twice, no node is overcommitted. `sizes`: members by gang."""
    assert {gang: len(history.members(gang)) for gang in sizes} == dict(sizes), "pods were lost"
    assert partial(history.pods.values(), sizes=sizes) == []
    assert [gang for gang in sizes if not all_bound(history.members(gang))] == []
    assert bound_twice(history.events, cluster.audit.binds()) == []
    assert overcommitted(allocatable(await nodes_of(cluster.plane)), history.pods.values()) == []


def all_bound(pods: list[Pod]) -> bool:
    """Whether each of them has a node."""
    return all(pod.spec.node_name for pod in pods)
