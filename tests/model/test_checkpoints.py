"""The annotation with the time of the last checkpoint, on pods and PodGroups, with any content."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.cache.events import Applied
from phalanx.model.api.pod_groups import PodGroup
from phalanx.model.conversion.metadata import read_checkpoint
from phalanx.model.names import ANNOTATION_LAST_CHECKPOINT

from tests.cache.world import new_cache, take_snapshot
from tests.model.written import pod, written

AT = "2026-11-01T10:00:00Z"
SECONDS = int(datetime(2026, 11, 1, 10, tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (AT, SECONDS),
        ("2026-11-01T12:00:00.5+02:00", SECONDS),
        ("9999-12-31T23:59:59Z", 253402300799),
    ],
)
def test_the_time_of_the_last_checkpoint_is_read(text: str, expected: int) -> None:
    assert read_checkpoint({ANNOTATION_LAST_CHECKPOINT: text}) == (expected, "")


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-11-01", "2026-11-01T10:00:00", "1793527200", "x" * 9999]
)
def test_an_invalid_time_is_reported_and_ignored(text: str) -> None:
    at, fault = read_checkpoint({ANNOTATION_LAST_CHECKPOINT: text})
    assert at == 0
    assert fault.startswith(f"metadata.annotations[{ANNOTATION_LAST_CHECKPOINT}]: ")
    assert len(fault) < 300


@given(st.text())
def test_any_text_is_read_without_an_exception(text: str) -> None:
    at, fault = read_checkpoint({ANNOTATION_LAST_CHECKPOINT: text})
    assert at >= 0
    assert not (at and fault)


def test_checkpoints_of_a_group_and_its_members_do_not_trigger_a_cycle() -> None:
    note = {ANNOTATION_LAST_CHECKPOINT: AT}
    group = {"metadata": {"name": "g", "namespace": "team", "uid": "G"}, "spec": {"minMember": 1}}
    labels = {"scheduling.phalanx.dev/pod-group": "g"}
    runs = {"nodeName": "n1", "status": {"phase": "Running"}}
    cache = new_cache(written(PodGroup, group), pod(labels=labels, **runs))
    group["metadata"]["annotations"] = note
    assert not cache.apply(Applied(written(PodGroup, group))).may_unblock
    bad = {"annotations": {ANNOTATION_LAST_CHECKPOINT: "yesterday"}}
    assert not cache.apply(Applied(pod(labels=labels, meta=bad, **runs))).may_unblock
    (gang,) = take_snapshot(cache).gangs.values()
    assert (gang.checkpointed, gang.members[0].checkpointed) == (SECONDS, 0)
    path = f"metadata.annotations[{ANNOTATION_LAST_CHECKPOINT}]"
    assert gang.ignored == (f"pod p: {path}: 'yesterday' is not a time such as 2026-11-01T10:00:00Z",)
    assert gang.problems == ()
