"""The configuration that is in effect: all defaults filled in, all plugins in their order."""

from typing import Any

import msgspec

from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.framework.registry import configured_plugins, plugin_arguments


def effective(config: SchedulerConfig) -> dict[str, Any]:
    """All keys with their values, as a file with the same effect. The plugins must be valid."""
    values: dict[str, Any] = msgspec.to_builtins(config)
    values["plugins"] = [_plugin(entry) for entry in configured_plugins(config)]
    return values


def _plugin(entry: PluginConfig) -> dict[str, Any]:
    """Arguments of a disabled plugin are as they are in the file: it is not imported."""
    arguments = plugin_arguments(entry) if entry.enabled else entry.arguments
    shown = msgspec.to_builtins(arguments)
    return {"name": entry.name, "enabled": entry.enabled} | ({"arguments": shown} if shown else {})
