"""Competing gangs, and changes of PodGroups, Queues and rules while gangs wait or run."""

import asyncio
from itertools import chain
from typing import Any

from tests.e2e.findings import spans
from tests.e2e.workloads import create_in_order, pod_group, queue
from tests.fake_objects import namespace
from tests.kwok.manifests import GPU, SITE, Manifest, job, pod
from tests.kwok.site import LOOK_S, Site, path_of

JOBS = 60


async def two_gangs_with_interleaved_pods_do_not_block_each_other(site: Site) -> None:
    """Scheduler-plugins #117: their pods arrive alternately, and the capacity fits one of the two."""
    await site.add_nodes("r1")
    names = ("a", "b")
    await site.create(*(pod_group(name, space=site.name, size=8) for name in names))
    pods = [[pod(site.name, f"{name}-{i}", gang=name, gpus=1) for i in range(8)] for name in names]
    await create_in_order(site.environment.plane, list(chain(*zip(*pods, strict=True))))
    await site.until(lambda: any(len(site.placed(name)) == 8 for name in names), "one of them to be placed")
    loser = next(name for name in names if not site.placed(name))
    await site.waits(loser, "InsufficientCapacity")


async def sixty_jobs_share_sixteen_gpus_and_all_finish(site: Site) -> None:
    """Scheduler-plugins #117: 1 to 8 pods of one GPU each, on two nodes."""
    await site.add_nodes("r1", "r1")
    sizes = {f"job-{i}": 1 + i % 8 for i in range(JOBS)}
    await site.create(*(pod_group(name, space=site.name, size=size) for name, size in sizes.items()))
    jobs = (job(site.name, name, size=size, gpus=1, runtime="100ms") for name, size in sizes.items())
    await site.create(*jobs)
    await site.until(lambda: len(_succeeded(site)) == sum(sizes.values()), "all pods to succeed")
    by_gang = {f"{site.name}/{name}": size for name, size in sizes.items()}
    found = spans(site.environment.history.events, sizes=by_gang)
    assert sorted(span.gang for span in found) == sorted(by_gang)
    assert len(_all_uids(site)) == sum(sizes.values()), "pods were recreated"


def _succeeded(site: Site) -> set[str]:
    pods = site.environment.history.events
    return {
        seen.pod.metadata.uid
        for seen in pods
        if seen.pod.metadata.namespace == site.name and seen.pod.status.phase == "Succeeded"
    }


def _all_uids(site: Site) -> set[str]:
    events = site.environment.history.events
    return {seen.pod.metadata.uid for seen in events if seen.pod.metadata.namespace == site.name}


async def no_pod_of_a_gang_is_bound_alone(site: Site) -> None:
    """Scheduler-plugins #930: the capacity fits one of three pods."""
    await site.add_nodes("r1")
    await site.add_gang("gang", size=3)
    too_little = await site.waits("gang", "AboveClusterCapacity")
    await site.add_nodes("r1", "r1")
    await site.runs("gang", 3)
    assert site.first_bind("gang") > too_little


async def a_permanently_refused_bind_starves_no_other_gang(site: Site) -> None:
    """KAI #2075: an admission policy refuses the binds of one namespace, whose gang is first in the queue."""
    poisoned = f"{site.name}-poisoned"
    await site.create(namespace(poisoned, labels={"poisoned": site.name}), *_refusal(site, poisoned))
    await site.add_nodes("r1")
    probe = pod(poisoned, "probe", gpus=0)
    probe["spec"]["schedulerName"] = "nobody"
    await site.create(probe)
    other = Site(site.environment, poisoned)
    while await other.may_bind("probe", f"{site.name}-0"):
        await asyncio.sleep(LOOK_S)
    await other.create(pod_group("gang", space=poisoned, size=2))
    pods = [pod(poisoned, f"gang-{i}", gang="gang", gpus=4) for i in range(2)]
    for each in pods:
        each["spec"]["nodeSelector"] = {SITE: site.name}
    await other.create(*pods)
    await other.waits("gang", "BackoffAfterFailure")
    await site.add_gang("behind", size=2, gpus=4)
    await site.runs("behind", 2)
    assert other.placed("gang") == []


def _refusal(site: Site, name: str) -> tuple[Manifest, Manifest]:
    version = "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    selector = {"matchLabels": {"poisoned": site.name}}
    policy: dict[str, Any] = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": selector},
        "validations": [{"expression": "false", "message": "not here"}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return (
        _cluster_object(version, "ValidatingAdmissionPolicy", name, policy),
        _cluster_object(version, "ValidatingAdmissionPolicyBinding", name, binding),
    )


def _cluster_object(version: str, kind: str, name: str, spec: dict[str, Any]) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


async def a_recreated_pod_group_gets_the_waiting_pods(site: Site) -> None:
    await site.add_nodes("r1")
    await site.add_gang("gang", size=2, by="")
    await site.waits("gang", "AboveClusterCapacity")
    old = await site.group_until("gang", lambda _: True)
    await site.environment.delete(site.group_path("gang"))
    await site.until(lambda: _all_report(site, "PodGroupNotFound"), "the pods to report the missing PodGroup")
    await site.create(pod_group("gang", space=site.name, size=2))
    await site.waits("gang", "AboveClusterCapacity")
    await site.add_nodes("r1")
    await site.runs("gang", 2)
    new = await site.group_until("gang", lambda found: found["status"]["phase"] == "Running")
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert len({seen.pod.metadata.uid for seen in site.events("gang")}) == 2


def _all_report(site: Site, reason: str) -> bool:
    messages = [each.message for pod in site.pods("gang") for each in pod.status.conditions]
    return len([message for message in messages if reason in message]) == len(site.pods("gang"))


async def a_limit_below_the_usage_evicts_and_admits_no_gang(site: Site) -> None:
    """A gang larger than the limit gets a verdict that shows that the new limit is known."""
    await site.add_nodes("r1", "r1")
    team = queue(site.name, limit=_gpus(8))
    await site.create(team)
    await site.add_gang("old", size=1, spec={"queue": site.name})
    await site.runs("old", 1)
    members = site.uids("old")
    await site.add_gang("new", size=1, gpus=6, spec={"queue": site.name})
    await site.waits("new", "QueueLimit")
    await site.environment.patch(path_of(team), {"spec": {"limit": _gpus(4)}})
    await site.waits("new", "AboveQueueLimit")
    await site.environment.patch(path_of(team), {"spec": {"limit": _gpus(6)}})
    below_use = await site.waits("new", "QueueLimit")
    assert site.uids("old") == members
    assert site.evicted("old") == set()
    await site.environment.delete(f"/apis/apps/v1/namespaces/{site.name}/replicasets/old")
    await site.runs("new", 1)
    assert site.first_bind("new") > below_use


def _gpus(count: int) -> dict[str, str]:
    return {GPU: str(count)}


SCENARIOS = (
    two_gangs_with_interleaved_pods_do_not_block_each_other,
    sixty_jobs_share_sixteen_gpus_and_all_finish,
    no_pod_of_a_gang_is_bound_alone,
    a_permanently_refused_bind_starves_no_other_gang,
    a_recreated_pod_group_gets_the_waiting_pods,
    a_limit_below_the_usage_evicts_and_admits_no_gang,
)
