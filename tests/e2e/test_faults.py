"""Processes that end during a run: the leader, killed or terminated, and the API server."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping

import pytest
from phalanx.limits import LEASE_DURATION_S
from phalanx_controlplane.controlplane import ControlPlane

from tests.e2e.conftest import Cluster
from tests.e2e.findings import partial
from tests.e2e.outcome import assert_whole
from tests.e2e.pod_history import GROUP_LABEL, watching
from tests.e2e.scheduler_process import kept_running, lease_holder, scheduler, until_led_by
from tests.e2e.workloads import Manifest, create_cluster, create_gangs, listed

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("e2e")]

GROUPS = "/apis/scheduling.phalanx.dev/v1alpha1/podgroups"


async def test_a_second_replica_finishes_the_gang_of_a_killed_leader(shared_cluster: Cluster) -> None:
    plane = shared_cluster.plane
    await create_cluster(plane, count=40, cpu=8, space="killed")
    async with watching(plane) as history, scheduler(plane, shared_cluster.kubeconfig) as leader:
        await until_led_by(plane, leader)
        async with scheduler(plane, shared_cluster.kubeconfig) as other:
            sizes = await create_gangs(plane, space="killed", count=1, size=200)
            await shared_cluster.audit.until_bound(20)
            await leader.kill()
            assert shared_cluster.audit.accepted() < 200, (
                "the leader was killed too late: everything is bound"
            )
            await history.until_bound(200)
            assert await lease_holder(plane) == other.identity
    await assert_whole(shared_cluster, history, sizes=sizes)
    assert shared_cluster.audit.denied() == []


async def test_no_pod_is_lost_when_the_api_server_restarts(
    own_cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    """After its start the API server denies requests that it allows later, so denials are accepted."""
    plane = own_cluster.plane
    await create_cluster(plane, count=40, cpu=12, space="restart")
    async with watching(plane) as history:
        sizes = await create_gangs(plane, space="restart", count=10, size=30)
        async with kept_running(plane, own_cluster.kubeconfig) as processes:
            await own_cluster.audit.until_bound(20)
            await plane.stop_component("kube-apiserver", kill=True)
            assert own_cluster.audit.accepted() < 300, (
                "the API server was killed too late: everything is bound"
            )
            await plane.start_component("kube-apiserver")
            await history.until_bound(300)
            await until_reported(plane, sizes)
    record_property("scheduler processes started", len(processes))
    await assert_whole(own_cluster, history, sizes=sizes)


async def until_reported(plane: ControlPlane, sizes: Mapping[str, int], *, timeout: float = 60.0) -> None:
    """Wait until every PodGroup's status agrees with its pods; a pod that KWOK has forgotten never runs."""
    reported: dict[str, tuple[int, int]] = {}
    true: dict[str, tuple[int, int]] = dict.fromkeys(sizes, (0, 0))
    try:
        async with asyncio.timeout(timeout):
            while reported != true:
                true = {gang: await bound_and_running(plane, gang) for gang in sizes}
                reported = {key_of(each): counts_of(each) for each in await listed(plane, GROUPS)}
    except TimeoutError:
        raise AssertionError(f"PodGroups say (bound, running) {reported}, pods say {true}") from None


async def bound_and_running(plane: ControlPlane, gang: str) -> tuple[int, int]:
    space, _, name = gang.partition("/")
    pods = await listed(plane, f"/api/v1/namespaces/{space}/pods?labelSelector={GROUP_LABEL}={name}")
    running = sum(pod["status"]["phase"] == "Running" for pod in pods)
    return sum("nodeName" in pod["spec"] for pod in pods) - running, running


def counts_of(group: Manifest) -> tuple[int, int]:
    counts = group.get("status", {}).get("counts", {})
    return counts.get("bound", 0), counts.get("running", 0)


def key_of(group: Manifest) -> str:
    return f"{group['metadata']['namespace']}/{group['metadata']['name']}"


async def test_sigterm_leaves_complete_gangs_and_a_free_lease(shared_cluster: Cluster) -> None:
    plane = shared_cluster.plane
    await create_cluster(plane, count=40, cpu=12, space="stop")
    async with watching(plane) as history:
        sizes = await create_gangs(plane, space="stop", count=10, size=30)
        async with scheduler(plane, shared_cluster.kubeconfig) as first:
            await shared_cluster.audit.until_bound(20)
            os.kill(first.pid, signal.SIGTERM)
            assert await first.exit_code() == 0
        assert await lease_holder(plane) == ""
        accepted = shared_cluster.audit.accepted()
        assert accepted < 300, "the leader was stopped too late: everything is bound"
        await history.until_bound(accepted)
        assert partial(history.pods.values(), sizes=sizes) == []
        began = time.monotonic()
        async with scheduler(plane, shared_cluster.kubeconfig) as second:
            await until_led_by(plane, second)
            assert time.monotonic() - began < LEASE_DURATION_S, "the successor waited for the Lease to expire"
            await history.until_bound(300)
    await assert_whole(shared_cluster, history, sizes=sizes)
    assert shared_cluster.audit.denied() == []
