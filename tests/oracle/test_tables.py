"""Rows of the table tests of kube-scheduler's plugins, replayed through Phalanx.

A few rows of each plugin here; `python -m bench.oracle_tables` replays all.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from phalanx_controlplane.programs import ProgramMissing

from tests.oracle.plugins import Plugins
from tests.oracle.tables.known import why_known
from tests.oracle.tables.recording import recorded
from tests.oracle.tables.replay import AGREEING, Outcome, replay
from tests.oracle.tables.rows import Row, rows, scenario

Document = dict[str, Any]
ROWS_PER_PLUGIN = 8


@pytest.fixture(scope="module")
def recording(plugins: Plugins) -> list[Row]:
    """All rows. The program is there, so a recording can be made, which `make oracle` has done."""
    try:
        return rows(recorded(lambda _line: None))
    except ProgramMissing as missing:
        pytest.skip(str(missing))


@pytest.mark.slow
def test_rows_agree_unless_it_is_known_why_not(plugins: Plugins, recording: list[Row]) -> None:
    by_plugin: defaultdict[str, list[Row]] = defaultdict(list)
    for row in recording:
        by_plugin[row.plugin].append(row)
    chosen = [row for each in by_plugin.values() for row in each[:: max(len(each) // ROWS_PER_PLUGIN, 1)]]
    found = [replay(plugins, row) for row in chosen]
    outcomes = Counter(each.outcome for each in found)
    differing = [each for each in found if each.outcome is Outcome.DIFFERS and not why_known(each.test)]
    assert not [(each.test, each.detail) for each in differing]
    agreeing = sum(outcomes[each] for each in AGREEING)
    assert agreeing > len(found) / 2, outcomes


def node(name: str, **labels: str) -> Document:
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": labels}, "spec": {}}


def pod(name: str = "", **spec: Any) -> Document:
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec}


def call(method: str, *nodes: str, code: str = "Success", **fields: Any) -> Document:
    return {
        "package": "some",
        "test": "Test/case",
        "method": method,
        "plugin": "Some",
        "state": "0x1",
        "pod": pod(),
        "nodes": [{"node": node(each), "pods": [pod("held", hostNetwork=True)]} for each in nodes],
        "code": code,
        **fields,
    }


def calls() -> Iterator[Document]:
    yield call("PreFilter", "nodeA", "b")
    yield call("Filter", "nodeA", code="Unschedulable")
    yield call("Filter", "b")
    yield call("PreScore", "nodeA", "b", only=["nodeA"])
    yield call("Score", "nodeA", score=7)


def test_calls_become_rows() -> None:
    first, second = rows(calls())
    assert (first.test, second.test) == ("some/Test/case", "some/Test/case#2")
    assert first.wanted() == {"nodeA": False, "b": True}
    assert (second.points, second.only) == ({"nodeA": 7}, ("nodeA",))


@pytest.mark.parametrize(
    ("code", "only", "wanted"),
    [
        ("UnschedulableAndUnresolvable", None, {"nodeA": False, "b": False}),
        ("Skip", None, {"nodeA": True, "b": True}),
        ("Success", ["b"], {"nodeA": False}),
    ],
)
def test_prefilter_alone_answers(code: str, only: list[str] | None, wanted: dict[str, bool]) -> None:
    [row] = rows([call("PreFilter", "nodeA", "b", code=code, isOnly=only is not None, only=only or [])])
    assert row.wanted() == wanted


def test_a_scenario_has_what_the_api_server_requires() -> None:
    made = scenario(rows(calls())[0])
    by_kind = Counter(each["kind"] for each in made.objects)
    assert by_kind == {"Namespace": 1, "Node": 2, "Pod": 3}
    asked = made.objects[-1]
    assert made.pod == f"default/{asked['metadata']['name']}"
    assert asked["spec"]["schedulerName"] == "phalanx"
    assert all(each["spec"]["containers"] for each in made.objects if each["kind"] == "Pod")
    assert {each["spec"].get("nodeName") for each in made.objects if each["kind"] == "Pod"} == {
        None,
        "nodea",
        "b",
    }


def test_a_pod_that_was_added_later_makes_a_row_of_the_search_for_victims(plugins: Plugins) -> None:
    [row] = rows([call("PreFilter", "b"), call("Changed"), call("Filter", "b")])
    assert replay(plugins, row).outcome is Outcome.CHANGED
