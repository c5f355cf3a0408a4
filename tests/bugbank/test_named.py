"""The reports of other schedulers' users, told again to ours: nothing of what they saw happens."""

from collections.abc import Callable

import pytest

from tests.bugbank.named import PLAYS


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.__name__)
def test_what_others_met_does_not_happen(play: Callable[[], str | None]) -> None:
    assert play() is None
