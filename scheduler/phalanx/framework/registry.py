"""Find plugins by the name of their entry point in the group `phalanx.plugins`, built-in or foreign."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import msgspec
from msgspec import Struct

from phalanx.framework.config import ConfigError, PluginConfig, SchedulerConfig
from phalanx.framework.plugin import Plugin, PluginError
from phalanx.framework.pod_view import DeclaredReads
from phalanx.framework.pod_view import declared_reads as reads_of
from phalanx.framework.profile import DEFAULT_PROFILE

ENTRY_POINT_GROUP: Final = "phalanx.plugins"


def load_plugins(config: SchedulerConfig) -> tuple[Plugin, ...]:
    """New plugin objects for one cycle, in the order in which they are asked.

    Raises ConfigError for a name or an argument that is unknown, for a plugin that breaks the protocol, and
    for an error in its constructor.
    """
    return tuple(_make(entry, plugin) for entry, plugin in _enabled(config))


def declared_reads(config: SchedulerConfig) -> DeclaredReads:
    """The fields that the enabled plugins declare to read, which must be decoded and stored."""
    return reads_of(plugin_classes(config))


def plugin_classes(config: SchedulerConfig) -> tuple[type[Plugin], ...]:
    """The classes of the enabled plugins, in the order in which they are asked. Raises ConfigError."""
    return tuple([plugin for _, plugin in _enabled(config)])


def _enabled(config: SchedulerConfig) -> list[tuple[PluginConfig, type[Plugin]]]:
    """The enabled plugins with their classes. Disabled ones are not imported, since they may be broken."""
    listed = {entry.name for entry in config.plugins}
    default = (PluginConfig(name=name) for name in DEFAULT_PROFILE if name not in listed)
    for entry in config.plugins:
        if not entry.enabled:
            _named(entry.name)
    return [(entry, plugin_class(entry.name)) for entry in (*config.plugins, *default) if entry.enabled]


@cache
def plugin_class(name: str) -> type[Plugin]:
    """The class behind an entry point. Raises ConfigError."""
    found = _named(name)
    if len({entry.value for entry in found}) > 1:
        origins = " and ".join(sorted(entry.value for entry in found))
        raise ConfigError(f"plugins: several plugins are named {name}: {origins}")
    try:
        loaded = found[0].load()
    except PluginError as error:
        raise ConfigError(f"plugins[{name}]: {error}") from error
    except Exception as error:
        raise ConfigError(f"plugins[{name}]: cannot import {found[0].value}: {error!r}") from error
    if not (isinstance(loaded, type) and issubclass(loaded, Plugin)):
        raise ConfigError(
            f"plugins[{name}]: {found[0].value} is no subclass of phalanx.framework.plugin.Plugin"
        )
    if loaded.name != name:
        raise ConfigError(f"plugins[{name}]: {found[0].value} has the name {loaded.name}; both must be equal")
    return loaded


def _named(name: str) -> list[EntryPoint]:
    """The entry points of this name, at least one. Raises ConfigError."""
    found = [entry for entry in _entry_points() if entry.name == name]
    if not found:
        raise ConfigError(_unknown(name))
    return found


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    """All entry points; cached, since this reads the metadata of all installed distributions."""
    return tuple(entry_points(group=ENTRY_POINT_GROUP))


def _unknown(name: str) -> str:
    if name in DEFAULT_PROFILE:
        return f"plugins: {name} of the default profile is not installed; install phalanx-scheduler again"
    known = ", ".join(sorted({entry.name for entry in _entry_points()}))
    return f"plugins: there is no plugin {name}; known are {known}"


def _make(entry: PluginConfig, plugin: type[Plugin]) -> Plugin:
    arguments = _arguments(entry, plugin)
    try:
        return plugin(*arguments)  # the constructor takes what Arguments declares
    except Exception as error:
        raise ConfigError(f"plugins[{entry.name}]: the constructor failed: {error!r}") from error


def _arguments(entry: PluginConfig, plugin: type[Plugin]) -> tuple[Struct, ...]:
    if plugin.Arguments is None:
        if entry.arguments:
            raise ConfigError(f"plugins[{entry.name}].arguments: this plugin takes none")
        return ()
    try:
        return (msgspec.convert(entry.arguments, plugin.Arguments),)
    except msgspec.ValidationError as error:
        raise ConfigError(f"plugins[{entry.name}].arguments: {error}") from error
