"""The drill of views disturbs every kind that schedulers watch, and no kind that they do not."""

from typing import Final

import pytest
from phalanx.model.api.kinds import KINDS, WATCHED_KINDS
from phalanx_simulator.drills.operations import OPERATIONS
from phalanx_simulator.drills.watch_faults import view_plans
from phalanx_simulator.runs.world import World, WorldSettings, in_world

PLANS_MAX: Final = 500
"""Of one act: `make soak` plays all of several acts."""

[BIND] = [act for act in OPERATIONS if act.name == "bind"]


@pytest.fixture(scope="module")
def disturbed() -> frozenset[str]:
    """The kinds in the names of the plans."""
    names = [plan.name for plan in view_plans(BIND, seed=1)]
    assert len(names) == len({*names}) <= PLANS_MAX
    return frozenset(name.partition(" of ")[2].partition(" from ")[0] for name in names)


def test_every_watched_kind_is_disturbed(disturbed: frozenset[str]) -> None:
    watched = [KINDS[name] for name in WATCHED_KINDS if not KINDS[name].optional]
    assert disturbed == {*(f"/{kind.plural}" for kind in watched), "everything"}


@pytest.mark.usefixtures("quiet")
def test_each_disturbed_kind_is_watched(disturbed: frozenset[str]) -> None:
    async def play(world: World) -> None:
        await BIND.prepare(world)
        for replica in world.replicas:
            assert replica.process is not None
            network = replica.process.network
            assert [part for part in sorted(disturbed - {"everything"}) if not network.watches(part)] == []

    in_world(WorldSettings(seed=1), play)
