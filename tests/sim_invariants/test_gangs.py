"""S3, S5, S10 report violations of a history, and nothing for a similar valid one."""

from collections.abc import Callable

import pytest
from phalanx.model.names import LABEL_MIN_MEMBER, LABEL_POD_GROUP
from phalanx_simulator.embedded.controllers.volumes import CLAIMS
from phalanx_simulator.embedded.manifests import job, node, pod, pod_group
from phalanx_simulator.embedded.provisioned_volumes import SELECTED_NODE
from phalanx_simulator.embedded.store import Object
from phalanx_simulator.invariants.gangs import OneDomain, OwnMembersOnly, WholeGangs

from tests.sim_invariants.stage import Actor, Stage, violations

POD_STATUS = "/api/v1/namespaces/default/pods/a-1/status"
GROUP_STATUS = "/apis/scheduling.phalanx.dev/v1alpha1/namespaces/default/podgroups/g/status"
BLOCK = "network.topology.nvidia.com/block"


def owned(name: str, group: str = "g", uid: str = "job-uid") -> dict[str, object]:
    made = pod(name, group=group)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": uid, "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


def gang(stage: Stage, members: int, *, min_member: int = 3) -> None:
    stage.create(node("n1"), node("n2"), pod_group("g", min_member=min_member))
    stage.create(*(owned(f"a-{number}") for number in range(members)))


def test_a_bind_without_a_decision_violates() -> None:
    async def history(stage: Stage) -> None:
        gang(stage, 1, min_member=1)
        host = await stage.leader()
        await host.bind("a-0", "n1")

    assert violations(history, WholeGangs) == ["S3"]


def test_a_bind_to_another_node_than_decided_violates() -> None:
    async def history(stage: Stage) -> None:
        gang(stage, 1, min_member=1)
        host = await stage.leader()
        host.decide(a_0="n2")
        await host.bind("a-0", "n1")

    assert violations(history, WholeGangs) == ["S3"]


def test_a_start_with_too_few_members_violates() -> None:
    async def history(stage: Stage) -> None:
        gang(stage, 3)
        host = await stage.leader()
        host.decide(a_0="n1", a_1="n1")

    assert violations(history, WholeGangs) == ["S3"]


@pytest.mark.parametrize(
    ("labels", "expected"), [({}, ["S3"]), ({LABEL_MIN_MEMBER: "2"}, []), ({LABEL_MIN_MEMBER: "3"}, ["S3"])]
)
def test_a_job_without_a_group_is_a_gang_of_its_pods(labels: dict[str, str], expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        whole = job("job", members=3)
        whole["spec"]["completions"] = 9
        stage.create(node("n1"), whole)
        for number in range(3):
            made = owned(f"a-{number}", "", stage.uid("job", "jobs.batch"))
            made["metadata"]["labels"] = labels
            stage.create(made)
        host = await stage.leader()
        host.decide(a_0="n1", a_1="n1")

    assert violations(history, WholeGangs) == expected


def test_bound_members_count_for_a_start() -> None:
    async def history(stage: Stage) -> None:
        gang(stage, 3)
        host = await stage.leader()
        host.decide(a_0="n1", a_1="n1", a_2="n2")
        await host.bind("a-0", "n1")
        await host.receive()
        host.decide(a_1="n1", a_2="n2")

    assert violations(history, WholeGangs) == []


@pytest.mark.parametrize(("started", "expected"), [(["a_2"], ["S3"]), (["a_2", "a_3"], [])])
def test_a_gang_that_runs_below_its_minimum_starts_all_that_exist(
    started: list[str], expected: list[str]
) -> None:
    """Two of six members run, two others wait, and two do not exist."""

    async def history(stage: Stage) -> None:
        gang(stage, 4, min_member=2)
        host = await stage.leader()
        await host.receive()
        host.decide(a_0="n1", a_1="n1")
        for name in ("a-0", "a-1"):
            await host.bind(name, "n1")
        stage.change("g", "podgroups.scheduling.phalanx.dev", minMember=6)
        await host.receive()
        await stage.pass_time(4)
        host.decide(**dict.fromkeys(started, "n1"))

    assert violations(history, WholeGangs) == expected


@pytest.mark.parametrize(("ago_s", "expected"), [(1, []), (4, ["S3"])])
def test_a_bound_member_that_was_just_deleted_counts_for_a_start(ago_s: float, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        gang(stage, 3)
        host = await stage.leader()
        host.decide(a_0="n1", a_1="n1", a_2="n2")
        await host.bind("a-2", "n2")
        await lose(stage, host, "a-2", ago_s)
        host.decide(a_0="n1", a_1="n1")

    assert violations(history, WholeGangs) == expected


@pytest.mark.parametrize(("ago_s", "expected"), [(1, []), (4, ["S3"])])
def test_a_pod_that_moved_into_the_gang_and_was_just_deleted_counts_for_a_start(
    ago_s: float, expected: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        gang(stage, 2)
        stage.create(pod_group("h", min_member=1), owned("b", "h"))
        host = await stage.leader()
        host.place({"b": "n2"}, gang=stage.uid("h", "podgroups.scheduling.phalanx.dev"))
        await host.bind("b", "n2")
        stage.client.update(stage.key("b"), into("g"))
        await lose(stage, host, "b", ago_s)
        host.decide(a_0="n1", a_1="n1")

    assert violations(history, WholeGangs) == expected


def test_a_member_that_left_the_gang_earlier_does_not_count_for_a_start() -> None:
    async def history(stage: Stage) -> None:
        gang(stage, 3)
        host = await stage.leader()
        host.decide(a_0="n1", a_1="n1", a_2="n2")
        await host.bind("a-2", "n2")
        stage.client.update(stage.key("a-2"), into("h"))
        await host.receive()
        await stage.pass_time(60.0)
        stage.delete("a-2")
        host.decide(a_0="n1", a_1="n1")

    assert violations(history, WholeGangs) == ["S3"]


@pytest.mark.parametrize(("phase", "expected"), [("Succeeded", []), ("Failed", ["S3"])])
def test_a_member_that_succeeded_counts_for_a_start_when_it_is_gone(phase: str, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        gang(stage, 3)
        host = await stage.leader()
        host.decide(a_0="n1", a_1="n1", a_2="n2")
        await host.bind("a-2", "n2")
        stage.status("a-2", phase=phase)
        await lose(stage, host, "a-2", 60.0)
        host.decide(a_0="n1", a_1="n1")

    assert violations(history, WholeGangs) == expected


async def lose(stage: Stage, host: Actor, name: str, ago_s: float) -> None:
    """Delete a pod that the host has received; the host receives the deletion `ago_s` before the return."""
    await host.receive()
    await stage.pass_time(4.0)
    stage.delete(name)
    await host.receive()
    await stage.pass_time(ago_s)


def into(group: str) -> Callable[[Object], Object]:
    """A function that moves a pod into this PodGroup."""

    def moved(pod: Object) -> Object:
        meta = pod["metadata"]
        return {**pod, "metadata": {**meta, "labels": {**meta["labels"], LABEL_POD_GROUP: group}}}

    return moved


def test_an_increased_min_member_counts_once_it_is_received() -> None:
    async def history(stage: Stage) -> None:
        gang(stage, 3, min_member=2)
        host = await stage.leader()
        await stage.pass_time(3.0)
        stage.change("g", "podgroups.scheduling.phalanx.dev", minMember=3)
        host.decide(a_0="n1", a_1="n1")
        await host.receive()
        await stage.pass_time(3.0)
        host.decide(a_0="n1", a_1="n1")

    assert violations(history, WholeGangs) == ["S3"]


@pytest.mark.parametrize(("held", "expected"), [(2, []), (1, ["S3"])])
def test_members_with_a_capacity_hold_count_for_a_gang_that_reserves(held: int, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        role = {"name": "worker", "count": 3, "requests": {"cpu": 1}}
        group = pod_group("g", min_member=3, startWhen="Reserved", roles=[role])
        stage.create(node("n1"), node("n2"), group, owned("a-0"))
        host = await stage.leader()
        host.place({"a-0": "n1"}, held=held)
        await host.bind("a-0", "n1")
        await stage.pass_time(120)

    assert violations(history, WholeGangs) == expected


def with_subgroups(stage: Stage, **spec: object) -> None:
    """Subgroups a, b and c of two members each."""
    parts = [{"name": name, "minMember": 2} for name in "abc"]
    stage.create(node("n1"), node("n2"), pod_group("g", min_member=4, subGroups=parts, **spec))
    for name in ("a_0", "a_1", "b_0", "b_1", "c_0", "c_1"):
        made = owned(name.replace("_", "-"))
        made["metadata"]["labels"]["scheduling.phalanx.dev/subgroup"] = name[0]  # type: ignore[index]
        stage.create(made)


@pytest.mark.parametrize(
    ("spec", "decided", "expected"),
    [
        ({}, ("a_0", "a_1", "b_0", "b_1"), ["S3"]),
        ({"minSubGroups": 2}, ("a_0", "a_1", "b_0", "b_1"), []),
        ({"minSubGroups": 2}, ("a_0", "a_1", "b_0", "c_0"), ["S3"]),
        ({"minSubGroups": 1}, ("a_0", "a_1"), ["S3"]),
        ({"minSubGroups": 1}, ("a_0", "a_1", "b_0"), ["S3"]),
        ({"minSubGroups": 3}, ("a_0", "a_1", "b_0", "b_1", "c_0", "c_1"), []),
    ],
)
def test_a_start_without_enough_complete_subgroups_violates(
    spec: dict[str, object], decided: tuple[str, ...], expected: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        with_subgroups(stage, **spec)
        host = await stage.leader()
        host.decide(**dict.fromkeys(decided, "n1"))

    assert sorted({*violations(history, WholeGangs)}) == expected


@pytest.mark.parametrize(("later", "expected"), [(("c-0", "c-1"), []), (("c-0",), ["S3"])])
def test_a_later_subgroup_that_starts_below_its_minimum_violates(
    later: tuple[str, ...], expected: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        with_subgroups(stage, minSubGroups=2)
        host = await stage.leader()
        host.decide(a_0="n1", a_1="n1", b_0="n1", b_1="n1")
        for name in ("a-0", "a-1", "b-0", "b-1"):
            await host.bind(name, "n1")
        await host.receive()
        host.place(dict.fromkeys(later, "n2"), cause="surplus")

    assert sorted({*violations(history, WholeGangs)}) == expected


async def bound_in_part(stage: Stage) -> Actor:
    """Bind one of three members; the leader is undisturbed."""
    gang(stage, 3)
    host = await stage.leader()
    await stage.pass_time(40)
    host.decide(a_0="n1", a_1="n1", a_2="n2")
    await host.bind("a-0", "n1")
    return host


@pytest.mark.parametrize(("pause_s", "expected"), [(12, []), (45, ["S3"])])
def test_a_gang_that_is_partly_bound_for_long_violates(pause_s: float, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        await bound_in_part(stage)
        await stage.pass_time(pause_s)

    assert violations(history, WholeGangs) == expected


@pytest.mark.parametrize(("times", "expected"), [(2, []), (6, ["S3"])], ids=["in-time", "too-long"])
def test_refused_writes_extend_the_limit_only_once(times: int, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        host = await bound_in_part(stage)
        for _ in range(times):
            stale = {"metadata": {"resourceVersion": "1", "uid": stage.uid("a-1")}}
            assert await host.request("PATCH", POD_STATUS, stale) == 409
            assert await host.request("PATCH", GROUP_STATUS, {"metadata": {"resourceVersion": "1"}}) == 409
            await stage.pass_time(10)

    assert violations(history, WholeGangs) == expected


def test_a_partition_of_the_leader_extends_the_limit() -> None:
    async def history(stage: Stage) -> None:
        host = await bound_in_part(stage)
        host.network.partition()
        await stage.pass_time(40)
        host.network.heal()
        await stage.pass_time(30)

    assert violations(history, WholeGangs) == []


@pytest.mark.parametrize(("selected", "expected"), [(True, []), (False, ["S3"])])
def test_a_gang_may_be_partly_bound_while_a_volume_is_provisioned(
    selected: bool, expected: list[str]
) -> None:
    """A member that was created again got a node, and its claim has no volume yet."""

    async def history(stage: Stage) -> None:
        mounted = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
        waiting = owned("a-1")
        waiting["spec"] = {**dict(waiting["spec"]), "volumes": [mounted]}  # type: ignore[call-overload]
        stage.create(node("n1"), pod_group("g", min_member=2), owned("a-0"), waiting)
        meta = {"name": "c", "annotations": {SELECTED_NODE: "n1"} if selected else {}}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": {}}
        stage.client.create(CLAIMS, "default", claim)
        host = await stage.leader()
        host.decide(a_0="n1", a_1="n1")
        await host.bind("a-0", "n1")
        await stage.pass_time(90)

    assert violations(history, WholeGangs) == expected


def test_a_partly_bound_gang_without_a_controller_does_not_violate() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod_group("g", min_member=2), pod("a", group="g"), pod("b", group="g"))
        host = await stage.leader()
        host.decide(a="n1", b="n1")
        await host.bind("a", "n1")
        await stage.pass_time(120)

    assert violations(history, WholeGangs) == []


def test_a_started_gang_does_not_count_as_partly_bound() -> None:
    async def history(stage: Stage) -> None:
        gang(stage, 2, min_member=2)
        host = await stage.leader()
        host.decide(a_0="n1", a_1="n1")
        await host.bind("a-0", "n1")
        await host.bind("a-1", "n1")
        stage.delete("a-1")
        await stage.pass_time(120)

    assert violations(history, WholeGangs) == []


def blocks(stage: Stage, **spec: object) -> None:
    stage.create(node("n1", labels={BLOCK: "b1"}), node("n2", labels={BLOCK: "b2"}), node("n3"))
    stage.create(pod_group("g", min_member=2, **spec), pod("a", group="g"), pod("b", group="g"))


@pytest.mark.parametrize(("level", "expected"), [("required", ["S5"]), ("preferred", [])])
def test_members_in_two_domains_of_a_required_level_violate(level: str, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        blocks(stage, topology={level: "block"})
        host = await stage.leader()
        await host.bind("a", "n1")
        await host.bind("b", "n2")

    assert violations(history, OneDomain) == expected


def test_a_failed_member_does_not_fix_the_domain() -> None:
    async def history(stage: Stage) -> None:
        blocks(stage, topology={"required": "block"})
        host = await stage.leader()
        await host.bind("a", "n1")
        stage.status("a", phase="Failed")
        await host.bind("b", "n2")

    assert violations(history, OneDomain) == []


def test_a_node_label_that_the_sender_does_not_know_does_not_violate() -> None:
    async def history(stage: Stage) -> None:
        blocks(stage, topology={"required": "block"})
        host = await stage.leader()
        await host.bind("a", "n1")
        for name, block in (("n1", "b3"), ("n2", "b1")):
            stage.client.update(
                stage.key(name, "nodes"),
                lambda it, block=block: {**it, "metadata": {**it["metadata"], "labels": {BLOCK: block}}},
            )
        await host.bind("b", "n1")

    assert violations(history, OneDomain) == []


@pytest.mark.parametrize(("before_s", "expected"), [(0.0, []), (60.0, ["S5"])])
def test_a_pod_that_has_just_moved_into_the_gang_does_not_fix_the_domain(
    before_s: float, expected: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        blocks(stage, topology={"required": "block"})
        stage.create(pod("c", group="h"))
        host = await stage.leader()
        await host.bind("c", "n1")
        stage.client.update(
            stage.key("c"),
            lambda it: {**it, "metadata": {**it["metadata"], "labels": {LABEL_POD_GROUP: "g"}}},
        )
        await host.receive("pods", "nodes", "podgroups")
        await stage.pass_time(before_s)
        await host.bind("a", "n2")

    assert violations(history, OneDomain) == expected


def test_a_placement_with_a_pod_of_another_gang_violates() -> None:
    async def history(stage: Stage) -> None:
        stage.create(pod_group("g", min_member=1), pod_group("h", min_member=1), pod("a", group="h"))
        host = await stage.leader()
        host.place({"a": "n1"}, gang=stage.uid("g", "podgroups.scheduling.phalanx.dev"))
        host.place({"a": "n1"}, gang=stage.uid("h", "podgroups.scheduling.phalanx.dev"))

    assert violations(history, OwnMembersOnly) == ["S10"]


def test_a_placement_with_a_pod_of_another_owner_violates() -> None:
    async def history(stage: Stage) -> None:
        group = pod_group("g", min_member=1)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "job-uid", "controller": True}
        group["metadata"]["ownerReferences"] = [owner]
        stage.create(group, owned("a", uid="job-uid"), owned("b", uid="another-uid"))
        host = await stage.leader()
        uid = stage.uid("g", "podgroups.scheduling.phalanx.dev")
        host.place({"a": "n1"}, gang=uid)
        host.place({"b": "n1"}, gang=uid)

    assert violations(history, OwnMembersOnly) == ["S10"]
