"""Which pod holds which slot, and what is remembered of it."""

import pytest
from phalanx_simulator.demos.cluster import DemoFailed
from phalanx_simulator.demos.timeline import Held, PodOnNode, SlotHistory


def on(node: str, *names: str) -> list[PodOnNode]:
    """Pods such as a-0 on one node; the job is the name's first letter."""
    return [PodOnNode(name=name, node=node, job=name[0]) for name in names]


def jobs(history: SlotHistory) -> str:
    return "".join("." if held is None else held.job for held in history.now)


@pytest.fixture
def history() -> SlotHistory:
    return SlotHistory(nodes=("n1", "n2"), per_node=2)


def test_all_slots_are_free_at_first(history: SlotHistory) -> None:
    assert history.now == (None,) * 4
    assert history.at(5.0) == history.now


def test_a_pod_takes_a_slot_of_its_node(history: SlotHistory) -> None:
    history.note(1.0, [*on("n2", "a-0"), *on("n1", "b-0")], training={})
    assert jobs(history) == "b.a."


def test_a_pod_keeps_its_slot_while_other_pods_change(history: SlotHistory) -> None:
    history.note(1.0, on("n1", "a-0", "b-0"), training={})
    history.note(2.0, on("n1", "b-0"), training={})
    history.note(3.0, on("n1", "a-1", "b-0"), training={})
    assert jobs(history) == "ab.."
    history.note(4.0, on("n1", "b-0"), training={})
    assert jobs(history) == ".b.."


def test_past_slots_are_kept(history: SlotHistory) -> None:
    history.note(1.0, on("n1", "a-0"), training={})
    history.note(2.0, on("n1", "a-0"), training={"a": True})
    assert history.at(0.9)[0] is None
    assert history.at(1.5)[0] == Held(job="a", trains=False)
    assert history.at(9.0)[0] == Held(job="a", trains=True)


def test_more_pods_than_slots_end_the_act(history: SlotHistory) -> None:
    with pytest.raises(DemoFailed, match="n1 holds more than 2 pods"):
        history.note(1.0, on("n1", "a-0", "b-0", "c-0"), training={})
