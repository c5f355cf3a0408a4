"""Knavigator's gang benchmark without a cluster: 53 jobs of two minutes on 32 nodes of 8 GPUs."""

from bench.knavigator_jobs import GPUS, NODES, sizes
from tests.actions.timeline import Timeline, Work


def test_all_jobs_end_after_eighteen_minutes_with_no_node_idle() -> None:
    timeline = Timeline(NODES, GPUS, None)
    timeline.add(*(Work(f"j{index:02}", size, GPUS, runs=2) for index, size in enumerate(sizes())))
    timeline.run(until=20)
    assert len(timeline.started) == 53
    busy = dict.fromkeys(range(0, 18, 2), 0)
    for index, size in enumerate(sizes()):
        busy[timeline.started[f"j{index:02}"]] += size
    assert busy == dict.fromkeys(range(0, 18, 2), NODES)
    assert sorted(timeline.started, key=lambda name: (timeline.started[name], name)) == sorted(
        timeline.started
    )
