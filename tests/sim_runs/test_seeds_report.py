"""The report of the selected seeds, and how they are selected."""

from pathlib import Path
from typing import Any

import pytest

from tests.sim_runs.seeds import Selection
from tests.sim_runs.seeds_report import REACHED, unreached
from tests.sim_runs.select_seeds import Played, select, selection_of, store, stored

CANDIDATES = [
    Played(0, frozenset({"common"}), 1.0),
    Played(1, frozenset({"common", "rare"}), 4.0),
    Played(2, frozenset({"common", "other"}), 1.0),
    Played(3, frozenset({"common", "other"}), 2.0),
]


def report(*runs: list[Any]) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid="test",
        location=("", 0, ""),
        keywords={},
        outcome="passed",
        longrepr=None,
        when="call",
        user_properties=[(REACHED, run) for run in runs],
    )


def wanted() -> Selection:
    return selection_of(CANDIDATES, 1)


def test_a_point_that_no_seed_reached_is_named() -> None:
    assert unreached([report([1, "common"], [2, "common", "other"])], wanted()) == ["rare"]


def test_reports_of_several_processes_are_joined() -> None:
    reports = [report([1, "common", "rare"]), report([2, "other"])]
    assert unreached(reports, wanted()) == []


def test_nothing_is_reported_if_a_seed_did_not_run_or_failed() -> None:
    assert unreached([report([1, "common", "rare"])], wanted()) is None


def test_cheap_seeds_come_first_and_rare_points_are_kept() -> None:
    assert [played.seed for played in select(CANDIDATES, 1)] == [2, 1]


def test_an_expensive_seed_replaces_several_that_cost_more_together() -> None:
    whole = Played(4, frozenset({"common", "rare", "other"}), 4.5)
    assert [played.seed for played in select([*CANDIDATES, whole], 1)] == [4]


def test_candidates_are_stored_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "candidates.jsonl"
    assert list(stored(path)) == []
    for each in CANDIDATES:
        store(path, each)
    assert list(stored(path)) == CANDIDATES


def test_points_are_reached_as_often_as_requested_or_as_candidates_reach_them() -> None:
    found = selection_of(CANDIDATES, 2)
    assert found.seeds == (1, 2, 3)
    assert found.points == {"common": (4, 3), "other": (2, 2), "rare": (1, 1)}
