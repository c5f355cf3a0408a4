"""Studies: their YAML, the clusters and queues of their variants, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace
from phalanx_simulator.lab.engine.cluster import Pool, QueueSetup
from phalanx_simulator.lab.engine.jobs import DAY_MS, RecordedJob
from phalanx_simulator.lab.history.history import History, RecordedQueue
from phalanx_simulator.lab.study.study import StudyError, parse_study, read_study, study_of
from phalanx_simulator.lab.study.variants import Plan, plan_of

HOUR_MS = 3_600_000
FEW = History(
    jobs=(
        RecordedJob("j1", "red", 0, 30 * HOUR_MS, pods=3, gpus=8),
        RecordedJob("j2", "blue", HOUR_MS, 90 * HOUR_MS, pods=1, gpus=8, limit_s=100 * 3600),
        RecordedJob("j3", "red", DAY_MS, 2 * HOUR_MS, pods=1, gpus=1),
        RecordedJob("j4", "red", DAY_MS + 1, 2 * HOUR_MS, pods=1, gpus=1),
    )
)
HISTORY = {"path": "x", "format": "philly"}
BASE: dict[str, Any] = {"history": HISTORY, "cluster": {"nodes": 4}, "variants": [{"name": "first"}]}


def plan(recorded: History = FEW, /, **keys: Any) -> Plan:
    return plan_of(study_of({**BASE, **keys}), recorded)


def test_all_days_are_played_or_the_busiest_or_those_that_are_named() -> None:
    (case,) = plan().cases
    assert (case.window.first_day, case.window.days, len(case.window.jobs)) == (0, 2, 4)
    (case,) = plan(history={**HISTORY, "days": 1}).cases
    assert case.window.first_day == 0
    (case,) = plan(history={**HISTORY, "days": 1, "firstDay": 1}).cases
    assert [(job.name, job.run_ms // HOUR_MS, job.limit_s, job.is_new) for job in case.window.jobs] == [
        ("j1", 6, 12 * 3600, False),
        ("j2", 67, 77 * 3600, False),
        ("j3", 2, 4 * 3600, True),
        ("j4", 2, 4 * 3600, True),
    ]


def test_without_declarations_only_recorded_limits_count() -> None:
    (case,) = plan(declares="none").cases
    assert [job.limit_s for job in case.window.jobs] == [None, 100 * 3600, None, None]


@pytest.mark.parametrize(
    ("cluster", "pools"),
    [
        ({"nodes": 4, "racks": 2}, (Pool("n", 4, 8, racks=2),)),
        ({"loadPercent": 100}, (Pool("n", 3, 8),)),  # (720 + 376 + 4) GPU hours in 48 hours: 22.9 GPUs
        ({"loadPercent": 50, "gpusPerNode": 4}, (Pool("n", 12, 4),)),
        (
            {"pools": [{"name": "a", "nodes": 2, "gpus": 4, "cpus": 32, "memoryGiB": 64, "model": "X"}]},
            (Pool("a", 2, 4, 32_000, 65_536, "X"),),
        ),
    ],
)
def test_the_cluster_is_as_given(cluster: dict[str, Any], pools: tuple[Pool, ...]) -> None:
    (case,) = plan(cluster=cluster).cases
    assert case.setup.pools == pools


def test_the_cluster_of_the_history_can_be_changed_by_a_variant() -> None:
    own = replace(FEW, pools=(Pool("a", 2), Pool("b", 3)))
    found = plan(
        own,
        cluster={},
        variants=[{"name": "x"}, {"name": "y", "addNodes": 5}, {"name": "z", "addNodes": -3, "pool": "b"}],
    )
    assert [[pool.nodes for pool in case.setup.pools] for case in found.cases] == [[2, 3], [7, 3], [2, 0]]


def test_guarantees_follow_the_use_of_the_whole_history_or_what_it_recorded_or_are_none() -> None:
    by_use, none = plan(variants=[{"name": "a"}, {"name": "b", "guarantees": "none"}]).cases
    assert by_use.setup.queues == {"blue": QueueSetup(16, 16), "red": QueueSetup(16, 16)}  # 720 and 724
    assert none.setup.queues == {"blue": QueueSetup(0, 1), "red": QueueSetup(0, 1)}
    recorded = replace(FEW, queues={"red": RecordedQueue(8, 3), "idle": RecordedQueue(4, 1)})
    (case,) = plan(recorded).cases
    assert case.setup.queues == {
        "blue": QueueSetup(0, 1),
        "idle": QueueSetup(4, 1),
        "red": QueueSetup(8, 3),
    }


def test_a_variant_overrides_the_study_queue_by_queue_and_key_by_key() -> None:
    one, two = plan(
        guarantees="none",
        backfill="Easy",
        queues={"red": {"weight": 2}},
        config={"backfill": {"assumedRuntimeMinutes": 5}, "seed": 1},
        variants=[
            {"name": "one"},
            {
                "name": "two",
                "allQueues": {"ordering": "StrictFIFO"},
                "queues": {"red": {"guarantee": {"nvidia.com/gpu": 8}, "backfill": "None"}},
                "config": {"seed": 2, "retry": {"nominationMinutes": 9}},
            },
        ],
    ).cases
    easy = {"backfill": "Easy"}
    assert one.setup.queues == {"blue": QueueSetup(0, 1, easy), "red": QueueSetup(0, 2, easy)}
    strict = {"backfill": "Easy", "ordering": "StrictFIFO"}
    assert two.setup.queues == {
        "blue": QueueSetup(0, 1, strict),
        "red": QueueSetup(8, 2, {**strict, "backfill": "None"}),
    }
    assert two.setup.config == {
        "backfill": {"assumedRuntimeMinutes": 5},
        "seed": 2,
        "retry": {"nominationMinutes": 9},
    }


def test_jobs_that_can_never_start_are_noted() -> None:
    found = plan(variants=[{"name": "small", "addNodes": -2}])
    assert found.notes == ("small: 1 job that the cluster is too small for: never started",)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"variants": []}, "variants: "),
        ({"variants": [{"name": "a"}, {"name": "a"}]}, "variants[1].name: a is used twice"),
        ({"variant": []}, "Object contains unknown field `variant`"),
        ({"cluster": {"nodes": 0}}, "cluster.nodes: Expected `int` >= 1"),
        (
            {"cluster": {"nodes": 2, "loadPercent": 90}},
            "cluster: expected one of nodes, loadPercent and pools",
        ),
        ({"cluster": {}}, "cluster: expected nodes, loadPercent or pools, since the history does not say"),
        ({"history": {**HISTORY, "format": "xml"}}, "history.format: Invalid enum value 'xml'"),
        (
            {"history": {**HISTORY, "firstDay": 9}},
            "history.firstDay: expected at most 1, the day of the last",
        ),
        ({"guarantees": "recorded"}, "guarantees: expected byUse or none, since the history has no queues"),
        ({"queues": {"green": {}}}, "first: queues: expected queues of the history: blue, red; found green"),
        (
            {"queues": {"red": {"wieght": 2}}},
            "first: queues: expected the keys admission, allowStartBy, backfill",
        ),
        ({"queues": {"red": {"parent": "x"}}}, "found parent"),
        ({"queues": {"red": {"weight": 0}}}, "first: queues: weight: expected 1 or more, found 0"),
        ({"queues": {"red": {"guarantee": {"cpu": 1}}}}, "guarantee: expected {nvidia.com/gpu: NUMBER}"),
        ({"allQueues": {"backfill": "Sometimes"}}, "backfill: expected one of None, Easy, Conservative"),
        ({"backfill": "Sometimes"}, "backfill: Invalid enum value 'Sometimes'"),
        ({"topology": {"required": "rack"}}, "first: topology: expected a cluster with racks"),
        ({"config": {"sed": 1}}, "first: config: "),
        ({"config": {"plugins": [{"name": "magic"}]}}, "first: config: "),
        ({"variants": [{"name": "a", "addNodes": -4}]}, "a: addNodes: pool n has fewer nodes than are taken"),
        ({"variants": [{"name": "a", "addNodes": 1, "pool": "q"}]}, "a: pool: expected one of n; found q"),
    ],
)
def test_a_bad_study_is_refused_with_the_key(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError) as caught:
        plan(**keys)
    assert message in str(caught.value)


def test_paths_of_a_file_are_those_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    history = {"path": "pods.csv", "format": "alibaba", "nodesFile": "nodes.csv"}
    file.write_text(yaml.safe_dump({**BASE, "history": history}))
    found = read_study(file).history
    assert (found.path, found.nodes_file) == (str(tmp_path / "pods.csv"), str(tmp_path / "nodes.csv"))


def test_text_that_is_no_yaml_is_refused() -> None:
    with pytest.raises(StudyError, match="not YAML: line 1"):
        parse_study("history: [")
