"""A gang whose waiting members have more shapes than are supported waits, and the verdict names the bound.

The property is written from docs/limits.md: pods of one shape have equal requests and constraints, and only
members that wait count.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.cycle import decide
from phalanx.framework.config import SchedulerConfig
from phalanx.limits import GANG_SHAPES_MAX
from phalanx.model.api import core
from phalanx.model.conversion import gang_problems
from phalanx.model.gangs import Gang
from phalanx.model.reasons import Reason

from tests.cache.world import new_cache, only_gang, take_snapshot
from tests.call_counts import counted
from tests.examples import holds
from tests.model.written import label, node, pod, pod_group


def member(number: int, cpu: int = 0, **rest: object) -> core.Pod:
    """Member `number` of gang g, which requests so many thousandths of a core."""
    fields: dict[str, object] = {"requests": {"cpu": f"{cpu}m"} if cpu else {}, **rest}
    return pod(f"p{number}", labels={label("pod-group"): "g"}, **fields)  # type: ignore[arg-type]


def gang(*members: core.Pod) -> Gang:
    return only_gang(pod_group(minMember=len(members)), *members)


def of_distinct_requests(count: int, least: int = 1) -> list[core.Pod]:
    return [member(number, cpu=least + number) for number in range(count)]


def test_more_shapes_than_are_supported_are_refused_with_the_bound() -> None:
    assert not gang(*of_distinct_requests(GANG_SHAPES_MAX)).problems
    (problem,) = gang(*of_distinct_requests(GANG_SHAPES_MAX + 1)).problems
    assert problem.reason is Reason.INVALID_OBJECT
    assert "1001 shapes, at most 1000 are supported" in problem.message
    assert problem.next_step


members = st.lists(
    st.tuples(
        st.integers(1, 6),
        st.sampled_from(["", "a", "b"]),
        st.sampled_from(["waits", "runs", "ended"]),
    ),
    min_size=1,
    max_size=9,
)


@holds(60)
@given(members=members, most=st.integers(1, 8))
def test_only_shapes_of_waiting_members_count(members: list[tuple[int, str, str]], most: int) -> None:
    written = [
        member(
            number,
            cpu=cpu,
            **({"nodeSelector": {"pool": pool}} if pool else {}),
            **({} if state == "waits" else {"nodeName": "n"}),
            status={"phase": {"waits": "Pending", "runs": "Running", "ended": "Succeeded"}[state]},
        )
        for number, (cpu, pool, state) in enumerate(members)
    ]
    waiting = {(cpu, pool) for cpu, pool, state in members if state == "waits"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gang_problems, "GANG_SHAPES_MAX", most)
        found = [problem for problem in gang(*written).problems if "shapes" in problem.message]
    assert [problem.message.partition(" shapes")[0].split()[-1] for problem in found] == (
        [str(len(waiting))] if len(waiting) > most else []
    )


def test_a_refused_gang_is_not_compared_with_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its start nor the fair share of its queue asks which nodes could take its members."""
    monkeypatch.setattr(gang_problems, "GANG_SHAPES_MAX", 5)

    def work(size: int, nodes: int) -> int:
        cache = new_cache(
            *(node(f"n{number}") for number in range(nodes)),
            pod_group(minMember=size),
            *of_distinct_requests(size, least=9000),
        )
        snapshot = take_snapshot(cache)
        decide(snapshot, SchedulerConfig())  # imports plugins
        return counted(lambda: decide(snapshot, SchedulerConfig()))

    more_nodes = [work(size, 40) - work(size, 20) for size in (6, 60)]
    assert more_nodes[1] < 2 * more_nodes[0]
