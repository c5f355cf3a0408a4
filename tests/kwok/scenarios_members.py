"""Faults of members: failed containers, failed preflight checks, evictions, restarts, early ends."""

import asyncio

from tests.e2e.pod_history import Pod
from tests.e2e.workloads import pod_group
from tests.kwok.manifests import Manifest, job, pod, recovery
from tests.kwok.site import LOOK_S, Site

RACK = {"topology": {"name": "racks", "required": "rack"}}
FAILED_CONTAINER = "pod-container-running-failed"
FAILED_INIT = "pod-init-container-running-failed"


async def a_pod_that_replaces_a_failed_one_joins_its_gang_in_the_rack(site: Site) -> None:
    """The exit code is the requested one, so KWOK reads the annotations as they are written here."""
    await site.add_nodes("r1", "r2", "r2", "r2")
    await site.add_gang("gang", size=2, by="Job", spec=RACK)
    await site.runs("gang", 2)
    fails, stays = site.pods("gang")
    await site.break_pod(fails.metadata.name, FAILED_CONTAINER, exit_code="42", reason="NcclTimeout")
    await site.until(lambda: fails.metadata.uid not in site.uids("gang"), "the failure")
    await site.runs("gang", 2)
    assert await _exit_code(site, fails.metadata.name) == 42
    assert stays.metadata.uid in site.uids("gang")
    assert site.placed("gang") == sorted({f"{site.name}-{i}" for i in (1, 2, 3)} - {fails.spec.node_name})
    assert site.evicted("gang") == set()


async def _exit_code(site: Site, name: str) -> int:
    (found,) = [each for each in await site.all_pods() if each["metadata"]["name"] == name]
    (container,) = found["status"]["containerStatuses"]
    return int(container["state"]["terminated"]["exitCode"])


async def a_gang_avoids_the_node_on_which_its_preflight_failed(site: Site) -> None:
    """The gang itself avoids it, whether or not the configuration names the init container as a preflight."""
    await site.add_nodes("r1", "r1", "r1")
    label = f"{FAILED_INIT}.stage.kwok.x-k8s.io"
    ill = pod(site.name, "gang-1", gang="gang", init="preflight-nccl-allreduce")
    ill["metadata"]["labels"][label] = "true"
    ill["metadata"]["annotations"][f"{label}/reason"] = "NcclAllReduceFailed"
    well = pod(site.name, "gang-0", gang="gang", init="preflight-nccl-allreduce")
    await site.create(pod_group("gang", space=site.name, size=2), ill, well)
    await site.until(lambda: any(p.status.phase == "Failed" for p in _seen(site, "gang-1")), "the failure")
    bad = next(each.spec.node_name for each in _seen(site, "gang-1") if each.spec.node_name)
    await site.group_until("gang", lambda found: found.get("status", {}).get("counts", {}).get("failed") == 1)
    again = pod(site.name, "gang-2", gang="gang", init="preflight-nccl-allreduce")
    await site.create(again)
    await site.runs("gang", 2)
    assert bad not in site.placed("gang")


def _seen(site: Site, name: str) -> list[Pod]:
    return [each.pod for each in site.events("gang") if each.pod.metadata.name == name]


async def a_filler_does_not_take_the_capacity_held_for_a_gang(site: Site) -> None:
    """Volcano #5805: the Job recreates its failed member later; until then its capacity is held.

    A Job recreates a failed pod after ten seconds. On a busy machine the filler's status may not show the
    hold, so the parallelism of the Job is 1 until then.
    """
    await site.add_nodes("r1", "r1")
    await site.add_gang("gang", size=2, by="Job")
    await site.runs("gang", 2)
    await site.add_gang("filler", size=1)
    await site.waits("filler", "InsufficientCapacity")
    fails, _ = site.pods("gang")
    await site.break_pod(fails.metadata.name, FAILED_CONTAINER)
    await site.until(lambda: fails.metadata.uid not in site.uids("gang"), "the failure")
    await site.set_parallelism("gang", 1)
    await site.waits("filler", "CapacityReserved")
    await site.set_parallelism("gang", 2)
    await site.runs("gang", 2)
    assert [seen for seen in site.events("filler") if seen.pod.spec.node_name] == []


async def a_finishing_gang_is_not_restarted(site: Site) -> None:
    """KAI #1968: two members have succeeded, so fewer than minMember run, and the last one's node is lost."""
    await site.add_nodes("r1", "r1", "r1")
    spec = {"recovery": recovery(node_loss="Restart", member_failure="Restart")}
    await site.create(pod_group("gang", space=site.name, size=3, **spec))
    await site.create(job(site.name, "quick", size=2, gang="gang", runtime="2s"))
    await site.create(job(site.name, "slow", size=1, gang="gang", runtime="20s"))
    await site.until(lambda: len(_succeeded(site)) == 2, "two to succeed")
    (last,) = site.pods("gang")
    await site.fail_node(last.spec.node_name)
    await site.environment.nodes_are_known()
    await site.until(lambda: len(_succeeded(site)) == 3, "the last to succeed")
    assert len({seen.pod.metadata.uid for seen in site.events("gang")}) == 3, "a member was recreated"
    assert site.evicted("gang") == set()
    await site.group_until("gang", lambda found: found["status"]["phase"] == "Finished")


def _succeeded(site: Site) -> set[str]:
    return {e.pod.metadata.name for e in site.events("gang") if e.pod.status.phase == "Succeeded"}


async def a_drain_limited_by_a_budget_continues_when_the_gang_is_complete_again(site: Site) -> None:
    """Two members are on the drained node; the budget allows the second eviction when one is replaced."""
    await site.add_nodes("r1", "r1", "r1")
    await site.add_gang("gang", size=4, gpus=4)
    await site.create(_budget(site, at_least=3))
    await site.runs("gang", 4)
    members, drained = site.uids("gang"), site.placed("gang")[0]
    leaving = [each for each in site.pods("gang") if each.spec.node_name == drained]
    budget = f"/apis/policy/v1/namespaces/{site.name}/poddisruptionbudgets/gang"
    await site.object_until(budget, lambda found: found.get("status", {}).get("disruptionsAllowed") == 1)
    await site.set_node(drained, spec={"unschedulable": True})
    await site.environment.nodes_are_known()
    assert await site.evict(leaving[0].metadata.name) == 201
    while (status := await site.evict(leaving[1].metadata.name)) == 429:
        await asyncio.sleep(LOOK_S)
    assert status == 201
    await site.until(lambda: drained not in site.placed("gang"), "the drain")
    await site.runs("gang", 4)
    assert site.evicted("gang") == {"EvictionByEvictionAPI"}
    ran = [s.pod for s in site.events("gang") if s.pod.status.phase == "Running"]
    replaced = min(each.version for each in ran if each.metadata.uid not in members)
    assert replaced < _deletion_commit(site, leaving[1].metadata.uid)


def _deletion_commit(site: Site, uid: str) -> int:
    """The commit that set the pod's deletion timestamp."""
    pods = (seen.pod for seen in site.events("gang") if seen.pod.metadata.uid == uid)
    return min(each.version for each in pods if each.metadata.deletion_timestamp)


def _budget(site: Site, *, at_least: int) -> Manifest:
    spec = {"minAvailable": at_least, "selector": {"matchLabels": {"app": "gang"}}}
    metadata = {"name": "gang", "namespace": site.name}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


async def a_restart_evicts_the_complete_gang_and_is_no_failure_of_its_job(site: Site) -> None:
    """With a limit of 0 the Job would end with one counted failure.

    A Job waits before it recreates failed pods, even ignored ones: 10 s, doubled for each further pod,
    up to 10 min. With backoffLimitPerIndex each index waits by itself.
    """
    await site.add_nodes("r1", "r1", "r1", "r1")
    spec = {"recovery": recovery(node_loss="Restart")}
    await site.add_gang("gang", size=3, by="Job", limit_per_index=0, spec=spec)
    await site.runs("gang", 3)
    before = site.uids("gang")
    lost = site.placed("gang")[0]
    await site.fail_node(lost)
    await site.until(lambda: not before & site.uids("gang"), "all members to be evicted")
    await site.runs("gang", 3)
    assert lost not in site.placed("gang")
    assert site.evicted("gang") == {"GangRestarted"}
    path = f"/apis/batch/v1/namespaces/{site.name}/jobs/gang"
    found = await site.object_until(path, lambda found: found["status"].get("active") == 3)
    assert found["status"].get("failed", 0) == 0


SCENARIOS = (
    a_pod_that_replaces_a_failed_one_joins_its_gang_in_the_rack,
    a_gang_avoids_the_node_on_which_its_preflight_failed,
    a_filler_does_not_take_the_capacity_held_for_a_gang,
    a_finishing_gang_is_not_restarted,
    a_drain_limited_by_a_budget_continues_when_the_gang_is_complete_again,
    a_restart_evicts_the_complete_gang_and_is_no_failure_of_its_job,
)
