"""Every event with every workload: `make workloads`."""

import pytest

from tests.workloads.catalog import EXAMPLES, WORKLOADS
from tests.workloads.events import EVENTS, Event
from tests.workloads.trial import Trial

ROWS = [
    pytest.param(
        each.controllers,
        each,
        id=each.name,
        marks=[
            pytest.mark.xdist_group(f"controllers {each.controllers}"),
            pytest.mark.skipif(bool(each.pending), reason=each.pending),
        ],
    )
    for each in WORKLOADS
]


@pytest.mark.workloads
@pytest.mark.controlplane
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
@pytest.mark.parametrize(("controllers", "workload"), ROWS, indirect=["controllers"], scope="module")
async def test_workload(trial: Trial, event: Event) -> None:
    await event(trial)


def test_every_example_is_in_the_catalog() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.yaml")) == sorted(each.name for each in WORKLOADS)
