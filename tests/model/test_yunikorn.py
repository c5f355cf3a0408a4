"""Task groups of YuniKorn are refused by name, unless a PodGroup takes their place."""

import pytest
from phalanx.model.conversion.pods import read_pod
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.reasons import Objection, Reason

from tests.model.written import label, pod

GROUPS, GROUP = "yunikorn.apache.org/task-groups", "yunikorn.apache.org/task-group-name"


def problems(annotations: dict[str, str], labels: dict[str, str], owner: str = "") -> tuple[Objection, ...]:
    written = pod("a", owner=owner, labels=labels, meta={"annotations": annotations})
    return read_pod(written, shapes=ShapeCache(), classes={}).problems


@pytest.mark.parametrize(
    ("annotations", "named"),
    [({GROUPS: "[]", GROUP: "driver"}, GROUPS), ({GROUP: "executor"}, GROUP)],
)
def test_the_annotation_is_named_once(annotations: dict[str, str], named: str) -> None:
    (problem,) = problems(annotations, {})
    assert problem.reason is Reason.UNSUPPORTED_FIELD
    assert named in problem.message


@pytest.mark.parametrize(
    ("labels", "owner"), [({label("pod-group"): "g"}, ""), ({label("min-member"): "2"}, "job")]
)
def test_it_means_nothing_in_a_gang_of_phalanx(labels: dict[str, str], owner: str) -> None:
    assert problems({GROUPS: "[]", GROUP: "driver"}, labels, owner) == ()


def test_a_pod_without_task_groups_has_no_problem() -> None:
    assert problems({"yunikorn.apache.org/app-id": "a", GROUPS: ""}, {}) == ()
