"""Find plugins by the name of their entry point in the group `phalanx.plugins`, built-in or foreign."""

from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import msgspec
from msgspec import Struct

from phalanx.framework.config import ConfigError, PluginConfig, SchedulerConfig, error_of
from phalanx.framework.plugin import Plugin, PluginError
from phalanx.framework.pod_view import DeclaredReads
from phalanx.framework.pod_view import declared_reads as reads_of
from phalanx.framework.profile import DEFAULT_PROFILE
from phalanx.model.allocation_prices import AllocationPrices
from phalanx.model.images import ImagePrices
from phalanx.model.spread_defaults import DefaultConstraint, SpreadDefaults

ENTRY_POINT_GROUP: Final = "phalanx.plugins"


def load_plugins(config: SchedulerConfig) -> tuple[Plugin, ...]:
    """New plugin objects for one cycle, in the order in which they are asked.

    Raises ConfigError for a name or an argument that is unknown, for a plugin that breaks the protocol, and
    for an error in its constructor.
    """
    return tuple(_make(entry, plugin) for entry, plugin in _enabled(config))


def plugin_errors(config: SchedulerConfig) -> Iterator[ConfigError]:
    """What `load_plugins` refuses: the first error of each plugin."""
    for entry in configured_plugins(config):
        try:
            if entry.enabled:
                _make(entry, plugin_class(entry.name))
            else:
                _named(entry.name)
        except ConfigError as error:
            yield error


def declared_reads(config: SchedulerConfig) -> DeclaredReads:
    """The fields that the enabled plugins declare to read, which must be decoded and stored."""
    return reads_of(plugin_classes(config))


def default_spread(config: SchedulerConfig) -> tuple[DefaultConstraint, ...]:
    """The topology spread constraints of pods that have none, which are read with the pods."""
    arguments = (each for entry, plugin in _enabled(config) for each in _arguments(entry, plugin))
    return next((each.default_constraints for each in arguments if isinstance(each, SpreadDefaults)), ())


def reads_images(config: SchedulerConfig) -> bool:
    """Whether images have a price, so that they are read with pods and nodes."""
    arguments = (each for entry, plugin in _enabled(config) for each in _arguments(entry, plugin))
    return any(isinstance(each, ImagePrices) and each.weight for each in arguments)


def prices_usage(config: SchedulerConfig) -> bool:
    """Whether the allocation of nodes has a price, so that costs change with each placement."""
    arguments = (each for entry, plugin in _enabled(config) for each in _arguments(entry, plugin))
    return any(isinstance(each, AllocationPrices) and each.are_set for each in arguments)


def plugin_classes(config: SchedulerConfig) -> tuple[type[Plugin], ...]:
    """The classes of the enabled plugins, in the order in which they are asked. Raises ConfigError."""
    return tuple([plugin for _, plugin in _enabled(config)])


def plugin_arguments(entry: PluginConfig) -> Struct | None:
    """The arguments of a plugin, with their defaults; None for a plugin without any. Raises ConfigError."""
    return next(iter(_arguments(entry, plugin_class(entry.name))), None)


def installed_plugins() -> frozenset[str]:
    """The names of all installed plugins, also of those that cannot be loaded."""
    return frozenset(entry.name for entry in _entry_points())


def _enabled(config: SchedulerConfig) -> list[tuple[PluginConfig, type[Plugin]]]:
    """The enabled plugins with their classes. Disabled ones are not imported, since they may be broken."""
    for entry in config.plugins:
        if not entry.enabled:
            _named(entry.name)
    return [(entry, plugin_class(entry.name)) for entry in configured_plugins(config) if entry.enabled]


def configured_plugins(config: SchedulerConfig) -> tuple[PluginConfig, ...]:
    """All plugins in their order, those that are disabled included: those that the configuration lists, then
    the others of the default profile."""
    listed = {entry.name for entry in config.plugins}
    default = (PluginConfig(name=name) for name in DEFAULT_PROFILE if name not in listed)
    return (*config.plugins, *default)


@cache
def plugin_class(name: str) -> type[Plugin]:
    """The class behind an entry point. Raises ConfigError."""
    found = _named(name)
    if len({entry.value for entry in found}) > 1:
        origins = " and ".join(sorted(entry.value for entry in found))
        raise ConfigError(f"several plugins are named {name}: {origins}", path=("plugins", name))
    try:
        loaded = found[0].load()
    except PluginError as error:
        raise ConfigError(str(error), path=("plugins", name)) from error
    except Exception as error:
        raise ConfigError(f"cannot import {found[0].value}: {error!r}", path=("plugins", name)) from error
    if not (isinstance(loaded, type) and issubclass(loaded, Plugin)):
        raise ConfigError(
            f"{found[0].value} is no subclass of phalanx.framework.plugin.Plugin", path=("plugins", name)
        )
    if loaded.name != name:
        raise ConfigError(
            f"{found[0].value} has the name {loaded.name}; both must be equal", path=("plugins", name)
        )
    return loaded


def _named(name: str) -> list[EntryPoint]:
    """The entry points of this name, at least one. Raises ConfigError."""
    found = [entry for entry in _entry_points() if entry.name == name]
    if not found:
        raise ConfigError(_unknown(name), path=("plugins", name))
    return found


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    """All entry points; cached, since this reads the metadata of all installed distributions."""
    return tuple(entry_points(group=ENTRY_POINT_GROUP))


def _unknown(name: str) -> str:
    if name in DEFAULT_PROFILE:
        return f"{name} of the default profile is not installed; install phalanx-scheduler again"
    known = ", ".join(sorted({entry.name for entry in _entry_points()}))
    return f"there is no plugin {name}; known are {known}"


def _make(entry: PluginConfig, plugin: type[Plugin]) -> Plugin:
    arguments = _arguments(entry, plugin)
    try:
        return plugin(*arguments)  # the constructor takes what Arguments declares
    except Exception as error:
        raise ConfigError(f"the constructor failed: {error!r}", path=("plugins", entry.name)) from error


def _arguments(entry: PluginConfig, plugin: type[Plugin]) -> tuple[Struct, ...]:
    path = ("plugins", entry.name, "arguments")
    if plugin.Arguments is None:
        if entry.arguments:
            raise ConfigError("this plugin takes none", path=path)
        return ()
    try:
        return (msgspec.convert(entry.arguments, plugin.Arguments),)
    except msgspec.ValidationError as error:
        raise error_of(error, below=path) from error
