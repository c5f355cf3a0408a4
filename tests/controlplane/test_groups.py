"""The control plane that tests of a group share ends with the last of them."""

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from tests.controlplane_fixture import pytest_runtest_teardown


class Shared:
    """A fixture: its scope, and how often it was ended."""

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self.ended = 0

    def finish(self, _request: object) -> None:
        self.ended += 1


def item(nodeid: str, group: str, fixtures: dict[str, list[Shared]]) -> Any:
    """A test as pytest describes it; xdist appends the group to the ID if it distributes by group."""
    marker = SimpleNamespace(args=(group,)) if group else None
    manager = SimpleNamespace(_arg2fixturedefs=fixtures)
    return SimpleNamespace(
        nodeid=nodeid,
        get_closest_marker=lambda name: marker if name == "xdist_group" else None,
        session=SimpleNamespace(_fixturemanager=manager),
        _request=None,
    )


@pytest.mark.parametrize(
    ("this", "following", "ends"),
    [
        ("a@plane", "b@plane", 0),
        ("a@plane", "b", 1),
        ("a@plane", "b@other", 1),
        ("a@plane", "", 1),
        ("a", "b", 0),
        ("a[x@plane]", "b", 0),
    ],
)
def test_what_a_group_shares_ends_with_its_last_test(this: str, following: str, ends: int) -> None:
    session, module, other = Shared("session"), Shared("module"), Shared("session")
    fixtures = {"control_plane": [session, module], "tmp_path_factory": [other]}
    group = following.partition("@")[2]
    after = item(following, group, fixtures) if following else None
    teardown = pytest_runtest_teardown(item(this, "plane", fixtures), after)
    next(teardown)
    assert session.ended == 0
    with suppress(StopIteration):
        next(teardown)
    assert (session.ended, module.ended, other.ended) == (ends, 0, 0)


def test_the_shared_control_plane_is_among_the_fixtures(request: pytest.FixtureRequest) -> None:
    fixtures = request.session._fixturemanager._arg2fixturedefs["control_plane"]
    assert "session" in [fixture.scope for fixture in fixtures]
