"""Devices of claims in a session: a cluster without claims pays nothing for them."""

from collections.abc import Callable
from typing import Any

import pytest
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.supplies.devices.session.cache import DeviceCache
from phalanx.model.supplies.devices.session.session_devices import SessionDevices

from tests.builders import Scenario


def test_nothing_of_devices_is_opened_without_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start, a victim, a replaced member with held capacity, and a gang that fits nowhere."""
    opened: list[type] = []

    def noting(made: type, original: Callable[..., None]) -> Callable[..., None]:
        def init(self: object, *args: Any) -> None:
            opened.append(made)
            original(self, *args)

        return init

    for made in (SessionDevices, DeviceCache):
        monkeypatch.setattr(made, "__init__", noting(made, made.__init__))
    scenario = (
        Scenario()
        .nodes("a", 3, gpu=8)
        .gang("low", 1, gpu=8, on=["a-0"])
        .gang("lost", 2, gpu=4, on=["a-1"])
        .gang("starts", 1, gpu=8)
        .gang("high", 2, gpu=8, priority=9)
        .gang("large", 9, gpu=8)
        .lose("lost")
    )
    decided = scenario.decide()
    assert decided.result.verdicts
    assert decided.placed()
    assert opened == []
    assert not Session(scenario.snapshot(), SchedulerConfig()).supplies
