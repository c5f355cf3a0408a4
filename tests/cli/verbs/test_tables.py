"""Tables on screens of a given width: what stays, what is wrapped, what is one row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.cli.exits import BadInput
from phalanx.cli.verbs.formatting import folded
from phalanx.cli.verbs.printing import DIM, Format, Span, line, plain, wrapped
from phalanx.cli.verbs.tables import Column, table

from tests.cli.verbs.conftest import PHALANX, World, gpu_node, gpu_pod, pod_group, waiting_status
from tests.examples import holds

COLUMNS = (Column("NAME"), Column("QUEUE", goes=2), Column("AGE", goes=1), Column("REASON", wraps=True))
ROWS = (
    ("a-gang-with-a-name", "research", "10m", "12 nvidia.com/gpu needed, 4 free in rack r1"),
    ("b", "-", "2d", "-"),
)


def shown(width: int, **how: object) -> list[str]:
    return plain(table(COLUMNS, ROWS, Format(width=width, **how))).splitlines()  # type: ignore[arg-type]


def test_without_a_screen_all_columns_are_shown_and_nothing_is_wrapped() -> None:
    assert shown(0) == [
        "NAME                 QUEUE      AGE   REASON",
        "a-gang-with-a-name   research   10m   12 nvidia.com/gpu needed, 4 free in rack r1",
        "b                    -          2d    -",
    ]


def test_long_texts_are_wrapped_before_a_column_goes() -> None:
    assert shown(60) == [
        "NAME                QUEUE     AGE  REASON",
        "a-gang-with-a-name  research  10m  12 nvidia.com/gpu needed,",
        "                                    4 free in rack r1",
        "b                   -         2d   -",
    ]


def test_what_matters_stays() -> None:
    assert shown(46)[0].split() == ["NAME", "AGE", "REASON"]
    assert shown(41)[0].split() == ["NAME", "REASON"]
    assert " ".join(shown(41)[1:-1]).split()[1:] == ROWS[0][3].split()


def test_columns_that_the_user_names() -> None:
    assert shown(20, chosen=("age", "name")) == ["AGE  NAME", "10m  a-gang-with-a-name", "2d   b"]
    with pytest.raises(BadInput, match="there is no column nme; there are name, queue, age, reason"):
        shown(80, chosen=("nme",))


@holds(200)
@given(st.integers(40, 120), st.lists(st.text("ab, ", max_size=60), max_size=5))
def test_no_line_is_longer_than_the_screen_and_no_text_is_lost(width: int, reasons: list[str]) -> None:
    rows = [("name", "q", "1m", reason) for reason in reasons]
    lines = plain(table(COLUMNS, rows, Format(width=width))).splitlines()
    assert all(len(each) <= width for each in lines)
    text = "".join("".join(lines[1:]).split())
    assert text.count("name") == len(rows)
    for reason in reasons:
        assert "".join(reason.split()) in text


def test_lines_go_on_below_their_text_and_amounts_are_not_broken() -> None:
    text = line(Span("reason      ", DIM), "16 nvidia.com/gpu needed, 4 free")
    assert plain(wrapped(text, 36)).splitlines() == [
        "reason      16 nvidia.com/gpu",
        "            needed, 4 free",
    ]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["gpu-0001", "gpu-0003", "gpu-0002"], "gpu-[0001-0003]"),
        (["n8", "n9", "n10", "n12"], "n[8-10,12]"),
        (["a01", "a1"], "a[1,01]"),
        (["x", "a1-b", "a2-b"], "a[1-2]-b x"),
        (["one7"], "one7"),
    ],
)
def test_names_that_differ_in_their_last_number(names: list[str], text: str) -> None:
    assert " ".join(folded(names)) == text


@pytest.fixture(autouse=True)
def _screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phalanx.cli.verbs.runner.width_of_screen", lambda: 80)


async def test_a_screen_of_80_columns_has_the_reason_of_each_waiting_gang(world: World) -> None:
    long = "pretraining-of-the-large-model"
    status = waiting_status("InsufficientCapacity", "x", position=1, step="") | {"queue": "research-vision"}
    world.create(pod_group(long, space="default", status=status), gpu_pod("p", space="default", group=long))
    out = (await world.run("jobs", "-A")).out
    assert all(len(each) <= 80 for each in out.splitlines())
    assert ("InsufficientCapacity" in out, "0/1" in out) == (True, True)


async def test_equal_nodes_and_racks_are_one_row(world: World) -> None:
    xid = [{"type": "GpuXidError", "status": "True"}]
    nodes = [gpu_node(f"gpu-{place:03}", rack=f"r{place // 10}") for place in range(30)]
    levels = [{"name": "rack", "nodeLabel": "rack"}]
    racks = {"apiVersion": PHALANX, "kind": "Topology", "metadata": {"name": "t"}, "spec": {"levels": levels}}
    world.create(racks, *nodes, gpu_node("gpu-030", rack="r3", conditions=xid))
    out = (await world.run("nodes")).out
    rows = [row.split()[:3] for row in out.splitlines() if "gpu-" in row]
    assert rows == [["gpu-030", "1", "Faulty"], ["gpu-[000-029]", "30", "Ready"]]
    assert "rack r[0-2] ×3  10 " in (await world.run("topo")).out
    assert len((await world.run("nodes", "-o", "wide")).out.splitlines()) == 32


async def test_rows_may_be_sorted_and_columns_chosen(tenants: World) -> None:
    out = (await tenants.run("jobs", "-A", "--sort", "name", "--columns", "NAME,PODS")).out
    assert [row.split() for row in out.splitlines()] == [
        ["NAME", "PODS"],
        ["pod/note", "1/1"],
        ["busy", "2/2"],
        ["large", "0/2"],
    ]
    out = (await tenants.run("nodes", "--sort", "free", "--columns", "node", "-o", "wide")).out
    assert out.split()[:4] == ["NODE", "b1", "a1", "a2"]
    done = await tenants.run("queues", "--columns", "nme")
    assert (done.code, "there is no column nme" in done.err) == (2, True)
