"""Evictions that suspend and resume workloads: no retry is spent, and the work comes back."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from phalanx.framework.config import SchedulerConfig
from phalanx.model.names import ANNOTATION_SUSPENSION, LABEL_MIN_MEMBER, LABEL_POD_GROUP
from phalanx.model.workloads.kind import WorkloadKind
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.apiserver.kinds import ResourceType
from phalanx_simulator.embedded.store import Change, Key, Object
from phalanx_simulator.hosts.network import Effect, Exchange, Network, Rule
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World, WorldSettings, in_world

from tests.service.dialect_world import found
from tests.service.leaders import kill_the_leader_at
from tests.service.test_workloads_in_virtual_time import (
    JOB_SETS,
    bound,
    create_job_set,
    create_jobs,
    delete,
    job,
    pods,
    settle,
    suspended,
)

pytestmark = pytest.mark.usefixtures("quiet")

JOBS = "jobs.batch"
TRAIN_JOBS = ResourceType("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob", True, custom=True)
OF_SET = ("train-a-0", "train-a-1", "train-b-0")
POD_GROUPS = "podgroups.scheduling.phalanx.dev"
TRAIN = Key(JOBS, "default", "train")
SUSPENSIONS = Key("configmaps", "kube-system", "phalanx-suspensions")
SETTINGS = WorldSettings(seed=1, replicas=1, checks=ALL_CHECKS)
TWO = WorldSettings(seed=1, replicas=2, checks=ALL_CHECKS)
WITH_JOB_SETS = WorldSettings(seed=1, replicas=1)
DELETING = WorldSettings(
    seed=1, replicas=1, checks=ALL_CHECKS, config=SchedulerConfig(suspend_evicted_workloads=False)
)


def fragile_job(name: str = "train", *, members: int = 4, **options: Any) -> Object:
    """One failure more than its limit ends it."""
    made = manifests.job(name, members=members, **options)
    made["spec"]["backoffLimit"] = 2
    return made


def evictor(*, gpus: int = 4, run_s: int = 60) -> Object:
    made = manifests.job("urgent", members=1, run_s=run_s, requests={"nvidia.com/gpu": str(gpus)})
    made["spec"]["template"]["spec"]["priorityClassName"] = "urgent"
    return made


def of_job() -> list[Object]:
    return [fragile_job(run_s=300)]


def of_label() -> list[Object]:
    made = fragile_job(run_s=300)
    made["spec"]["template"]["metadata"]["labels"] = {LABEL_MIN_MEMBER: "4"}
    return [made]


def of_group() -> list[Object]:
    return [manifests.pod_group("train", min_member=4), fragile_job(run_s=300, group="train")]


def network_of(world: World) -> Network:
    leader = world.leader()
    assert leader is not None
    assert leader.process is not None
    return leader.process.network


def create_train_job(world: World) -> Object:
    meta = {"name": "train", "namespace": "default"}
    world.create([{"apiVersion": TRAIN_JOBS.api_version, "kind": "TrainJob", "metadata": meta, "spec": {}}])
    return found(world, TRAIN_JOBS.resource, "train")


async def running_job_set(
    world: World,
    roles: dict[str, tuple[int, int]],
    *,
    groups: dict[str, str],
    above: Object | None = None,
    more: dict[str, str] | None = None,
) -> None:
    """A JobSet whose Jobs run on all 4 GPUs. `groups`: the PodGroups of roles. `more`: roles of one pod that
    run elsewhere, by the name of their scheduler."""
    world.create([manifests.node("n1", gpus=4), manifests.priority_class("urgent", 1000)])
    sizes = {role: replicas * size for role, (replicas, size) in roles.items()}
    for name in filter(None, dict.fromkeys(groups.values())):
        members = sum(sizes[role] for role, group in groups.items() if group == name)
        world.create([manifests.pod_group(name, min_member=members)])
    world.start()
    all_roles = {**roles, **dict.fromkeys(more or {}, (1, 1))}
    owner = create_job_set(world, "train", all_roles, above=above, unnamed=bool(more))
    for role, (replicas, size) in all_roles.items():
        for index in range(replicas):
            made = job(f"train-{role}-{index}", members=size, owner=owner, role=role, run_s=300)
            made["spec"]["backoffLimit"] = 0
            template = made["spec"]["template"]
            if groups.get(role):
                template["metadata"]["labels"][LABEL_POD_GROUP] = groups[role]
            if more and role in more:
                template["spec"] |= {"schedulerName": more[role], "nodeName": "n2"}
            world.create([made])
    await settle()
    assert bound(world, "train") == 4 + len(more or {})


def follow(world: World, chain: list[Key]) -> None:
    """Each object is suspended like the first one, as its controller does."""

    def copy(change: Change) -> None:
        above = world.client.get(chain[0]) or {}
        is_suspended = bool(above["spec"].get("suspend"))
        for key in chain[1:]:
            if bool(found(world, key.resource, key.name)["spec"].get("suspend")) != is_suspended:
                world.client.update(key, suspended(is_suspended))

    world.client.subscribe(chain[0].resource, copy)


def all_events(world: World) -> list[Object]:
    return [world.client.get(key) or {} for key in world.client.keys("events.events.k8s.io")]


def about(event: Object) -> str:
    return f"{event['regarding']['kind']} {event['regarding']['name']}"


def events(world: World) -> list[str]:
    return [
        f"{about(event)}: {event['note']}"
        for event in all_events(world)
        if event["action"] in ("Suspending", "Resuming")
    ]


def notes(world: World, action: str) -> dict[str, str]:
    """What events of objects other than pods say."""
    found = [event for event in all_events(world) if event["action"] == action]
    return {about(event): event["note"] for event in found if event["regarding"]["kind"] != "Pod"}


def play(program: Callable[[World], Awaitable[None]], settings: WorldSettings = SETTINGS) -> None:
    world = in_world(settings, program)
    assert world.violations.kept == []


async def running_job(world: World, *made: Object) -> None:
    """The Job runs on all 4 GPUs."""
    world.create([manifests.node("n1", gpus=4), manifests.priority_class("urgent", 1000)])
    world.start()
    world.create(made or [fragile_job(run_s=300)])
    await settle()
    assert bound(world, "train") == 4


async def evicted(world: World, *made: Object) -> None:
    """A pod of higher priority takes the GPUs for a minute."""
    await running_job(world, *made)
    world.create([evictor()])
    await asyncio.sleep(40)


def test_a_job_whose_pods_are_deleted_fails() -> None:
    """What the suspension is for: four failures are more than the limit of two."""

    async def program(world: World) -> None:
        await evicted(world)
        conditions = found(world, JOBS, "train")["status"]["conditions"]
        assert [each["reason"] for each in conditions if each["type"] == "Failed"] == ["BackoffLimitExceeded"]

    play(program, DELETING)


def preempted(world: World) -> list[str]:
    """Of the PodGroup."""
    conditions = found(world, POD_GROUPS, "train")["status"]["conditions"]
    return [each["message"] for each in conditions if each["type"] == "Preempted"]


@pytest.mark.parametrize("settings", [SETTINGS, DELETING], ids=["suspended", "deleted"])
def test_a_trace_of_the_eviction_is_left(settings: WorldSettings) -> None:
    """On the PodGroup, also when its pods are gone, until it starts again, and on the Job."""

    async def program(world: World) -> None:
        await evicted(world, *of_group())
        why = "evicted so that default/urgent of queue default can start: its priority 1000 is above 0 of"
        assert preempted(world) == [f"{why} default/train; the gang starts again when its pods exist and fit"]
        text = f"4 pods of it: {why} default/train"
        told = {"PodGroup train": text, "Job train": text}
        if settings is SETTINGS:
            del told["Job train"]
        assert notes(world, "Preempting") == told
        if settings is SETTINGS:
            await asyncio.sleep(60)
            assert preempted(world) == []

    play(program, settings)


def test_the_trace_is_that_of_the_whole_gang() -> None:
    """Surplus pods say it themselves. Their gang runs."""

    async def program(world: World) -> None:
        group = manifests.pod_group("train", min_member=2)
        await running_job(world, group, fragile_job(run_s=300, group="train"))
        world.create([evictor(gpus=2)])
        await asyncio.sleep(30)
        assert (bound(world, "train"), bound(world, "urgent")) == (2, 1)
        assert preempted(world) == []
        assert found(world, POD_GROUPS, "train")["status"]["phase"] == "Running"

    play(program)


@pytest.mark.parametrize("made", [of_job, of_label, of_group])
def test_an_evicted_job_comes_back_and_has_spent_no_retry(made: Callable[[], list[Object]]) -> None:
    async def program(world: World) -> None:
        await evicted(world, *made())
        assert bound(world, "urgent") == 1
        assert pods(world, "train") == []
        await ends_well(world)
        why = "evicted so that default/urgent of queue default can start: its priority 1000 is above 0 of"
        assert events(world) == [
            f"Job train: Suspended: {why} default/train. It is resumed when there is capacity for it",
            "Job train: Resumed after its pods were evicted",
        ]

    play(program)


async def ends_well(world: World) -> None:
    await asyncio.sleep(700)
    job = found(world, JOBS, "train")
    assert (job["status"]["succeeded"], job["status"]["failed"]) == (4, 0)
    assert job["spec"]["suspend"] is False
    assert ANNOTATION_SUSPENSION not in job["metadata"].get("annotations", {})
    assert not (world.client.get(SUSPENSIONS) or {}).get("data")


def test_it_comes_back_ten_times() -> None:
    async def program(world: World) -> None:
        await evicted(world)
        for round_ in range(10):
            await asyncio.sleep(100)
            assert bound(world, "train") == 4
            delete(world, JOBS, "urgent")
            await asyncio.sleep(10)
            world.create([evictor()])
            await asyncio.sleep(20)
            assert bound(world, "train") == 0, round_
        await ends_well(world)

    play(program)


# --- faults -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/jobs/train", "/configmaps"])
@pytest.mark.parametrize(
    "rule",
    [
        {"effect": Effect.REFUSED, "status": 409, "times": 1},
        {"effect": Effect.REFUSED, "status": 503, "times": 2},
        {"effect": Effect.LOST, "times": 1},
        {"effect": Effect.APPLIED_BUT_LOST, "times": 1},
        {"effect": Effect.APPLIED_BUT_REFUSED, "status": 500, "times": 1},
    ],
    ids=["conflict", "unavailable", "lost", "answer lost", "answer refused"],
)
def test_a_write_that_fails_is_repeated(rule: dict[str, Any], path: str) -> None:
    async def program(world: World) -> None:
        await running_job(world)
        network_of(world).rules.append(Rule(**rule, methods=("PATCH", "POST"), path_part=path))
        world.create([evictor()])
        await ends_well(world)

    play(program)


def is_stored(exchange: Exchange) -> bool:
    return "configmaps" in exchange.path and b'"phalanx-suspensions"' in (exchange.body or b"")


def is_suspended(exchange: Exchange) -> bool:
    return exchange.path.endswith("/jobs/train") and b'"suspend":true' in (exchange.body or b"")


def is_suspended_set(exchange: Exchange) -> bool:
    return exchange.path.endswith("/jobsets/train") and b'"suspend":true' in (exchange.body or b"")


def is_resumed(exchange: Exchange) -> bool:
    return exchange.path.endswith("/jobs/train") and b'"suspend":false' in (exchange.body or b"")


@pytest.mark.parametrize("step", [is_stored, is_suspended, is_resumed])
def test_the_next_leader_completes_it(step: Callable[[Exchange], bool]) -> None:
    async def program(world: World) -> None:
        await running_job(world)
        world.create([evictor()])
        await kill_the_leader_at(world, step)
        await asyncio.sleep(120)
        await ends_well(world)

    play(program, TWO)


def test_pods_are_deleted_if_the_controller_does_nothing() -> None:
    """Nobody reconciles the JobSet. It is resumed nevertheless."""

    async def program(world: World) -> None:
        world.server.types.add(JOB_SETS)
        world.create([manifests.node("n1", gpus=4), manifests.priority_class("urgent", 1000)])
        world.start()
        owner = create_job_set(world, "train", {"worker": (1, 4)})
        create_jobs(world, owner, {"worker": (1, 4)})
        await settle()
        assert bound(world, "train") == 4
        world.create([evictor()])
        await asyncio.sleep(5)
        assert bound(world, "train") == 4
        assert found(world, JOB_SETS.resource, "train")["spec"]["suspend"] is True
        await asyncio.sleep(25)
        assert (bound(world, "train"), bound(world, "urgent")) == (0, 1)
        assert found(world, JOB_SETS.resource, "train")["spec"]["suspend"] is False

    in_world(WorldSettings(seed=1, replicas=1), program)


def test_a_suspension_that_arrives_late_is_undone() -> None:
    """The scheduler has deleted the pods meanwhile."""

    async def program(world: World) -> None:
        world.server.types.add(JOB_SETS)
        await running_job_set(world, {"a": (1, 4)}, groups={})
        await asyncio.sleep(60)
        is_patch = {"methods": ("PATCH",), "path_part": "/jobsets/train"}
        network_of(world).rules.append(Rule(effect=Effect.LOST, times=4, **is_patch))
        lost: list[bytes] = []
        world.observe(lambda each: lost.append(each.body) if is_suspended_set(each) else None)
        world.create([evictor()])
        await asyncio.sleep(35)
        assert (bound(world, "train"), bound(world, "urgent")) == (0, 1)
        annotations = json.loads(lost[-1])["metadata"]["annotations"]
        world.client.update(
            Key(JOB_SETS.resource, "default", "train"),
            lambda made: suspended(True)(
                {**made, "metadata": {**made["metadata"], "annotations": annotations}}
            ),
        )
        await asyncio.sleep(60)
        assert found(world, JOB_SETS.resource, "train")["spec"]["suspend"] is False
        await asyncio.sleep(60)
        assert not (world.client.get(SUSPENSIONS) or {}).get("data")

    play(program, WITH_JOB_SETS)


def test_a_workload_that_is_resumed_counts_as_such_before_its_record_is_gone() -> None:
    """The record cannot be removed for a while. The next eviction is a suspension again."""

    async def program(world: World) -> None:
        await running_job(world)
        resumed = asyncio.Event()
        refusal = Rule(effect=Effect.REFUSED, methods=("PATCH",), path_part="phalanx-suspensions", times=1)

        def refuse(exchange: Exchange) -> None:
            if exchange.landed_at is not None and not resumed.is_set() and is_resumed(exchange):
                resumed.set()
                network_of(world).rules.append(refusal)

        world.observe(refuse)
        world.create([evictor(run_s=10)])
        await asyncio.sleep(60)
        assert resumed.is_set()
        assert bound(world, "train") == 4
        assert not (world.client.get(SUSPENSIONS) or {}).get("data")
        delete(world, JOBS, "urgent")
        await asyncio.sleep(5)
        world.create([evictor()])
        await ends_well(world)

    play(program)


def test_without_rights_to_store_it_pods_are_deleted_and_no_more_is_asked() -> None:
    async def program(world: World) -> None:
        await running_job(world)
        refusal = {"effect": Effect.REFUSED, "status": 403, "path_part": "phalanx-suspensions"}
        network_of(world).rules.append(Rule(**refusal, methods=("GET", "PATCH")))
        network_of(world).rules.append(
            Rule(effect=Effect.REFUSED, status=403, path_part="kube-system/configmaps", methods=("POST",))
        )
        world.create([evictor()])
        await asyncio.sleep(60)
        asked: list[Exchange] = []
        world.observe(lambda each: asked.append(each) if "phalanx-suspensions" in each.path else None)
        await asyncio.sleep(60)
        assert bound(world, "urgent") == 1
        assert asked == []
        assert events(world) == []

    play(program)


def is_condition(exchange: Exchange) -> bool:
    return exchange.method == "PATCH" and b"DisruptionTarget" in (exchange.body or b"")


@pytest.mark.parametrize("step", [is_condition, is_stored, is_suspended])
def test_no_retry_is_spent_if_the_pod_group_is_deleted_meanwhile(step: Callable[[Exchange], bool]) -> None:
    async def program(world: World) -> None:
        await running_job(world, *of_group())
        is_done = asyncio.Event()

        def observe(exchange: Exchange) -> None:
            if exchange.landed_at is not None and not is_done.is_set() and step(exchange):
                is_done.set()
                delete(world, POD_GROUPS, "train")

        world.observe(observe)
        world.create([evictor()])
        await asyncio.sleep(60)
        assert is_done.is_set()
        world.create([manifests.pod_group("train", min_member=4)])
        await ends_well(world)

    play(program)


def test_a_job_set_is_not_resumed_before_its_pods_end_if_the_pod_group_is_deleted() -> None:
    """Its controller takes three seconds to suspend the Jobs."""

    async def program(world: World) -> None:
        world.server.types.add(JOB_SETS)
        await running_job_set(world, {"a": (1, 4)}, groups={"a": "train"})
        job_set, of_set = Key(JOB_SETS.resource, "default", "train"), Key(JOBS, "default", "train-a-0")

        def copy(change: Change) -> None:
            value = bool(change.entry.data["spec"].get("suspend"))
            asyncio.get_running_loop().call_later(3, world.client.update, of_set, suspended(value))

        world.client.subscribe(job_set.resource, copy)
        is_done = asyncio.Event()

        def observe(exchange: Exchange) -> None:
            if exchange.landed_at is not None and not is_done.is_set() and is_suspended_set(exchange):
                is_done.set()
                delete(world, POD_GROUPS, "train")

        world.observe(observe)
        world.create([evictor()])
        await asyncio.sleep(30)
        assert (bound(world, "train"), bound(world, "urgent")) == (0, 1)
        assert found(world, JOBS, "train-a-0")["status"].get("failed", 0) == 0

    play(program, WITH_JOB_SETS)


# --- workloads of several owners ----------------------------------------------------------------------------


@pytest.mark.parametrize("is_trained", [False, True])
@pytest.mark.parametrize("group", ["", "train"])
def test_a_job_set_is_suspended_through_what_is_above_it(group: str, is_trained: bool) -> None:
    """Also if a PodGroup makes its pods one gang. A TrainJob would resume its JobSet."""

    async def program(world: World) -> None:
        for type_ in (JOB_SETS, TRAIN_JOBS):
            world.server.types.add(type_)
        above = create_train_job(world) if is_trained else None
        await running_job_set(world, {"a": (2, 1), "b": (1, 2)}, groups={"a": group, "b": group}, above=above)
        chain = [Key(JOB_SETS.resource, "default", "train"), *(Key(JOBS, "default", name) for name in OF_SET)]
        follow(world, [Key(TRAIN_JOBS.resource, "default", "train"), *chain] if is_trained else chain)
        world.create([evictor()])
        await asyncio.sleep(30)
        kind = "TrainJob" if is_trained else "JobSet"
        assert [line.split(":")[0] for line in events(world)] == [f"{kind} train"]
        assert (pods(world, "train"), bound(world, "urgent")) == ([], 1)
        await asyncio.sleep(200)
        assert bound(world, "train") == 4
        assert [line.split(":")[0] for line in events(world)] == [f"{kind} train"] * 2
        assert [found(world, JOBS, name)["status"]["failed"] for name in OF_SET] == [0, 0, 0]
        assert not (world.client.get(SUSPENSIONS) or {}).get("data")

    play(program, WITH_JOB_SETS)


def test_a_configured_kind_may_make_other_workloads() -> None:
    """As a TrainJob does. It is suspended, and makes the JobSet follow."""
    campaigns = ResourceType("example.com", "v1", "campaigns", "Campaign", True, custom=True)
    kind = WorkloadKind(
        api_version=campaigns.api_version,
        kind="Campaign",
        plural="campaigns",
        roles=(),
        suspended="spec.paused",
    )

    async def program(world: World) -> None:
        for type_ in (JOB_SETS, campaigns):
            world.server.types.add(type_)
        meta = {"name": "train", "namespace": "default"}
        made = {"apiVersion": campaigns.api_version, "kind": "Campaign", "metadata": meta, "spec": {}}
        world.create([made])
        above = found(world, campaigns.resource, "train")
        await running_job_set(world, {"a": (2, 1), "b": (1, 2)}, groups={}, above=above)
        job_set = Key(JOB_SETS.resource, "default", "train")
        follow(world, [job_set, *(Key(JOBS, "default", name) for name in OF_SET)])

        def copy(change: Change) -> None:
            value = bool(change.entry.data["spec"].get("paused"))
            if bool(found(world, JOB_SETS.resource, "train")["spec"].get("suspend")) != value:
                world.client.update(job_set, suspended(value))

        world.client.subscribe(campaigns.resource, copy)
        world.create([evictor()])
        await asyncio.sleep(30)
        assert (pods(world, "train"), bound(world, "urgent")) == ([], 1)
        await asyncio.sleep(200)
        assert bound(world, "train") == 4
        assert [line.split(":")[0] for line in events(world)] == ["Campaign train"] * 2

    config = SchedulerConfig(workloads=(kind,))
    play(program, WorldSettings(seed=1, replicas=1, config=config))


def test_a_job_set_of_two_gangs_is_not_suspended_for_one() -> None:
    async def program(world: World) -> None:
        world.server.types.add(JOB_SETS)
        await running_job_set(world, {"a": (1, 2), "b": (1, 2)}, groups={"a": "first", "b": "second"})
        world.create([evictor(gpus=2)])
        await asyncio.sleep(30)
        assert (bound(world, "train"), bound(world, "urgent")) == (2, 1)
        assert found(world, JOB_SETS.resource, "train")["spec"].get("suspend") is not True
        assert events(world) == []

    play(program, WITH_JOB_SETS)


def test_pods_of_another_scheduler_are_not_ended_with_a_gang() -> None:
    """The template names no scheduler: only the pods tell."""

    async def program(world: World) -> None:
        world.server.types.add(JOB_SETS)
        taints = [{"key": "theirs", "effect": "NoSchedule"}]
        world.create([{**manifests.node("n2", gpus=2), "spec": {"taints": taints}}])
        await running_job_set(world, {"a": (1, 4)}, groups={}, more={"theirs": "default-scheduler"})
        world.create([evictor()])
        await asyncio.sleep(30)
        assert (bound(world, "train-a"), bound(world, "train-theirs"), bound(world, "urgent")) == (0, 1, 1)
        assert found(world, JOB_SETS.resource, "train")["spec"].get("suspend") is not True

    play(program, WITH_JOB_SETS)


# --- workloads about which somebody else decides ------------------------------------------------------------


def test_a_workload_that_its_user_suspended_stays_so() -> None:
    async def program(world: World) -> None:
        await running_job(world)
        world.client.update(TRAIN, suspended(True))
        await asyncio.sleep(5)
        world.create([evictor()])
        await asyncio.sleep(120)
        assert found(world, JOBS, "train")["spec"]["suspend"] is True
        assert events(world) == []

    play(program)


def test_a_workload_that_somebody_resumes_has_no_annotation_left() -> None:
    """As GitOps does. When its user suspends it later, the pods say so, and nothing of an eviction."""

    async def program(world: World) -> None:
        await running_job(world)
        is_done = asyncio.Event()

        def resume(exchange: Exchange) -> None:
            if exchange.landed_at is not None and not is_done.is_set() and is_suspended(exchange):
                is_done.set()
                asyncio.get_running_loop().call_later(0.3, world.client.update, TRAIN, suspended(False))

        world.observe(resume)
        world.create([evictor()])
        await asyncio.sleep(60)
        assert is_done.is_set()
        assert ANNOTATION_SUSPENSION not in found(world, JOBS, "train")["metadata"].get("annotations", {})
        assert not (world.client.get(SUSPENSIONS) or {}).get("data")

    play(program)


def test_a_workload_that_is_held_while_it_is_suspended_is_not_resumed() -> None:
    """`phalanx hold` removes the annotation."""

    async def program(world: World) -> None:
        await running_job(world)

        def hold(exchange: Exchange) -> None:
            if exchange.landed_at is not None and is_suspended(exchange):
                world.client.update(TRAIN, without_annotation)

        world.observe(hold)
        world.create([evictor()])
        await asyncio.sleep(120)
        assert found(world, JOBS, "train")["spec"]["suspend"] is True
        assert not (world.client.get(SUSPENSIONS) or {}).get("data")

    play(program)


def without_annotation(made: Object) -> Object:
    return {**made, "metadata": {**made["metadata"], "annotations": {}}}


def test_a_workload_of_kueue_is_not_suspended() -> None:
    async def program(world: World) -> None:
        made = fragile_job(run_s=300)
        made["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
        await evicted(world, made)
        assert bound(world, "urgent") == 1
        assert found(world, JOBS, "train")["spec"].get("suspend") is not True
        assert events(world) == []

    play(program)


def test_surplus_pods_are_deleted() -> None:
    """The other pods of the Job stay."""

    async def program(world: World) -> None:
        made = fragile_job(run_s=300)
        made["spec"]["template"]["metadata"]["labels"] = {LABEL_MIN_MEMBER: "2"}
        world.create([manifests.node("n1", gpus=4), manifests.priority_class("urgent", 1000)])
        world.start()
        world.create([made])
        await settle()
        world.create([evictor(gpus=2)])
        await asyncio.sleep(30)
        assert (bound(world, "train"), bound(world, "urgent")) == (2, 1)
        assert events(world) == []

    play(program)
