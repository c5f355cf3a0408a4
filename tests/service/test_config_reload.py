"""A changed configuration file: what is used, what is refused, and what is reported."""

import asyncio
import threading
from pathlib import Path

import pytest
from phalanx.cli.configuration import parse_checked
from phalanx.framework import registry
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.framework.plugin import GangOrder, Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.observe.metrics import Metrics
from phalanx.service.config_reload import ConfigFile, ConfigReload, Reloaded, fixed_changes
from phalanx.service.limits import CONFIG_BYTES_MAX

from tests.manual_clock import EPOCH_MS, ManualClock
from tests.parsed_config import parse_config

SUCCESSFUL = "phalanx_config_last_reload_successful"
USED_AT = "phalanx_config_last_reload_success_timestamp_seconds"


class World:
    """A file, and what a reload makes of it."""

    def __init__(self, path: Path, text: str = "seed: 1") -> None:
        self.path = path
        self.clock = ManualClock()
        self.metrics = Metrics(self.clock)
        self.used: list[SchedulerConfig] = []
        self.outcomes: list[Reloaded] = []
        self.write(text)
        self.reload = ConfigReload(
            ConfigFile(read=path.read_bytes, parse=parse_checked),
            config=parse_config(text),
            apply=self.used.append,
            on_outcome=self.outcomes.append,
            reports=self.metrics,
        )

    def write(self, text: str) -> None:
        self.path.write_text(text)

    async def look(self, text: str) -> None:
        self.clock.seconds += 1
        self.write(text)
        await self.reload.look()

    def metric(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(name)

    @property
    def messages(self) -> list[str]:
        return [outcome.message for outcome in self.outcomes]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "config.yaml")


async def test_a_file_that_did_not_change_is_not_used_again(world: World) -> None:
    for _ in range(2):
        await world.reload.look()
    assert (world.used, world.outcomes) == ([], [])
    assert world.metric(SUCCESSFUL) == 1


async def test_the_event_loop_goes_on_while_a_file_is_checked(world: World) -> None:
    """A plugin whose constructor takes long must not cost the leader its Lease."""
    is_free = threading.Event()
    loop = asyncio.get_running_loop()

    def check(content: bytes) -> SchedulerConfig:
        loop.call_soon_threadsafe(is_free.set)
        assert is_free.wait(timeout=10)
        return parse_checked(content)

    file = ConfigFile(read=world.path.read_bytes, parse=check)
    world.write("seed: 2")
    reload = ConfigReload(
        file,
        config=parse_config("seed: 1"),
        apply=world.used.append,
        on_outcome=world.outcomes.append,
        reports=world.metrics,
    )
    await reload.look()
    assert world.used == [parse_config("seed: 2")]


async def test_a_good_file_is_used_once(world: World) -> None:
    for _ in range(2):
        await world.look("seed: 2\nretry: {nominationMinutes: 3}")
    assert world.used == [parse_config("seed: 2\nretry: {nominationMinutes: 3}")]
    assert world.messages == ["The configuration was reloaded; changed: retry, seed"]
    assert world.metric(USED_AT) == EPOCH_MS / 1000 + 1


async def test_comments_change_nothing(world: World) -> None:
    await world.look("# the same\nseed: 1")
    assert (world.used, world.outcomes) == ([], [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("seed: many", "line 1, column 1: seed: Expected `int`, got `str`"),
        ("seed: [", "not YAML: line 1, column 8"),
        (
            "seeds: 1\nactions: [dance]",
            "`seed`; line 2, column 11: actions[0]: Invalid enum value 'dance'",
        ),
        ("plugins: [{name: none}]", "line 1, column 11: plugins[none]: there is no plugin none"),
        ("plugins: [{name: drf, arguments: {a: 1}}]", "plugins[drf].arguments.a: "),
        ("schedulerName: other", "schedulerName changed, for which the scheduler must be restarted"),
        (
            "nominatingSchedulers: []\nqueueDialects: [scheduling.run.ai]",
            "nominatingSchedulers, queueDialects changed, for",
        ),
        (
            "workloads: [{apiVersion: a.b/v1, kind: Own, plural: owns, roles: [{at: spec}]}]",
            "workloads changed, for",
        ),
        ("#" * (CONFIG_BYTES_MAX + 1), f"expected a file of at most {CONFIG_BYTES_MAX} bytes"),
    ],
)
async def test_a_bad_file_is_refused_once_and_the_old_one_stays(
    text: str, problem: str, world: World
) -> None:
    for _ in range(2):
        await world.look(text)
    assert world.used == []
    (message,) = world.messages
    assert message.startswith("The configuration was refused, the old one stays in effect: ")
    assert problem in message
    assert world.metric(SUCCESSFUL) == 0
    assert world.metric(USED_AT) == EPOCH_MS / 1000


async def test_a_file_that_is_corrected_is_used(world: World) -> None:
    await world.look("seed: many")
    await world.look("seed: 3")
    assert [config.seed for config in world.used] == [3]
    assert [outcome.is_used for outcome in world.outcomes] == [False, True]
    assert world.metric(SUCCESSFUL) == 1


async def test_a_file_that_is_undone_is_reported_as_good(world: World) -> None:
    await world.look("seed: many")
    await world.look("seed: 1")
    assert world.used == []
    assert world.messages[1:] == ["The configuration was reloaded; changed: nothing"]
    assert world.metric(SUCCESSFUL) == 1


async def test_a_file_that_is_gone_is_refused_until_it_is_there_again(world: World) -> None:
    world.path.unlink()
    for _ in range(2):
        await world.reload.look()
    assert len(world.outcomes) == 1
    assert "No such file" in world.messages[0]
    await world.look("seed: 1")
    assert world.metric(SUCCESSFUL) == 1


async def test_a_bad_file_that_comes_back_unchanged_is_still_refused(world: World) -> None:
    await world.look("seed: many")
    world.path.unlink()
    await world.reload.look()
    await world.look("seed: many")
    assert world.metric(SUCCESSFUL) == 0


async def test_an_unexpected_error_is_a_refusal_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_config: SchedulerConfig) -> None:
        raise RuntimeError("a plugin fails")

    monkeypatch.setattr("phalanx.cli.config_file.check.plugin_errors", fails)
    await world.look("seed: 2")
    assert world.used == []
    assert "RuntimeError('a plugin fails')" in world.messages[0]
    monkeypatch.undo()
    await world.look("seed: 3")
    assert [config.seed for config in world.used] == [3]


class Reader(Plugin):
    """A plugin that reads an annotation."""

    name = "reader"
    pod_annotations = ("example.com/team",)

    def gang_order(self, gang: Gang, view: SessionView) -> GangOrder:
        return GangOrder()


@pytest.fixture
def _reader(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = registry.plugin_class
    monkeypatch.setattr(
        registry, "plugin_class", lambda name: Reader if name == Reader.name else installed(name)
    )


@pytest.mark.usefixtures("_reader")
def test_a_plugin_that_reads_further_annotations_needs_a_restart() -> None:
    """The cache has dropped them."""
    without, reads = SchedulerConfig(), SchedulerConfig(plugins=(PluginConfig(name=Reader.name),))
    assert fixed_changes(without, reads) == ("annotations that plugins read (example.com/team)",)
    assert fixed_changes(reads, without) == ()
