"""Which gangs wait without pods while their workload is suspended, and as what."""

import pytest
from msgspec.structs import replace
from phalanx.model.api import core
from phalanx.model.api.meta import ObjectMeta, OwnerReference
from phalanx.model.api.pod_groups import PodGroupSpec
from phalanx.model.awaited_pods import (
    AwaitedMembers,
    awaited_pods,
    is_awaited,
    template_of,
    workload_of_awaited,
)
from phalanx.model.conversion.partial_admission import PartialAdmission
from phalanx.model.conversion.pod_groups import PodGroup
from phalanx.model.conversion.workload_members import Workload, WorkloadRole
from phalanx.model.gangs import Gang
from phalanx.model.names import PodUid, ShapeKey
from phalanx.model.pods import Pod, PodClaim, PodPhase
from phalanx.service.awaited_gangs import kinds_of_members

from tests.builders import Scenario

ROLE = WorkloadRole("", 1, 4)
PARTIAL = PartialAdmission(minimum=2, parallelism=4, pods=4)


def gang(*members: Pod) -> Gang:
    made = next(iter(Scenario().gang("a", 4, cpu=1).snapshot().gangs.values()))
    return replace(made, members=members or made.members)


def workload(role: WorkloadRole, partial: PartialAdmission | None = None) -> Workload:
    group = PodGroup(uid="u", namespace="team", name="a", created=1, spec=PodGroupSpec(min_member=4))
    return Workload(kind="Job.batch", group=group, roles=(role,), partial=partial)


def of_kinds(count: int) -> list[Pod]:
    first = gang().members[0]
    shape = first.shape
    return [
        replace(first, uid=PodUid(str(index)), shape=replace(shape, key=ShapeKey(str(index))))
        for index in range(count)
    ]


@pytest.mark.parametrize(
    ("role", "partial", "waits"),
    [
        (ROLE, None, True),
        (replace(ROLE, least=2), None, False),
        (replace(ROLE, least=2), PARTIAL, True),
        (replace(ROLE, exists=False), None, False),
        (replace(ROLE, one_first=True), None, False),
    ],
    ids=["all at once", "elastic", "partial admission", "later", "one first"],
)
def test_pods_are_awaited_if_all_come_at_once(
    role: WorkloadRole, partial: PartialAdmission | None, waits: bool
) -> None:
    assert [len(kind) for kind in kinds_of_members(gang(), workload(role, partial))] == ([4] if waits else [])


def test_pods_of_a_group_without_a_known_workload_are_awaited() -> None:
    assert [len(kind) for kind in kinds_of_members(gang(), None)] == [4]


def test_a_gang_of_many_kinds_is_not_awaited() -> None:
    assert len(kinds_of_members(gang(*of_kinds(16)), None)) == 16
    assert kinds_of_members(gang(*of_kinds(17)), None) == []


def test_a_gang_with_claims_to_devices_is_not_awaited() -> None:
    first, *others = gang().members
    claiming = replace(first, device_claims=(PodClaim("gpu", "gpu-a"),))
    assert kinds_of_members(gang(claiming, *others), None) == []


def test_pods_that_have_ended_are_not_awaited() -> None:
    first, second, *others = gang().members
    gone = (replace(first, phase=PodPhase.SUCCEEDED), replace(second, deleting=True))
    assert [len(kind) for kind in kinds_of_members(gang(*gone, *others), None)] == [2]


def written(**labels: str) -> core.Pod:
    owner = OwnerReference("Job", "a", "u", controller=True, api_version="batch/v1")
    meta = ObjectMeta(name="a-0-x", namespace="team", uid="p", labels=labels, owner_references=(owner,))
    return core.Pod(meta, core.PodSpec(scheduler_name="phalanx", node_name="n1"), core.PodStatus("Running"))


def test_an_awaited_pod_is_the_old_one_without_what_was_its_own() -> None:
    index = "batch.kubernetes.io/job-completion-index"
    template = template_of(written(team="a", **{index: "3"}), None)
    assert (template.metadata.labels, template.spec.node_name) == ({"team": "a"}, "")
    assert (template.status, template.metadata.uid) == (core.PodStatus(), "")
    first, second = awaited_pods([AwaitedMembers(2, template)], workload="u", name="a", created="now")
    assert {pod.metadata.name for pod in (first, second)} == {"a:0", "a:1"}
    assert first.metadata.owner_references == written().metadata.owner_references
    assert is_awaited(first.metadata.uid)
    assert workload_of_awaited(second.metadata.uid) == "u"
    assert not is_awaited("8f2d6b1c-0000-4000-8000-000000000000")


def test_it_belongs_to_the_workload_if_what_is_between_is_made_again() -> None:
    owner = OwnerReference("RayJob", "a", "r", controller=True, api_version="ray.io/v1")
    assert template_of(written(), owner).metadata.owner_references == (owner,)


def test_an_awaited_pod_has_no_name_that_a_pod_can_have() -> None:
    """The API server refuses a colon."""
    (pod,) = awaited_pods([AwaitedMembers(1, written())], workload="u", name="a", created="now")
    assert ":" in pod.metadata.name
