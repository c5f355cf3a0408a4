"""Errors of the configuration name where it comes from."""

import pytest
from phalanx.cli.configuration import read_config
from phalanx.cli.exits import BadInput
from phalanx.framework import registry


def test_an_error_without_a_file_names_the_default_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin of the default profile is not installed."""
    installed = [entry for entry in registry._entry_points() if entry.name != "drf"]
    monkeypatch.setattr(registry, "_entry_points", lambda: tuple(installed))
    monkeypatch.setattr(registry, "plugin_class", registry.plugin_class.__wrapped__)
    with pytest.raises(BadInput, match=r"the default configuration: .*drf"):
        read_config(None)
