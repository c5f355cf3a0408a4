"""A gang whose devices are never prepared, or change meanwhile, gives them back; `tests/bugbank` has more."""

from collections.abc import Callable

import pytest

from tests.bugbank.plays_prepared_devices import OTHER_PLAYS


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("play", OTHER_PLAYS, ids=lambda play: play.__name__)
def test_a_play_with_prepared_devices(play: Callable[[], str | None]) -> None:
    assert play() is None
