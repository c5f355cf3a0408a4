"""Pods with the label `min-member` whose owner Phalanx does not read: those of earlier steps do not count."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from phalanx.model.api.core import Pod

from tests.examples import holds
from tests.model.gangs_of_workloads import gangs_of
from tests.model.written import controlled_by, label, pod

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Seen(NamedTuple):
    """A pod: the hour of its creation, and that of its success if it has succeeded."""

    created: int
    succeeded: int | None


def at(hour: int) -> str:
    return (BEGIN + timedelta(hours=hour)).strftime("%Y-%m-%dT%H:%M:%SZ")


def written(index: int, seen: Seen, *, kind: str, version: str, **more: str) -> Pod:
    meta = {**controlled_by("o", kind=kind, api_version=version), "creationTimestamp": at(seen.created)}
    status: dict[str, Any] = {"phase": "Pending"}
    if seen.succeeded is not None:
        times = {"exitCode": 0, "startedAt": at(seen.created), "finishedAt": at(seen.succeeded)}
        ended = [{"name": "main", "state": {"terminated": times}}]
        status = {"phase": "Succeeded", "startTime": at(seen.created), "containerStatuses": ended}
    return pod(f"p{index}", labels={label("min-member"): "2", **more}, meta=meta, status=status)


pods = st.tuples(st.integers(0, 9), st.none() | st.integers(0, 5)).map(
    lambda each: Seen(each[0], None if each[1] is None else each[0] + each[1])
)


@holds(150)
@given(st.lists(pods, min_size=1, max_size=6))
def test_what_had_succeeded_before_all_others_were_created_is_no_member(seen: list[Seen]) -> None:
    found = gangs_of(
        *[written(i, each, kind="Workflow", version="argoproj.io/v1alpha1") for i, each in enumerate(seen)]
    )
    open_ones = [each for each in seen if each.succeeded is None]
    expected = set()
    for index, each in enumerate(seen):
        if each.succeeded is None or any(other.created < each.succeeded for other in open_ones):
            expected.add(f"p{index}")
    members = [{member.name for member in gang.members} for gang in found if gang.name == "o"]
    if open_ones:
        assert members == [expected]
    assert sum(len(gang.members) for gang in found) == len(seen), "each pod is in one gang"


def test_successes_count_where_the_owner_says_how_many_there_must_be() -> None:
    seen = [Seen(0, 1), Seen(2, None)]
    (gang,) = gangs_of(*[written(i, each, kind="Job", version="batch/v1") for i, each in enumerate(seen)])
    assert len(gang.members) == 2
