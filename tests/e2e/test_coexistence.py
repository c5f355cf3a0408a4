"""The real kube-scheduler binds other pods to the same nodes at the same time."""

from collections.abc import Callable
from itertools import chain

import pytest

from tests.e2e.conftest import Cluster
from tests.e2e.findings import allocatable, bound_twice, check_binds, overcommitted, partial
from tests.e2e.pod_history import watching
from tests.e2e.scheduler_process import kept_running
from tests.e2e.workloads import create, create_cluster, members, nodes_of, pod_group
from tests.fake_objects import fake_pod

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("e2e")]

NODES, CPU = 50, 8
GANGS, SIZE = 10, 20
FOREIGN = 200


async def test_no_pod_is_lost_and_only_unobserved_binds_overcommit_nodes(
    shared_cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    plane = shared_cluster.plane
    await create_cluster(plane, count=NODES, cpu=CPU, space="both")
    names = [f"gang-{i}" for i in range(GANGS)]
    await create(plane, *(pod_group(name, space="both", size=SIZE) for name in names))
    ours = [pod for name in names for pod in members(name, space="both", size=SIZE, requests={"cpu": "1"})]
    foreign = [
        fake_pod(f"foreign-{i}", namespace="both", scheduler_name="default-scheduler", requests={"cpu": "1"})
        for i in range(FOREIGN)
    ]
    phalanx = kept_running(plane, shared_cluster.kubeconfig, log_level="debug")
    async with watching(plane) as history, phalanx as processes:
        await create(plane, *chain(*zip(ours, foreign, strict=True)))
        await history.until_bound(len(ours) + len(foreign))
    binds = shared_cluster.audit.binds()
    capacity = allocatable(await nodes_of(plane))
    knew = {pod: version for process in processes for pod, version in process.knew().items()}
    check = check_binds(capacity, history.bound.values(), ours="phalanx", knew=knew)
    record_property("overcommitted nodes", len(overcommitted(capacity, history.pods.values())))
    record_property("binds of ours excused by an unobserved foreign bind", len(check.excused))
    assert len(history.pods) == len(ours) + len(foreign), "pods were lost"
    assert partial(history.pods.values(), sizes={f"both/{name}": SIZE for name in names}) == []
    assert bound_twice(history.events, binds) == []
    assert check.unexcused == ()
    assert shared_cluster.audit.denied() == []
