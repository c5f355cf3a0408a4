"""Whole runs in which claims have parts of devices: no device gives more than it has."""

from typing import ClassVar

import pytest
from phalanx_simulator.embedded.store import Change
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.invariants.check import Check
from phalanx_simulator.invariants.claim_facts import DEVICE_CLAIMS, devices_of
from phalanx_simulator.runs.scenarios import Request, scenario_of
from phalanx_simulator.runs.simulation import simulate

pytestmark = pytest.mark.usefixtures("quiet")


class MostShares(Check):
    """How many claims had one device at a time."""

    name = "most shares"
    most: ClassVar[int] = 0

    def on_change(self, change: Change) -> None:
        if change.entry.key.resource != DEVICE_CLAIMS:
            return
        counts: dict[object, int] = {}
        for entry in self.context.store.entries(DEVICE_CLAIMS):
            for device in devices_of(entry.data):
                counts[device] = counts.get(device, 0) + 1
        MostShares.most = max(MostShares.most, *counts.values()) if counts else MostShares.most


@pytest.mark.slow
def test_gangs_share_devices_among_faults() -> None:
    request = Request(seed=3, nodes=3, hours=0.05, faults="all", load=0.9, workload="shares")
    summary = simulate(scenario_of(request, checks=(*ALL_CHECKS, MostShares)))
    assert summary.violations == ()
    assert MostShares.most == 3
