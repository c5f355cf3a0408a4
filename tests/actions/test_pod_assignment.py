"""Assignment of pods with a group index: each leader is placed as near to its workers as possible."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.actions.problems.pod_assignment import Role, in_rank_order
from phalanx.model.names import NodeName, PodUid
from phalanx.model.pods import GROUP_INDEX_STRIDE, Pod, PodShape

from tests.solver.problems import bounded

RACKS = ("a1", "a2", "b1", "b2", "b3")
PATHS = {NodeName(rack): (rack[0], rack) for rack in RACKS}


def pods(role: str, parts: list[int], inside: int) -> list[Pod]:
    """One pod of each of these groups."""
    return [
        Pod(
            uid=PodUid(f"{role}-{part}-{inside}"),
            namespace="team",
            name=f"{role}-{part}",
            shape=PodShape(key=role, requests={}),  # type: ignore[arg-type]
            scheduler_name="phalanx",
            created=0,
            index=part * GROUP_INDEX_STRIDE + inside,
        )
        for part in parts
    ]


def closeness(leaders: list[Pod], nodes: list[str], workers: list[str]) -> list[int]:
    """How many leaders are on the node (rack) of their worker, and how many at least in its spine."""
    pairs = [(node, workers[leader.group_index or 0]) for leader, node in zip(leaders, nodes, strict=True)]
    return [sum(one == other for one, other in pairs), sum(one[0] == other[0] for one, other in pairs)]


NODES = st.lists(st.sampled_from(RACKS), min_size=2, max_size=6).map(sorted)


@bounded(80)
@given(workers=NODES, data=st.data())
def test_no_other_order_has_more_leaders_near_their_workers(workers: list[str], data: st.DataObject) -> None:
    count = len(workers)
    nodes = sorted(data.draw(st.lists(st.sampled_from(RACKS), min_size=count, max_size=count)))
    parts = list(range(count))
    pairs = [part for part in parts for _ in range(2)]
    leading = Role(pods("worker", pairs, 1), [NodeName(node) for node in workers for _ in range(2)])
    others = Role(pods("leader", parts, 0), [NodeName(node) for node in nodes])
    leaders = in_rank_order([others, leading], PATHS)[0]
    assert sorted(pod.uid for pod in leaders) == sorted(pod.uid for pod in others.pods)
    best = max(closeness(list(order), nodes, workers) for order in permutations(others.pods))
    assert closeness(leaders, nodes, workers) == best


def test_roles_without_group_indices_are_placed_in_network_order() -> None:
    ranks = pods("worker", [0, 0, 0], 0)
    places = [NodeName("b1"), NodeName("a1"), NodeName("a1")]
    assert in_rank_order([Role(ranks, places), Role(ranks, places[:2])], PATHS) == [ranks, ranks[:2]]


def test_pods_without_a_group_index_get_the_remaining_nodes() -> None:
    workers, (leader,) = pods("worker", [0, 1], 1), pods("leader", [1], 0)
    stranger = replace(leader, uid=PodUid("stranger"), index=None)
    places = [NodeName("a1"), NodeName("b1")]
    ordered = in_rank_order([Role(workers, places), Role([stranger, leader], places)], PATHS)
    assert ordered == [workers, [stranger, leader]]
    ordered = in_rank_order([Role(workers, places), Role([leader, stranger], places)], PATHS)
    assert ordered == [workers, [stranger, leader]]
