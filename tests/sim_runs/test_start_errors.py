"""A scheduler replica that cannot start fails the run, instead of leaving a cluster without a scheduler."""

import asyncio

import pytest
from phalanx.framework.config import ConfigError, PluginConfig, SchedulerConfig
from phalanx_simulator.embedded.manifests import node
from phalanx_simulator.runs.simulation import Scenario, simulate
from phalanx_simulator.runs.world import World, WorldSettings, in_world

pytestmark = pytest.mark.usefixtures("quiet")

NOT_INSTALLED = SchedulerConfig(plugins=(PluginConfig(name="not-installed"),))


def test_a_plugin_that_is_not_installed_fails_the_run() -> None:
    scenario = Scenario(seed=1, seconds=60, cluster=(node("n0"),), submissions=(), config=NOT_INSTALLED)
    with pytest.raises(ConfigError, match="not-installed"):
        simulate(scenario)


def test_a_start_error_ends_the_run_at_once() -> None:
    reached: list[float] = []

    async def play(world: World) -> None:
        world.start()
        await asyncio.sleep(60)
        reached.append(world.loop.time())

    with pytest.raises(ConfigError, match="not-installed"):
        in_world(WorldSettings(seed=1, config=NOT_INSTALLED), play)
    assert reached == []


def test_an_error_at_a_restart_fails_the_run_too() -> None:
    async def play(world: World) -> None:
        world.start()
        await asyncio.sleep(60)
        [replica] = world.replicas
        replica.prepare(_refuse)
        replica.kill()
        await asyncio.sleep(60)

    with pytest.raises(ZeroDivisionError, match="cannot start"):
        in_world(WorldSettings(seed=1, replicas=1), play)


def _refuse(_process: object) -> None:
    raise ZeroDivisionError("cannot start")
