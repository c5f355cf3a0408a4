"""The label `gang` on pods: they are a gang of an object that says how many they are, or they wait."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from phalanx.model.gangs import GangKind
from phalanx.model.reasons import Reason

from tests.examples import holds
from tests.model.gangs_of_workloads import gangs_of
from tests.model.written import controlled_by, job, label, pod, workload

TEMPLATE = {"spec": {"schedulerName": "phalanx"}}
SPARK = {"kind": "SparkApplication", "api_version": "sparkoperator.k8s.io/v1beta2"}
OWNERS: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing": ({}, False),
    "an owner that is no controller": (
        {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j"}]},
        False,
    ),
    "a kind that is not read": (
        controlled_by("set", kind="CloneSet", api_version="apps.kruise.io/v1"),
        False,
    ),
    "a pod of nothing": (controlled_by("driver", kind="Pod", api_version="v1", uid="uid-team-driver"), False),
    "a pod of a Job": (controlled_by("in-job", kind="Pod", api_version="v1", uid="uid-team-in-job"), False),
    "a driver": (controlled_by("of-app", kind="Pod", api_version="v1", uid="uid-team-of-app"), True),
    "a Job": (controlled_by("j"), True),
    "a StatefulSet": (controlled_by("db", kind="StatefulSet", api_version="apps/v1"), True),
}
"""What owns the pods, and whether an object says how many there are."""

ABOVE = [
    pod("driver"),
    pod("in-job", meta=controlled_by("j")),
    pod("of-app", labels={"spark-role": "driver"}, meta=controlled_by("app", **SPARK)),
    job("j", parallelism=2, completions=2),
    workload("StatefulSet.apps", "db", replicas=2, template=TEMPLATE),
    workload("SparkApplication.sparkoperator.k8s.io", "app", driver={}, executor={"instances": 2}),
]


@holds(100)
@given(
    owner=st.sampled_from(sorted(OWNERS)),
    count=st.integers(1, 3),
    asks=st.sampled_from(["true", "false", None]),
    is_counted=st.booleans(),
)
def test_pods_that_nobody_counts_do_not_start_as_a_gang(
    owner: str, count: int, asks: str | None, is_counted: bool
) -> None:
    meta, says_how_many = OWNERS[owner]
    labels = {"spark-role": "executor"} | ({label("gang"): asks} if asks else {})
    labels |= {label("min-member"): "2"} if is_counted else {}
    pods = [pod(f"p{index}", labels=labels, meta=meta) for index in range(count)]
    found = gangs_of(*ABOVE, *pods)
    of_pods = [gang for gang in found if any(member.name.startswith("p") for member in gang.members)]
    for gang in of_pods:
        reasons = {problem.reason for problem in gang.problems}
        if asks == "true" and not says_how_many and not is_counted:
            assert reasons == {Reason.INCONSISTENT_GANG}
        elif is_counted and owner in ("nothing", "an owner that is no controller"):
            assert reasons == {Reason.INCONSISTENT_GANG}, "the label min-member needs a controller"
        else:
            assert reasons == set()
            assert gang.kind is not GangKind.POD or asks != "true"
