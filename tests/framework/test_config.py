"""The configuration file: which settings it accepts, and how it rejects others."""

from itertools import accumulate

import pytest
from msgspec import Struct
from phalanx.framework import registry
from phalanx.framework.config import ConfigError, PluginConfig, SchedulerConfig
from phalanx.framework.plugin import GangOrder, Plugin
from phalanx.framework.profile import DEFAULT_PROFILE
from phalanx.framework.registry import declared_reads, load_plugins
from phalanx.framework.retry import BIND_REFUSALS_PER_MINUTE_MAX
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang

from tests.parsed_config import parse_config


class ForeignArguments(Struct, frozen=True, forbid_unknown_fields=True):
    strength: int = 1


class Foreign(Plugin):
    """A plugin from another package."""

    name = "foreign"
    Arguments = ForeignArguments

    def __init__(self, arguments: ForeignArguments) -> None:
        self._strength = arguments.strength

    def gang_order(self, gang: Gang, view: SessionView) -> GangOrder:
        return GangOrder(key=self._strength)


class Unreadable(Plugin):
    """A plugin whose constructor raises."""

    name = "unreadable"

    def __init__(self) -> None:
        raise FileNotFoundError("quota.json")

    def gang_order(self, gang: Gang, view: SessionView) -> GangOrder:
        return GangOrder()


def names(config: SchedulerConfig) -> list[str]:
    return [plugin.name for plugin in load_plugins(config)]


def test_an_empty_file_means_all_defaults() -> None:
    assert parse_config("") == SchedulerConfig()
    assert names(parse_config("# nothing\n")) == list(DEFAULT_PROFILE)


def test_every_setting_is_parsed() -> None:
    config = parse_config(
        """
        schedulerName: gpu
        defaultTopology: fabric
        seed: 7
        actions: []
        plugins:
          - {name: drf, arguments: {ignored: [pods, memory]}}
          - {name: fifo, enabled: false}
        """
    )
    assert config == SchedulerConfig(
        scheduler_name="gpu",
        default_topology="fabric",
        seed=7,
        actions=(),
        plugins=(
            PluginConfig(name="drf", arguments={"ignored": ["pods", "memory"]}),
            PluginConfig(name="fifo", enabled=False),
        ),
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("schedulerNam: x", "schedulerNam"),
        ("plugins: [{nam: drf}]", "nam"),
        ("plugins: [{name: drf, enabled: 3}]", r"plugins\[0\].enabled"),
        ("plugins: [{name: drf}, {name: fifo}, {name: drf}]", r"plugins\[2\]: drf is listed twice"),
        ("actions: [release, dance]", r"^actions\[1\]: Invalid enum value 'dance'$"),
        ("actions: [release, release]", r"actions\[1\]: release is listed twice"),
        ("actions: [release, consolidate]", "consolidate needs preempt"),
        ("consolidation: {movesMax: 0}", "movesMax"),
        (
            "retry: {bindBackoffMaxSeconds: 3}",
            "^retry.bindBackoffMaxSeconds: expected at least 4 with .*Milliseconds 100, found 3: a refused",
        ),
        ("retry: {bindBackoffFirstMilliseconds: 1, bindBackoffMaxSeconds: 7}", "expected at least 8"),
        ("seed: 1\nseed: 2", "seed is given twice"),
        ("seed: [", r"^not YAML: line 1, column 8: expected the node content, but found.*$"),
        ("seed: 2024-99-99", "^not YAML: line 1, column 7: 2024-99-99 is not a valid timestamp$"),
        ("seed: 0x_", "^not YAML: line 1, column 7: 0x_ is not a valid int$"),
        ("? [a, b]\n: c", "^not YAML: line 1, column 3: a key that is not a word$"),
        pytest.param("[" * 100_000, "^not YAML: maximum recursion depth exceeded", id="deep"),
        ("[]", "object"),
    ],
)
def test_the_error_names_the_invalid_field(text: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        parse_config(text)


@pytest.mark.parametrize(
    ("plugin", "error"),
    [
        (PluginConfig(name="dfr"), "no plugin dfr; known are .*drf"),
        (PluginConfig(name="dfr", enabled=False), "no plugin dfr"),
        (PluginConfig(name="fifo", arguments={"a": 1}), r"plugins\[fifo\].arguments: this plugin takes none"),
        (PluginConfig(name="drf", arguments={"ignore": []}), r"plugins\[drf\].arguments.ignore: "),
    ],
)
def test_the_error_names_the_invalid_plugin(plugin: PluginConfig, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        load_plugins(SchedulerConfig(plugins=(plugin,)))


@pytest.mark.parametrize(("first_ms", "max_s"), [(1, 8), (100, 4), (3000, 3), (10**9, 3)])
def test_the_shortest_bind_backoff_that_keeps_refused_binds_bounded(first_ms: int, max_s: int) -> None:
    text = f"retry: {{bindBackoffFirstMilliseconds: {first_ms}, bindBackoffMaxSeconds: %d}}"
    retry = parse_config(text % max_s).retry
    refused_at = [0, *accumulate(map(retry.bind_backoff_ms, range(40)))]
    for earlier, later in zip(refused_at, refused_at[BIND_REFUSALS_PER_MINUTE_MAX:], strict=False):
        assert later - earlier >= 60_000
    with pytest.raises(ConfigError, match=f"expected at least {max_s} "):
        parse_config(text % (max_s - 1))


def test_listed_plugins_come_first_and_the_others_stay_enabled() -> None:
    listed = (PluginConfig(name="fifo"), PluginConfig(name="taints", enabled=False))
    found = names(SchedulerConfig(plugins=listed))
    assert found[0] == "fifo"
    assert sorted(found) == sorted(set(DEFAULT_PROFILE) - {"taints"})


def entry_points_to(monkeypatch: pytest.MonkeyPatch, **classes: object) -> None:
    """Add these classes to the installed entry points."""

    class Entry:
        def __init__(self, name: str, loaded: object) -> None:
            self.name, self.value, self._loaded = name, f"package:{loaded}", loaded

        def load(self) -> object:
            return self._loaded

    known = (*registry._entry_points(), *(Entry(name, each) for name, each in classes.items()))
    monkeypatch.setattr(registry, "_entry_points", lambda: known)
    monkeypatch.setattr(registry, "plugin_class", registry.plugin_class.__wrapped__)


def test_a_foreign_plugin_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    entry_points_to(monkeypatch, foreign=Foreign)
    config = SchedulerConfig(plugins=(PluginConfig(name="foreign", arguments={"strength": 3}),))
    first = load_plugins(config)[0]
    assert isinstance(first, Foreign)
    assert first._strength == 3


@pytest.mark.parametrize(
    ("name", "loaded", "error"),
    [
        ("other", Foreign, "other.*has the name foreign"),
        ("foreign", object, "no subclass of phalanx.framework.plugin.Plugin"),
        ("drf", Foreign, "several plugins are named drf"),
        ("unreadable", Unreadable, r"plugins\[unreadable\]: .*FileNotFoundError\('quota.json'\)"),
    ],
)
def test_the_error_names_the_invalid_entry_point(
    name: str, loaded: object, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry_points_to(monkeypatch, **{name: loaded})
    with pytest.raises(ConfigError, match=error):
        load_plugins(SchedulerConfig(plugins=(PluginConfig(name=name),)))


@pytest.mark.parametrize(("name", "loaded"), [("broken", object), ("drf", Foreign)])
def test_a_plugin_that_cannot_be_loaded_can_be_disabled(
    name: str, loaded: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry_points_to(monkeypatch, **{name: loaded})
    config = SchedulerConfig(plugins=(PluginConfig(name=name, enabled=False),))
    assert names(config) == [each for each in DEFAULT_PROFILE if each != name]
    declared_reads(config)


def test_every_built_in_plugin_has_the_name_of_its_entry_point() -> None:
    assert names(SchedulerConfig()) == list(DEFAULT_PROFILE)
