"""Pods that Kueue admits together and that no controller makes: the rule of docs/dialects/kueue.md."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from phalanx.model.gangs import GangKind

from tests.examples import holds
from tests.model.gangs_of_workloads import gangs_of
from tests.model.written import controlled_by, label, pod, pod_group

GROUP = "kueue.x-k8s.io/pod-group-name"
COUNT = "kueue.x-k8s.io/pod-group-total-count"

pods = st.fixed_dictionaries(
    {
        "group": st.sampled_from(["", "a", "b"]),
        "count": st.sampled_from([None, "2", "3", "0", "many"]),
        "owned": st.booleans(),
        "own": st.sampled_from(["", "pod-group", "min-member"]),
    }
)


def written(index: int, each: dict[str, Any]) -> Any:
    labels = {GROUP: each["group"]} if each["group"] else {}
    labels |= {label(each["own"]): "2" if each["own"] == "min-member" else "g"} if each["own"] else {}
    meta = controlled_by("wf", kind="Workflow", api_version="argoproj.io/v1alpha1") if each["owned"] else {}
    annotations = {COUNT: each["count"]} if each["count"] else {}
    return pod(f"p{index}", labels=labels, meta={**meta, "annotations": annotations})


@holds(200)
@given(st.lists(pods, min_size=1, max_size=6))
def test_a_group_of_kueue_is_a_gang_of_as_many_pods_as_it_says(some: list[dict[str, Any]]) -> None:
    """The labels of Phalanx go before it, and so does a controller. A wrong number counts nothing."""
    expected: dict[str, set[str]] = {}
    for index, each in enumerate(some):
        if each["group"] and each["count"] in ("2", "3") and not each["owned"] and not each["own"]:
            expected.setdefault(each["group"], set()).add(f"p{index}")
    found = gangs_of(pod_group("g"), *[written(index, each) for index, each in enumerate(some)])
    members = {gang.name: gang for gang in found if gang.kind is GangKind.LABEL and gang.name != "wf"}
    assert {name: {pod.name for pod in gang.members} for name, gang in members.items()} == expected
    for name, gang in members.items():
        counts = {some[int(pod.name[1:])]["count"] for pod in gang.members}
        assert gang.min_member == max(map(int, counts)), name
        assert bool(gang.problems) == (len(counts) > 1)
