"""The bugs that users of other schedulers reported do not occur."""

from collections.abc import Callable

import pytest

from tests.bugbank.named import PLAYS


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.__name__)
def test_a_reported_bug_of_another_scheduler_does_not_occur(play: Callable[[], str | None]) -> None:
    assert play() is None
