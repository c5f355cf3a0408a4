"""S30 reports binds that no stored record counts, wherever the gang has its record."""

import pytest
from phalanx_simulator.embedded.manifests import job, node, pod, pod_group
from phalanx_simulator.embedded.store import Object
from phalanx_simulator.invariants.records import BindsAreRecorded

from tests.sim_invariants.stage import Stage, violations
from tests.sim_invariants.test_gangs import into

COLLECTION = "/api/v1/namespaces/kube-system/configmaps"
GROUPS = "podgroups.scheduling.phalanx.dev"


def in_config_map(gang: str, bound: int) -> Object:
    text = f'{{"requests":[{{"cpu":1000}}],"gangs":{{"{gang}":[5,0,[["","",0,{bound},3]]]}}}}'
    data = {"_about": '{"format":1}', "default": text}
    return {"metadata": {"name": "phalanx-records"}, "data": data}


def of_group(name: str) -> Object:
    return pod(name, group="g")


def of_job(stage: Stage, name: str, **labels: str) -> Object:
    made = pod(name)
    job_uid = stage.uid("j", "jobs.batch")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": job_uid, "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    made["metadata"]["labels"] = labels
    return made


async def bind_all(stage: Stage, *names: str) -> None:
    for name in names:
        assert await stage.hosts[0].bind(name, "n1") == 201


@pytest.mark.parametrize(("recorded", "expected"), [(0, ["S30"] * 2), (1, ["S30"]), (2, []), (3, [])])
def test_binds_of_a_pod_group_need_a_record_in_its_status(recorded: int, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod_group("g", min_member=2), of_group("a"), of_group("b"))
        await stage.leader()
        if recorded:
            placed = [{"requests": {"cpu": "1"}, "bound": recorded}]
            stage.status("g", GROUPS, record={"placed": placed})
        await bind_all(stage, "a", "b")

    assert violations(history, BindsAreRecorded) == expected


@pytest.mark.parametrize(("recorded", "expected"), [(0, ["S30"] * 2), (1, ["S30"]), (2, [])])
@pytest.mark.parametrize("labels", [{}, {"scheduling.phalanx.dev/min-member": "2"}])
def test_binds_of_other_gangs_need_an_entry_of_the_config_map(
    recorded: int, expected: list[str], labels: dict[str, str]
) -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), job("j", members=2))
        stage.create(of_job(stage, "a", **labels), of_job(stage, "b", **labels))
        host = await stage.leader()
        uid = stage.uid("j", "jobs.batch")
        gang = f"default/{uid}" if labels else f"Job.batch:default/{uid}"
        if recorded:
            assert await host.request("POST", COLLECTION, in_config_map(gang, recorded)) == 201
        await bind_all(stage, "a", "b")

    assert violations(history, BindsAreRecorded) == expected


def test_pods_of_nothing_need_no_record() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"), pod("b"))
        await stage.leader()
        await bind_all(stage, "a", "b")

    assert violations(history, BindsAreRecorded) == []


def test_members_that_have_left_are_not_counted() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod_group("g", min_member=2), of_group("a"), of_group("b"), of_group("c"))
        await stage.leader()
        placed = [{"requests": {"cpu": "1"}, "bound": 2}]
        stage.status("g", GROUPS, record={"placed": placed})
        await bind_all(stage, "a", "b")
        stage.delete("a")
        await bind_all(stage, "c")

    assert violations(history, BindsAreRecorded) == []


def test_a_pod_that_was_moved_away_and_back_need_not_be_recorded() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod_group("g", min_member=1), of_group("a"), of_group("b"))
        await stage.leader()
        stage.status("g", GROUPS, record={"placed": [{"requests": {"cpu": "1"}, "bound": 1}]})
        await bind_all(stage, "a")
        for group in ("other", "g"):
            stage.client.update(stage.key("a"), into(group))
        await bind_all(stage, "b")

    assert violations(history, BindsAreRecorded) == []


def test_a_new_pod_group_begins_a_new_record() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod_group("g", min_member=2), of_group("a"), of_group("b"), of_group("c"))
        await stage.leader()
        stage.status("g", GROUPS, record={"placed": [{"requests": {"cpu": "1"}, "bound": 2}]})
        await bind_all(stage, "a", "b")
        stage.delete("g", GROUPS)
        stage.create(pod_group("g", min_member=1))
        stage.status("g", GROUPS, record={"placed": [{"requests": {"cpu": "1"}, "bound": 1}]})
        await bind_all(stage, "c")

    assert violations(history, BindsAreRecorded) == []
