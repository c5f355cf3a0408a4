"""docs/plugins.md says what is: each plugin in its own words, and an example that works."""

from importlib import import_module
from pathlib import Path

import pytest
from phalanx.framework import registry
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.framework.profile import DEFAULT_PROFILE
from phalanx.framework.registry import plugin_class

from tests.builders import Scenario
from tests.plugins import example

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "plugins.md").read_text()


@pytest.mark.parametrize("name", DEFAULT_PROFILE)
def test_a_built_in_plugin_is_listed_in_its_own_words(name: str) -> None:
    documentation = import_module(plugin_class(name).__module__).__doc__ or ""
    assert f"| `{name}` | {documentation.strip().splitlines()[0]} |" in TEXT


def test_the_example_is_the_tested_one() -> None:
    source = (ROOT / "tests" / "plugins" / "example.py").read_text()
    assert source[source.index("from msgspec") :].rstrip() in TEXT


def test_the_example_works(monkeypatch: pytest.MonkeyPatch) -> None:
    find = registry.plugin_class
    monkeypatch.setattr(
        registry, "plugin_class", lambda name: example.Tiers if name == "tiers" else find(name)
    )
    config = SchedulerConfig(plugins=(PluginConfig(name="tiers", arguments={"suffix": "-test"}),))
    scenario = Scenario().nodes("a", labels={"tier": "spare"}).nodes("p", labels={"tier": "production"})
    scenario.nodes("z").gang("dev", 1, namespace="x-dev", cpu=64).gang("test", 1, namespace="x-test", cpu=64)
    result = scenario.gang("last", 1, namespace="y-test", cpu=64).decide(config)
    assert (result.where("dev"), result.where("test"), result.where("last")) == ({"p": 1}, {"z": 1}, {"a": 1})
