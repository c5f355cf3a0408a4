"""Volumes in simulated clusters: local ones, and those of a provisioner that is slow or gives up."""

import pytest

from tests.bugbank import plays_world_volumes as plays


@pytest.mark.slow
@pytest.mark.parametrize(
    "play",
    [
        plays.a_gang_takes_local_volumes,
        plays.gangs_compete_for_local_volumes,
        plays.the_smallest_volume_is_taken,
        plays.leaders_die_while_volumes_are_bound,
        plays.a_gang_that_ends_gives_its_volumes_back,
        plays.a_provisioner_is_slow_and_gives_up,
    ],
    ids=lambda play: play.__name__,
)
def test_volumes(play: plays.Play) -> None:
    assert play() is None
