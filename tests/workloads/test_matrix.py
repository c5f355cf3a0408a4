"""Every event with every workload: `make workloads`."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.workloads import table
from tests.workloads.catalog import EXAMPLES, WORKLOADS, Workload
from tests.workloads.events import EVENTS, Event
from tests.workloads.table import expected_cells
from tests.workloads.trial import Trial


def cell(workload: Workload, event: Event) -> Any:
    """One test."""
    reason = workload.pending.get("*") or workload.pending.get(event.__name__, "")
    marks = [
        pytest.mark.xdist_group(f"controllers {workload.controllers}"),
        pytest.mark.skipif(bool(reason), reason=f"{workload.name}: {reason}"),
    ]
    return pytest.param(
        workload.controllers, workload, event, id=f"{workload.name}-{event.__name__}", marks=marks
    )


CELLS = [cell(workload, event) for workload in WORKLOADS for event in EVENTS]


@pytest.mark.workloads
@pytest.mark.controlplane
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("controllers", "workload", "event"), CELLS, indirect=["controllers"], scope="module"
)
async def test_workload(trial: Trial, event: Event) -> None:
    await event(trial)


def test_every_example_is_in_the_catalog() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.yaml")) == sorted(each.name for each in WORKLOADS)


def test_the_table_is_read_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = dict(
        zip(sorted(expected_cells()), itertools.cycle(("passed", "failed", "skipped")), strict=False)
    )
    monkeypatch.setattr(table, "TABLE", tmp_path / "MATRIX.md")
    table.write_table(outcomes)
    assert table.read_table() == outcomes
